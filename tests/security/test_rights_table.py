"""The table of rights is what a server does."""

import os

import pytest
import rights
from server_process import ServerProcess


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    environment = {"DIWAN_ROOT_USERNAME": rights.ADMINISTRATOR, "DIWAN_ROOT_PASSWORD": rights.PASSWORD}
    server = ServerProcess(tmp_path_factory.mktemp("rights"), environment=environment).start()
    yield rights.measure(server)
    server.end()


def test_documented_rights_are_those_of_the_server(table):
    if os.environ.get("DIWAN_WRITE_RIGHTS"):
        rights.TABLE.write_text(table.text())
    assert rights.TABLE.read_text() == table.text(), "run `make rights` and read the difference"


def test_stranger_reaches_greetings_alone(table):
    commands = {name for name, marks in table.commands.items() if marks[0]}
    assert commands <= {
        "authenticate", "buildInfo", "buildinfo", "connectionStatus", "endSessions", "hello", "isMaster", "ismaster", "logout", "ping",
        "saslContinue", "saslStart", "whatsmyuri",
    }  # fmt: skip
    routes = {name for name, marks in table.routes.items() if marks[0]}
    # A wrong password answers 401, and so does `POST /_session` without one.
    greetings = {"GET /", "GET /_up", "GET /_session", "DELETE /_session", "POST /_session", "GET /favicon.ico"}
    page = {"GET /_utils", "GET /_utils/{rest*}"}
    assert routes <= greetings | page


def test_root_may_do_everything(table):
    for rows in (table.commands, table.routes):
        assert [name for name, marks in rows.items() if not marks[4]] == []
