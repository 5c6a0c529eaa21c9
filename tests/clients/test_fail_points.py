"""Fail points, as applications and drivers use them to test what they do when a server fails."""

import time

import pytest
import requests
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, NetworkTimeout, OperationFailure, WriteConcernError
from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("fail_points"), environment={"DIWAN_TEST_COMMANDS": "true"}).start()
    yield process
    process.end()


@pytest.fixture
def client(server):
    with MongoClient(server.uri, appname="tested") as client:
        yield client
        client.admin.command("configureFailPoint", "failCommand", mode="off")


def fail(client, mode, **data):
    return client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)["count"]


def test_command_is_unknown_without_the_flag(tmp_path):
    server = ServerProcess(tmp_path).start()
    with MongoClient(server.uri) as client:
        with pytest.raises(OperationFailure, match="no such command: 'configureFailPoint'") as refused:
            client.admin.command("configureFailPoint", "failCommand", mode="off")
        assert refused.value.code == 59
        assert "configureFailPoint" not in client.admin.command("listCommands")["commands"]
        assert client.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"] is False
    server.end()


def test_drivers_see_that_test_commands_are_enabled(client):
    assert client.admin.command("getCmdLineOpts")["parsed"]["setParameter"]["enableTestCommands"] is True
    assert client.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"] is True


def test_retryable_writes_and_reads_are_sent_again(client):
    things = client.test.retried
    things.drop()
    before = fail(client, "off")
    fail(client, {"times": 1}, failCommands=["insert"], errorCode=11602)
    things.insert_one({"_id": 1})
    fail(client, {"times": 1}, failCommands=["find"], closeConnection=True)
    assert things.find_one() == {"_id": 1}
    assert fail(client, "off") == before + 2
    assert things.count_documents({}) == 1


def test_error_that_is_not_retryable_reaches_the_application(client):
    fail(client, {"times": 1}, failCommands=["aggregate"], errorCode=8000, errorLabels=["Odd"])
    with pytest.raises(OperationFailure, match="Failing command via 'failCommand' failpoint") as failed:
        list(client.test.retried.aggregate([]))
    assert failed.value.code == 8000 and failed.value.has_error_label("Odd")


def test_closed_connection_is_an_error_without_retries(server):
    with MongoClient(server.uri, retryReads=False, appname="closed") as client:
        fail(client, {"times": 1}, failCommands=["find"], closeConnection=True, appName="closed")
        with pytest.raises(AutoReconnect):
            client.test.retried.find_one()
        assert client.test.retried.find_one() is not None


def test_write_happens_although_its_concern_fails(client):
    things = client.test.concerned
    things.drop()
    fail(client, {"times": 1}, failCommands=["insert"], writeConcernError={"code": 100, "errmsg": "not enough"})
    with pytest.raises(WriteConcernError, match="not enough"):
        things.insert_one({"_id": 1})
    assert things.count_documents({}) == 1


def test_commands_are_delayed_for_one_application(server, client):
    fail(client, "alwaysOn", failCommands=["ping"], blockConnection=True, blockTimeMS=400, appName="slow")
    begun = time.monotonic()
    client.admin.command("ping")
    assert time.monotonic() - begun < 0.4
    with MongoClient(server.uri, appname="slow", socketTimeoutMS=100) as slow, pytest.raises(NetworkTimeout):
        slow.admin.command("ping")


def test_wrong_settings_are_refused(client):
    for mode, data, code in [("sometimes", {}, 2), ({"times": -1}, {}, 2), ("off", {"failCommands": 1}, 14)]:
        with pytest.raises(OperationFailure) as refused:
            fail(client, mode, **data)
        assert refused.value.code == code
    with pytest.raises(OperationFailure, match="nothing not found") as refused:
        client.admin.command("configureFailPoint", "nothing", mode="off")
    assert refused.value.code == 249


def test_closed_connection_is_an_error_over_http(server, client):
    fail(client, {"times": 2}, failCommands=["find"], closeConnection=True)
    url = f"{server.url.rstrip('/')}/_diwan/command/test"
    for status in (400, 400, 200):
        assert requests.post(url, json={"find": "retried"}, timeout=10).status_code == status
