"""Cursors: batches, limits, closing, tailable and exhaust cursors."""

import threading
import time

import pytest
from bson import Int64
from pymongo import CursorType, MongoClient
from pymongo.errors import CursorNotFound, ExecutionTimeout, OperationFailure


@pytest.fixture
def filled(db):
    db.c.insert_many({"_id": i, "n": i % 7} for i in range(250))
    return db.c


def test_every_batch_size_yields_every_document(filled):
    for size in (0, 1, 2, 100, 101, 249, 250, 251):
        assert [d["_id"] for d in filled.find().batch_size(size or 3).sort("_id")] == list(range(250))
        assert len(list(filled.aggregate([{"$match": {}}], batchSize=size))) == 250


def test_first_batch_has_101_documents_and_later_ones_fill_up(filled):
    reply = filled.database.command("find", "c")
    assert len(reply["cursor"]["firstBatch"]) == 101
    more = filled.database.command("getMore", reply["cursor"]["id"], collection="c")
    assert len(more["cursor"]["nextBatch"]) == 149
    assert more["cursor"]["id"] == 0


def test_single_batch_and_limit_close_the_cursor(filled):
    assert filled.database.command("find", "c", batchSize=3, singleBatch=True)["cursor"]["id"] == 0
    assert len(list(filled.find(limit=10).batch_size(4))) == 10
    assert len(list(filled.find(limit=-4))) == 4
    reply = filled.database.command("find", "c", batchSize=0)
    assert reply["cursor"]["firstBatch"] == []
    assert reply["cursor"]["id"] != 0


def test_cursor_survives_writes_to_its_collection(filled):
    cursor = filled.find().sort("_id").batch_size(10)
    seen = [next(cursor)["_id"] for _ in range(10)]
    filled.delete_many({"_id": {"$gte": 100}})
    seen += [d["_id"] for d in cursor]
    assert seen == list(range(100))


def test_killed_and_unknown_cursors_are_not_found(filled):
    cursor = filled.find(batch_size=2)
    next(cursor)
    identity = cursor.cursor_id
    reply = filled.database.command("killCursors", "c", cursors=[identity, Int64(12345)])
    assert reply["cursorsKilled"] == [identity]
    assert reply["cursorsNotFound"] == [Int64(12345)]
    with pytest.raises(CursorNotFound) as caught:
        list(cursor)
    assert caught.value.code == 43


def test_dropping_a_collection_kills_its_cursors(filled):
    cursor = filled.find(batch_size=2)
    next(cursor)
    filled.drop()
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert caught.value.code in (43, 175)


def test_sort_without_index_spans_several_batches(filled):
    ordered = [(d["n"], d["_id"]) for d in filled.find().sort([("n", -1), ("_id", 1)]).batch_size(20)]
    assert ordered == sorted(ordered, key=lambda pair: (-pair[0], pair[1]))
    assert len(ordered) == 250


def test_tailable_cursor_waits_for_new_documents(server, db):
    db.create_collection("log", capped=True, size=100_000)
    db.log.insert_many({"n": i} for i in range(3))
    cursor = db.log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(5000)
    assert [next(cursor)["n"] for _ in range(3)] == [0, 1, 2]

    def later():
        with MongoClient(server.uri) as other:
            other[db.name].log.insert_one({"n": 3})

    timer = threading.Timer(0.3, later)
    timer.start()
    assert next(cursor)["n"] == 3
    timer.join()
    assert cursor.alive


def test_tailable_cursor_without_new_documents_stays_alive(db):
    db.create_collection("log", capped=True, size=100_000)
    db.log.insert_one({"n": 0})
    cursor = db.log.find(cursor_type=CursorType.TAILABLE)
    assert [d["n"] for d in cursor] == [0]
    assert cursor.alive
    db.log.insert_one({"n": 1})
    assert [d["n"] for d in cursor] == [1]
    db.plain.insert_one({})
    with pytest.raises(OperationFailure) as caught:
        list(db.plain.find(cursor_type=CursorType.TAILABLE))
    assert caught.value.code == 2


def test_max_time_interrupts_a_slow_find(db):
    db.c.insert_many({"_id": i, "list": list(range(300))} for i in range(300))
    slow = {"$expr": {"$gt": [{"$size": {"$filter": {"input": {"$range": [0, 20000]}, "cond": {"$in": ["$$this", "$list"]}}}}, 400]}}
    started = time.monotonic()
    with pytest.raises(ExecutionTimeout) as caught:
        list(db.c.find(slow).max_time_ms(30))
    assert caught.value.code == 50
    assert time.monotonic() - started < 20


def test_get_more_refuses_another_namespace(filled):
    reply = filled.database.command("find", "c", batchSize=2)
    with pytest.raises(OperationFailure) as caught:
        filled.database.command("getMore", reply["cursor"]["id"], collection="other")
    assert caught.value.code == 13


def test_overtaken_tailable_cursor_fails(db):
    db.create_collection("log", capped=True, size=100_000, max=3)
    db.log.insert_one({"n": 0})
    reply = db.command("find", "log", tailable=True)
    db.log.insert_many({"n": n} for n in range(1, 6))
    with pytest.raises(OperationFailure) as caught:
        db.command("getMore", reply["cursor"]["id"], collection="log")
    assert caught.value.code == 136


def test_exhaust_cursor_yields_every_document(server):
    """The driver sends one request and reads replies until the last one."""

    def requests(client):
        return client.admin.command("serverStatus")["network"]["numRequests"]

    with MongoClient(server.uri) as client:
        collection = client.exhaust.c
        collection.drop()
        collection.insert_many({"_id": i, "text": "x" * 100} for i in range(5000))
        for options in ({}, {"compressors": "zlib"}):
            with MongoClient(server.uri, **options) as reader:
                before = requests(client)
                found = reader.exhaust.c.find(cursor_type=CursorType.EXHAUST, batch_size=50).sort("_id")
                assert [document["_id"] for document in found] == list(range(5000))
                # There are a hundred batches. Monitors of other clients send requests at the same time.
                assert requests(client) - before < 50
        found = collection.find(cursor_type=CursorType.EXHAUST, batch_size=1000)
        next(found)
        # Closing an unfinished exhaust cursor closes its connection. Other connections are not affected.
        found.close()
        assert collection.count_documents({}) == 5000
        client.drop_database("exhaust")
