"""Sessions and retryable writes, also across a crash. Transactions are refused."""

import uuid

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern
from wire import WireConnection


def session_id():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


@pytest.fixture
def wire(server):
    with WireConnection(server.port) as connection:
        yield connection


def send(connection, database, name, arguments, session, number):
    """Sends a write with a session and a transaction number, as drivers do. The same write can be sent again."""
    return connection.command(database, {name: "c", **arguments, "lsid": session, "txnNumber": Int64(number)})


def test_hello_reports_sessions_and_the_replica_set(client):
    hello = client.admin.command("hello")
    assert hello["logicalSessionTimeoutMinutes"] == 30
    assert hello["setName"] and hello["isWritablePrimary"] is True
    assert hello["me"] == hello["primary"] == hello["hosts"][0]


def test_operations_run_in_a_session(client, db, wire):
    with client.start_session(causal_consistency=True) as session:
        db.c.insert_one({"_id": 1}, session=session)
        assert session.operation_time is not None and session.cluster_time is not None
        assert db.c.find_one(session=session) == {"_id": 1}
        majority = db.get_collection("c", read_concern=ReadConcern("majority"))
        assert majority.count_documents({}, session=session) == 1
    with pytest.raises(OperationFailure) as caught:
        wire.command(db.name, {"find": "c", "lsid": {"id": "text"}})
    assert caught.value.code == 14


def test_repeated_retryable_write_is_done_once(db, wire):
    session = session_id()
    insert = {"documents": [{"_id": 1, "n": 0}, {"_id": 2, "n": 0}]}
    assert send(wire, db.name, "insert", insert, session, 1)["n"] == 2
    assert send(wire, db.name, "insert", insert, session, 1)["n"] == 2
    update = {"updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
    for _ in range(3):
        reply = send(wire, db.name, "update", update, session, 2)
        assert (reply["n"], reply["nModified"]) == (1, 1)
    assert db.c.find_one({"_id": 1})["n"] == 1
    modify = {"query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True}
    for _ in range(2):
        assert send(wire, db.name, "findAndModify", modify, session, 3)["value"] == {"_id": 1, "n": 2}
    delete = {"deletes": [{"q": {"_id": 2}, "limit": 1}]}
    for _ in range(2):
        assert send(wire, db.name, "delete", delete, session, 4)["n"] == 1
    assert list(db.c.find()) == [{"_id": 1, "n": 2}]
    with pytest.raises(OperationFailure) as caught:
        send(wire, db.name, "update", update, session, 3)
    assert caught.value.code == 225


def test_results_of_retryable_writes_survive_a_crash(stored_server):
    session = session_id()
    with WireConnection(stored_server.port) as wire:
        insert = {"documents": [{"_id": i, "n": 0} for i in range(5)]}
        assert send(wire, "test", "insert", insert, session, 1)["n"] == 5
        update = {"updates": [{"q": {"_id": i}, "u": {"$inc": {"n": 1}}} for i in range(5)]}
        first = send(wire, "test", "update", update, session, 2)
        other = session_id()
        modify = {"query": {"_id": 0}, "update": {"$inc": {"n": 10}}, "new": True}
        value = send(wire, "test", "findAndModify", modify, other, 1)["value"]
    stored_server.kill()
    stored_server.start()
    with WireConnection(stored_server.port) as wire:
        again = send(wire, "test", "update", update, session, 2)
        assert (again["n"], again["nModified"]) == (first["n"], first["nModified"]) == (5, 5)
        assert send(wire, "test", "findAndModify", modify, other, 1)["value"] == value == {"_id": 0, "n": 11}
        assert sorted(d["n"] for d in wire.command("test", {"find": "c"})["cursor"]["firstBatch"]) == [1, 1, 1, 1, 11]
        with pytest.raises(OperationFailure) as caught:
            send(wire, "test", "insert", insert, session, 1)
        assert caught.value.code == 225


def test_driver_retries_a_write_after_a_restart(stored_server):
    with MongoClient(stored_server.uri, retryWrites=True) as client:
        client.test.c.insert_one({"_id": 1, "n": 0})
        stored_server.stop()
        stored_server.start()
        # The pooled connection is closed. The driver notices it during the write, reconnects and retries.
        assert client.test.c.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count == 1
        assert client.test.c.find_one()["n"] == 1


def test_acknowledged_writes_survive_a_crash(stored_server):
    with MongoClient(stored_server.uri) as client:
        client.test.c.create_index("n", unique=True)
        client.test.c.insert_many({"_id": i, "n": i} for i in range(1000))
        client.test.get_collection("c", write_concern=WriteConcern(w=1)).delete_one({"_id": 0})
    for _ in range(2):
        stored_server.kill()
        stored_server.start()
        with MongoClient(stored_server.uri) as client:
            assert client.test.c.count_documents({}) == 999
            assert client.test.c.find({"n": {"$gte": 990}}).hint("n_1").to_list()[-1] == {"_id": 999, "n": 999}
            assert "n_1" in client.test.c.index_information()


def test_write_concerns_are_accepted_or_reported(client, db):
    for concern in ({"w": 1}, {"w": "majority"}, {"w": 1, "j": True}, {"w": "majority", "wtimeout": 1000}):
        db.get_collection("c", write_concern=WriteConcern(**concern)).insert_one({})
    assert db.c.count_documents({}) == 4
    reply = db.command("insert", "c", documents=[{"_id": "x"}], writeConcern={"w": 2, "wtimeout": 100})
    assert reply["n"] == 1
    assert reply["writeConcernError"]["code"] in (64, 100)


def test_killed_session_closes_its_cursors(client, db, wire):
    session = session_id()
    db.c.insert_many({"_id": i} for i in range(10))
    reply = wire.command(db.name, {"find": "c", "batchSize": 2, "lsid": session})
    client.admin.command("killSessions", [session])
    with pytest.raises(OperationFailure) as caught:
        wire.command(db.name, {"getMore": Int64(reply["cursor"]["id"]), "collection": "c", "lsid": session})
    assert caught.value.code == 43
    client.admin.command("refreshSessions", [session])
    client.admin.command("endSessions", [session])


def test_default_write_concern_survives_a_restart(stored_server):
    with MongoClient(stored_server.uri) as client:
        reply = client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1})
        assert reply["defaultWriteConcern"]["w"] == 1
        client.test.c.insert_one({"_id": 1})
    stored_server.stop()
    stored_server.start()
    with MongoClient(stored_server.uri) as client:
        reply = client.admin.command("getDefaultRWConcern")
        assert (reply["defaultWriteConcern"], reply["defaultWriteConcernSource"]) == ({"w": 1}, "global")
        with pytest.raises(OperationFailure, match="cannot be unset"):
            client.admin.command("setDefaultRWConcern", defaultWriteConcern={})
