"""Readers of `local.oplog.rs`: as Meteor and other followers of the operation log read it."""

import threading
import time
import uuid

import pytest
from bson import Timestamp
from pymongo import CursorType, MongoClient
from pymongo.errors import OperationFailure


@pytest.fixture
def oplog(client):
    return client.local["oplog.rs"]


@pytest.fixture
def things(client, oplog):
    """An empty collection whose changes are in the log."""
    oplog.find_one()
    name = f"things_{uuid.uuid4().hex[:10]}"
    collection = client.oplog_test[name]
    collection.insert_one({"_id": 0})
    yield collection
    collection.drop()


def newest(oplog):
    return oplog.find_one({}, sort=[("$natural", -1)])


def entries(oplog, collection, after: Timestamp):
    return list(oplog.find({"ts": {"$gt": after}, "ns": collection.full_name}))


def test_entries_have_mongodbs_form(oplog, things):
    start = newest(oplog)["ts"]
    things.insert_one({"_id": 1, "a": {"b": [1, 2, 3, 4]}, "gone": 1})
    things.update_one({"_id": 1}, {"$set": {"a.b.1": 9, "c": 1}, "$unset": {"gone": 1}})
    things.replace_one({"_id": 1}, {"x": 1})
    things.delete_one({"_id": 1})
    insert, update, replace, delete = entries(oplog, things, start)
    assert (insert["op"], insert["o"], insert["o2"]) == ("i", {"_id": 1, "a": {"b": [1, 2, 3, 4]}, "gone": 1}, {"_id": 1})
    assert update["op"] == "u" and update["o2"] == {"_id": 1}
    assert update["o"] == {
        "$v": 2, "diff": {"d": {"gone": False}, "u": {"c": 1}, "sa": {"sb": {"a": True, "u1": 9}}},
    }
    assert (replace["op"], replace["o"]) == ("u", {"_id": 1, "x": 1})
    assert (delete["op"], delete["o"]) == ("d", {"_id": 1})
    assert all(e["v"] == 2 and e["t"] == 1 and e["ui"] and e["wall"] for e in (insert, update, replace, delete))
    assert insert["ts"] < update["ts"] < replace["ts"] < delete["ts"] == newest(oplog)["ts"]


def test_commands_and_transactions_are_entries(client, oplog, things):
    start = newest(oplog)["ts"]
    db = things.database
    name = f"made_{uuid.uuid4().hex[:10]}"
    db.create_collection(name)
    db[name].create_index("x")
    db[name].rename(name + "_2")
    with client.start_session() as session, session.start_transaction():
        db[name + "_2"].insert_many([{"_id": 1}, {"_id": 2}], session=session)
        things.update_one({"_id": 0}, {"$set": {"n": 1}}, session=session)
    db.drop_collection(name + "_2")
    found = list(oplog.find({"ts": {"$gt": start}, "op": "c", "ns": {"$in": ["oplog_test.$cmd", "admin.$cmd"]}}))
    assert [next(iter(e["o"])) for e in found] == ["create", "createIndexes", "renameCollection", "applyOps", "drop"]
    assert found[2]["o"]["to"] == f"oplog_test.{name}_2"
    operations = found[3]["o"]["applyOps"]
    assert [(o["op"], o["ns"].split(".")[1]) for o in operations] == [("i", name + "_2")] * 2 + [("u", things.name)]
    assert found[3]["lsid"]["id"] and found[3]["txnNumber"] >= 1
    reverse = list(oplog.find({"ts": {"$gt": start}, "op": "c"}).sort("$natural", -1))
    assert [e["ts"] for e in reverse] == [e["ts"] for e in reversed(list(oplog.find({"ts": {"$gt": start}, "op": "c"})))]


def test_meteor_like_reader_tails_from_the_newest_entry(oplog, things):
    last = newest(oplog)["ts"]
    selector = {
        "ns": {"$regex": r"^(?:oplog_test\.|admin\.\$cmd)"},
        "$or": [{"op": {"$in": ["i", "u", "d"]}}, {"op": "c", "o.drop": {"$exists": True}}, {"op": "c", "o.applyOps": {"$exists": True}}],
        "ts": {"$gt": last},
    }
    cursor = oplog.find(selector, cursor_type=CursorType.TAILABLE_AWAIT, oplog_replay=True).max_await_time_ms(2000)
    writer = threading.Timer(0.2, lambda: things.insert_many([{"_id": "a"}, {"_id": "b"}]))
    writer.start()
    seen = []
    deadline = time.monotonic() + 10
    while len(seen) < 3 and time.monotonic() < deadline:
        for entry in cursor:
            seen.append((entry["op"], entry["o"]["_id"]))
            if len(seen) == 2:
                things.delete_one({"_id": "a"})
    assert seen == [("i", "a"), ("i", "b"), ("d", "a")]
    cursor.close()


def test_reader_resumes_after_a_kill(stored_server):
    def read(client, after):
        return list(client.local["oplog.rs"].find({"ts": {"$gt": after}, "op": "i"}))

    with MongoClient(stored_server.uri) as client:
        start = newest(client.local["oplog.rs"])["ts"]
        client.test.c.insert_many({"_id": i} for i in range(5))
        (first, *_) = read(client, start)
    stored_server.kill()
    stored_server.start()
    with MongoClient(stored_server.uri) as client:
        client.test.c.insert_one({"_id": 5})
        assert [e["o"]["_id"] for e in read(client, first["ts"])] == [1, 2, 3, 4, 5]
        with client.test.watch(start_at_operation_time=first["ts"]) as stream:
            assert [stream.next()["documentKey"]["_id"] for _ in range(6)] == [0, 1, 2, 3, 4, 5]


def test_oplog_is_read_only_and_listed(client, oplog):
    for write in (lambda: oplog.insert_one({}), lambda: client.local.command("create", "oplog.rs")):
        with pytest.raises(OperationFailure) as caught:
            write()
        assert caught.value.code == 73
    (shown,) = client.local.list_collections(filter={"name": "oplog.rs"})
    assert shown["options"]["capped"]
    assert oplog.count_documents({}) >= 1
    assert oplog.find_one({"op": "n"})["o"]
