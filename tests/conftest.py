"""Servers for the tests: one in memory that most tests share, and servers on directories that tests start and stop."""

import re

import pytest
from http_client import Http
from pymongo import MongoClient
from server_process import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server in memory that all tests share."""
    process = ServerProcess(tmp_path_factory.mktemp("server")).start()
    yield process
    process.end()


@pytest.fixture
def stored_server(tmp_path):
    """A server on a directory of its own."""
    process = ServerProcess(tmp_path, data=tmp_path / "data").start()
    yield process
    if process.process is not None:
        process.stop()
    process.check_log()


@pytest.fixture(scope="session")
def client(server):
    with MongoClient(server.uri) as client:
        yield client


@pytest.fixture(scope="session")
def http(server):
    """The HTTP face of the shared server."""
    return Http(server.url)


@pytest.fixture
def couch(request, http):
    """A database of the test's own, over HTTP; empty at the start and deleted at the end."""
    name = "c-" + re.sub(r"[^a-z0-9_]", "_", request.node.name.lower())[:60]
    database = http.database(name)
    database.delete()
    assert database.put().status_code == 201
    yield database
    database.delete()


@pytest.fixture
def database_name(request, client):
    """The name of a database of the test's own, empty at the start and dropped at the end."""
    name = re.sub(r"\W", "_", request.node.name)[:60]
    client.drop_database(name)
    yield name
    client.drop_database(name)


@pytest.fixture
def db(client, database_name):
    return client[database_name]
