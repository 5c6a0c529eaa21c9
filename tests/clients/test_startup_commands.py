"""The commands that graphical clients and shells send when they connect, and the fields they expect."""

import pytest
from pymongo.errors import OperationFailure


def test_startup_commands_of_graphical_clients(client, db):
    admin = client.admin
    build = admin.command("buildInfo")
    assert build["version"].split(".")[0].isdigit() and len(build["versionArray"]) == 4
    assert build["maxBsonObjectSize"] == 16 * 1024 * 1024
    host = admin.command("hostInfo")
    assert host["system"]["numCores"] >= 1 and host["os"]["name"]
    status = admin.command("connectionStatus", showPrivileges=True)
    assert status["authInfo"]["authenticatedUsers"] == []
    assert admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"]
    log = admin.command("getLog", "startupWarnings")
    assert log["totalLinesWritten"] >= len(log["log"])
    assert admin.command("getCmdLineOpts")["parsed"] is not None
    server_status = admin.command("serverStatus")
    assert {"host", "version", "process", "uptime", "connections", "opcounters", "network", "mem"} <= set(server_status)
    assert admin.command("top")["totals"] is not None
    assert isinstance(admin.command("currentOp")["inprog"], list)
    assert admin.command("whatsmyuri")["you"].startswith("127.0.0.1:")
    assert admin.command("listCommands")["commands"]["find"]
    assert admin.command("usersInfo", 1)["users"] == []
    assert client.local.command("count", "atlascli")["n"] == 0
    assert client.admin.atlascli.count_documents({}) == 0
    assert client.admin.command("listDatabases", nameOnly=True, filter={"name": db.name})["databases"] == []


@pytest.mark.parametrize("command", ["atlasVersion", "atlasSize"])
def test_commands_of_the_hosted_service_are_not_found(client, command):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(command)
    assert (caught.value.code, caught.value.details["codeName"]) == (59, "CommandNotFound")


@pytest.mark.parametrize("verbosity", ["queryPlanner", "executionStats", "allPlansExecution"])
def test_explain_of_every_command_changes_nothing(db, verbosity):
    db.c.insert_many({"_id": i, "a": i} for i in range(10))
    commands = [
        {"find": "c", "filter": {"a": 1}},
        {"count": "c", "query": {"a": 1}},
        {"distinct": "c", "key": "a"},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": "$a"}}], "cursor": {}},
        {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"b": 1}}}]},
        {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 1}]},
        {"findAndModify": "c", "query": {"a": 1}, "update": {"$set": {"b": 1}}},
    ]
    for command in commands:
        reply = db.command("explain", command, verbosity=verbosity)
        planner = reply.get("queryPlanner") or reply["stages"][0]["$cursor"]["queryPlanner"]
        assert planner["namespace"] == f"{db.name}.c"
        assert planner["winningPlan"]["stage"]
        assert reply["serverInfo"]["version"]
    assert db.c.count_documents({"b": 1}) == 0
    assert db.c.count_documents({}) == 10
