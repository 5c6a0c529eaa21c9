"""Transactions over MongoDB's face, and what the other face sees of them."""

import hashlib
import threading
import time
import uuid

import pytest
from bson import Binary, Int64, Timestamp
from pymongo import MongoClient, ReturnDocument
from pymongo.errors import BulkWriteError, OperationFailure
from pymongo.operations import InsertOne, UpdateOne
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern
from wire import WireConnection

SNAPSHOT = ReadConcern("snapshot")


@pytest.fixture
def wire(server):
    with WireConnection(server.port) as connection:
        yield connection


def session_id(number: int) -> dict:
    return {"id": Binary(number.to_bytes(16, "big"), 4)}


def fails(code: int, label: str | None = None):
    class Failing:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            assert isinstance(error, OperationFailure), error
            assert error.code == code, error
            assert label is None or error.has_error_label(label), error
            return True

    return Failing()


def test_statements_see_the_snapshot_and_their_own_writes(client, db):
    db.people.insert_many([{"_id": 1, "name": "Ann", "city": 1}, {"_id": 2, "name": "Bob", "city": 2}])
    db.cities.insert_one({"_id": 1, "name": "Rome"})
    db.people.create_index("name")
    with client.start_session() as session, session.start_transaction():
        db.people.update_one({"_id": 1}, {"$set": {"name": "Eve"}}, session=session)
        db.people.insert_one({"_id": 3, "name": "Zoe", "city": 1}, session=session)
        db.people.delete_one({"_id": 2}, session=session)
        db.cities.update_one({"_id": 1}, {"$set": {"name": "Roma"}}, session=session)
        db.cities.insert_one({"_id": 2, "name": "Oslo"})
        names = [p["name"] for p in db.people.find({"name": {"$gte": "A"}}, session=session).sort("name")]
        assert names == ["Eve", "Zoe"]
        assert db.people.distinct("name", session=session) == ["Eve", "Zoe"]
        assert db.people.count_documents({"city": 1}, session=session) == 2
        joined = db.people.aggregate(
            [{"$lookup": {"from": "cities", "localField": "city", "foreignField": "_id", "as": "c"}}, {"$sort": {"_id": 1}}],
            session=session,
        )
        assert [p["c"] for p in joined] == [[{"_id": 1, "name": "Roma"}]] * 2
        assert db.cities.find_one({"_id": 2}, session=session) is None
        changed = db.people.find_one_and_update(
            {"_id": 3}, {"$inc": {"n": 1}}, session=session, return_document=ReturnDocument.AFTER
        )
        assert changed == {"_id": 3, "name": "Zoe", "city": 1, "n": 1}
        db.people.bulk_write([InsertOne({"_id": 4}), UpdateOne({"_id": 4}, {"$set": {"x": 1}})], session=session)
        assert {p["name"] for p in db.people.find()} == {"Ann", "Bob"}
    assert [p["_id"] for p in db.people.find().sort("_id")] == [1, 3, 4]
    assert db.people.find_one({"name": "Eve"}) == {"_id": 1, "name": "Eve", "city": 1}


def test_abort_and_error_leave_nothing(client, db):
    db.c.insert_one({"_id": 1})
    with client.start_session() as session:
        with pytest.raises(ZeroDivisionError), session.start_transaction():
            db.c.insert_one({"_id": 2}, session=session)
            raise ZeroDivisionError
        session.start_transaction()
        db.c.insert_one({"_id": 3}, session=session)
        with pytest.raises(OperationFailure) as caught:
            db.c.insert_one({"_id": 1}, session=session)
        assert caught.value.code == 11000
        with fails(251, "TransientTransactionError"):
            db.c.insert_one({"_id": 4}, session=session)
    assert db.c.distinct("_id") == [1]


def test_conflict_fails_at_once_with_a_label(client, db):
    db.c.insert_one({"_id": 1, "n": 0})
    with client.start_session() as one, client.start_session() as other:
        one.start_transaction()
        other.start_transaction()
        db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=one)
        db.c.find_one({}, session=other)
        with fails(112, "TransientTransactionError"):
            db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=other)
        one.commit_transaction()
        other.abort_transaction()
        other.start_transaction()
        db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=other)
        other.commit_transaction()
    assert db.c.find_one() == {"_id": 1, "n": 2}


def test_with_transaction_retries_conflicts(client, db):
    db.c.insert_one({"_id": 1, "n": 0})

    def add(session):
        n = db.c.find_one({"_id": 1}, session=session)["n"]
        db.c.update_one({"_id": 1}, {"$set": {"n": n + 1}}, session=session)

    def work():
        with client.start_session() as session:
            for _ in range(10):
                session.with_transaction(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db.c.find_one() == {"_id": 1, "n": 40}


def test_writer_outside_waits_and_gives_up_at_its_time_limit(client, db):
    db.c.insert_one({"_id": 1, "n": 0})
    with client.start_session() as session:
        session.start_transaction()
        db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        db.c.insert_one({"_id": 2})
        with fails(50):
            db.command("update", "c", updates=[{"q": {"_id": 1}, "u": {"$inc": {"n": 10}}}], maxTimeMS=200)
        done = []
        thread = threading.Thread(target=lambda: done.append(db.c.update_one({"_id": 1}, {"$inc": {"n": 10}})))
        thread.start()
        time.sleep(0.1)
        assert not done
        session.commit_transaction()
        thread.join(5)
    assert db.c.find_one({"_id": 1}) == {"_id": 1, "n": 11}


def begin_update(wire, number, **more):
    """A transaction that has written document 1 of `test.c`."""
    fields = {"lsid": session_id(number), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
    wire.command("test", {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 1}}}], **fields, **more})


def waiting(client):
    """The numbers of the commands that carry the comment `waits`."""
    running = client.admin.aggregate([{"$currentOp": {}}])
    return [op["opid"] for op in running if op.get("command", {}).get("comment") == "waits"]


def wait_until(met):
    end = time.monotonic() + 10
    while not met():
        assert time.monotonic() < end
        time.sleep(0.05)


UPDATE = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"by": "waiter"}}}], "comment": "waits"}
INSERT = {
    "bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": 1}}], "nsInfo": [{"ns": "test.c"}], "comment": "waits",
}


def test_waiting_short_writes_are_shown_and_killed_and_end_with_their_clients(stored_server):
    with MongoClient(stored_server.uri) as client, WireConnection(stored_server.port) as wire:
        client.test.c.insert_one({"_id": 1})
        begin_update(wire, 1)
        with WireConnection(stored_server.port) as writer:
            writer.send("test", UPDATE)
            wait_until(lambda: waiting(client))
            client.admin.command("killOp", op=waiting(client)[0])
            with fails(11601):
                writer.receive()
            writer.send("test", UPDATE)
            wait_until(lambda: waiting(client))
        wait_until(lambda: not waiting(client))
        started = time.monotonic()
        with WireConnection(stored_server.port) as writer, fails(50):
            writer.command("admin", {**INSERT, "maxTimeMS": 300})
        assert time.monotonic() - started < 5
        wire.command("admin", {"abortTransaction": 1, "lsid": session_id(1), "txnNumber": Int64(1), "autocommit": False})
        assert client.test.c.find_one() == {"_id": 1}


def test_shutdown_waits_for_no_transaction(stored_server):
    with MongoClient(stored_server.uri) as client, WireConnection(stored_server.port) as wire:
        client.test.c.insert_one({"_id": 1})
        begin_update(wire, 1)
        with WireConnection(stored_server.port) as writer:
            writer.send("test", UPDATE)
            wait_until(lambda: waiting(client))
            started = time.monotonic()
            stored_server.stop()
            assert time.monotonic() - started < 6


def test_unique_keys_hold_across_transactions(client, db):
    db.c.create_index("u", unique=True)
    with client.start_session() as one, client.start_session() as other:
        one.start_transaction()
        other.start_transaction()
        db.c.insert_one({"_id": 1, "u": 1}, session=one)
        with fails(112, "TransientTransactionError"):
            db.c.insert_one({"_id": 2, "u": 1}, session=other)
        one.commit_transaction()
    with pytest.raises(OperationFailure) as caught:
        db.c.insert_one({"_id": 3, "u": 1})
    assert caught.value.code == 11000


def test_collections_and_indexes_are_created_inside(client, db):
    db.old.insert_one({})
    with client.start_session() as session:
        with session.start_transaction():
            db.create_collection("made", session=session)
            db.made.create_index("x", unique=True, session=session)
            db.made.insert_many([{"_id": i, "x": i} for i in range(10)], session=session)
            db.implicit.insert_one({"_id": 1}, session=session)
            assert db.made.find_one({"x": 4}, session=session)["_id"] == 4
            assert "made" not in db.list_collection_names()
        assert sorted(db.list_collection_names()) == ["implicit", "made", "old"]
        assert db.made.find({"x": 4}).hint("x_1").to_list() == [{"_id": 4, "x": 4}]
        assert db.command("validate", "made")["valid"]
        with fails(263):
            session.start_transaction()
            db.old.create_index("x", session=session)
        session.abort_transaction()


def test_what_transactions_cannot_do_is_refused(client, db, wire):
    db.c.insert_one({"_id": 1})
    db.create_collection("capped", capped=True, size=10_000)

    def inside(command, code, database=db.name, **more):
        nonlocal number
        number += 1
        fields = {"lsid": session_id(77), "txnNumber": Int64(number), "autocommit": False, "startTransaction": True}
        with fails(code):
            wire.command(database, {**command, **fields, **more})

    number = 0
    inside({"count": "c"}, 263)
    inside({"drop": "c"}, 263)
    inside({"find": "c"}, 263, database="local")
    inside({"find": "c", "tailable": True}, 263)
    inside({"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}}, 263)
    inside({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}, 263)
    inside({"insert": "capped", "documents": [{}]}, 263)
    inside({"create": "shown", "viewOn": "c"}, 263)
    for forbidden in ("config.c", "admin.c", f"{db.name}.system.views"):
        bulk = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": forbidden}]}
        inside(bulk, 263, database="admin")
    inside({"find": "c"}, 72, writeConcern={"w": 1})
    inside({"find": "c"}, 72, readConcern={"level": "linearizable"})
    inside({"find": "c"}, 72, autocommit=True)
    inside({"getMore": Int64(5), "collection": "c"}, 263)
    with fails(72):
        wire.command(db.name, {"find": "c", "lsid": session_id(77), "autocommit": False})
    with fails(72):
        wire.command(db.name, {"find": "c", "lsid": session_id(77), "txnNumber": Int64(99), "startTransaction": True})
    with fails(125):
        wire.command("admin", {"commitTransaction": 1, "lsid": session_id(77)})


def test_numbers_and_states_have_mongodbs_codes(db, wire):
    lsid = session_id(78)

    def run(command, number, database=db.name, **more):
        fields = {"lsid": lsid, "txnNumber": Int64(number), "autocommit": False, **more}
        return wire.command(database, {**command, **fields})

    insert = {"insert": "c", "documents": [{}]}
    with fails(251, "TransientTransactionError"):
        run(insert, 1)
    run(insert, 1, startTransaction=True)
    with fails(50911):
        run(insert, 1, startTransaction=True)
    with fails(251):
        run(insert, 2)
    run({"commitTransaction": 1}, 1, "admin")
    run({"commitTransaction": 1}, 1, "admin")
    with fails(256):
        run({"abortTransaction": 1}, 1, "admin")
    with fails(256):
        run(insert, 1)
    run(insert, 5, startTransaction=True)
    with fails(225):
        run(insert, 4, startTransaction=True)
    run({"abortTransaction": 1}, 5, "admin")
    with fails(251, "TransientTransactionError"):
        run({"commitTransaction": 1}, 5, "admin")
    # A retryable write with a greater number aborts the open transaction.
    run(insert, 6, startTransaction=True)
    wire.command(db.name, {"insert": "c", "documents": [{}], "lsid": lsid, "txnNumber": Int64(7)})
    with fails(225):
        run({"commitTransaction": 1}, 6, "admin")
    assert db.c.count_documents({}) == 2


def test_commit_may_be_repeated_after_a_restart(stored_server):
    lsid = session_id(1)
    fields = {"lsid": lsid, "txnNumber": Int64(3), "autocommit": False}
    with WireConnection(stored_server.port) as wire:
        wire.command("test", {"insert": "c", "documents": [{"_id": 1}], "startTransaction": True, **fields})
        wire.command("admin", {"commitTransaction": 1, "writeConcern": {"w": "majority"}, **fields})
        wire.command("test", {"insert": "c", "documents": [{"_id": 2}], **fields, "txnNumber": Int64(4), "startTransaction": True})
    stored_server.kill()
    stored_server.start()
    with WireConnection(stored_server.port) as wire:
        wire.command("admin", {"commitTransaction": 1, **fields})
        with fails(251):
            wire.command("admin", {"commitTransaction": 1, **fields, "txnNumber": Int64(4)})
    with MongoClient(stored_server.uri) as client:
        assert client.test.c.distinct("_id") == [1]


def test_cursor_of_a_transaction_is_read_within_it(client, db, wire):
    db.c.insert_many({"_id": i} for i in range(10))
    lsid = session_id(79)
    fields = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
    reply = wire.command(db.name, {"find": "c", "batchSize": 2, "startTransaction": True, **fields})
    db.c.delete_many({})
    more = {"getMore": Int64(reply["cursor"]["id"]), "collection": "c", "batchSize": 3}
    assert len(wire.command(db.name, {**more, **fields})["cursor"]["nextBatch"]) == 3
    outside = wire.command(db.name, {"find": "c", "lsid": lsid})
    assert outside["cursor"]["firstBatch"] == []
    with fails(50740):
        wire.command(db.name, {**more, "lsid": lsid})
    wire.command("admin", {"commitTransaction": 1, **fields})
    with fails(43):
        wire.command(db.name, {**more, "lsid": lsid})


def test_ended_and_expired_sessions_abort(stored_server):
    with MongoClient(stored_server.uri) as client, WireConnection(stored_server.port) as wire:
        db = client.test
        db.c.insert_one({"_id": 1})

        def begin(number):
            fields = {"lsid": session_id(number), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
            wire.command("test", {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": number}}}], **fields})

        begin(1)
        idle = [op for op in client.admin.command("currentOp")["inprog"] if op["type"] == "idleSession"]
        assert idle[0]["transaction"]["parameters"]["txnNumber"] == 1
        status = client.admin.command("serverStatus")["transactions"]
        assert status["currentOpen"] == 1 and status["currentInactive"] == 1
        client.admin.command("killSessions", [session_id(1)])
        db.c.update_one({"_id": 1}, {"$set": {"free": 1}})
        client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1)
        begin(2)
        started = time.monotonic()
        db.c.update_one({"_id": 1}, {"$set": {"free": 2}})
        assert 0.5 < time.monotonic() - started < 5
        with fails(251, "TransientTransactionError"):
            fields = {"lsid": session_id(2), "txnNumber": Int64(1), "autocommit": False}
            wire.command("admin", {"commitTransaction": 1, **fields})
        assert db.c.find_one() == {"_id": 1, "free": 2}
        assert client.admin.command("serverStatus")["transactions"]["totalAborted"] == 2


def test_http_sees_all_revisions_after_the_commit_only(client, http):
    name = f"t-{uuid.uuid4().hex[:12]}"
    docs, database = client.test[name], http.database(name)
    database.put()
    database.put("one", json={"n": 1})
    before = database.get("_changes").json()["last_seq"]
    news = f"_changes?since={before}"
    with client.start_session() as session, session.start_transaction():
        docs.update_one({"_id": "one"}, {"$set": {"n": 2}}, session=session)
        docs.update_one({"_id": "one"}, {"$set": {"n": 3}}, session=session)
        docs.insert_one({"_id": "two"}, session=session)
        assert database.get("one").json()["n"] == 1
        assert database.get("two").status_code == 404
        assert database.get(news).json()["results"] == []
    assert database.get("one").json()["n"] == 3
    assert {row["id"] for row in database.get(news).json()["results"]} == {"one", "two"}
    assert database.get("one?revs=true").json()["_revisions"]["start"] == 3
    with client.start_session() as session:
        session.start_transaction()
        docs.update_one({"_id": "one"}, {"$set": {"n": 4}}, session=session)
        revision = database.get("one").json()["_rev"]
        answers = []
        put = lambda: answers.append(database.put("one", json={"_rev": revision, "n": 5}).status_code)  # noqa: E731
        thread = threading.Thread(target=put)
        thread.start()
        time.sleep(0.1)
        assert answers == []
        session.commit_transaction()
        thread.join(5)
    assert answers == [409]
    docs.drop()


def test_snapshot_reads_outside_a_transaction(client, db):
    db.c.insert_many({"_id": i} for i in range(3))
    with client.start_session(snapshot=True) as session:
        assert db.c.count_documents({}, session=session) == 3
        db.c.insert_one({"_id": 3})
        db.d.insert_one({"_id": 3})
        assert db.c.count_documents({}, session=session) == 3
        assert db.d.find_one({}, session=session) is None
        assert db.c.distinct("_id", session=session) == [0, 1, 2]
    assert db.c.with_options(read_concern=SNAPSHOT).count_documents({}) == 4
    reply = db.command("find", "c", readConcern={"level": "snapshot"})
    assert isinstance(reply["cursor"]["atClusterTime"], Timestamp)
    with fails(239):
        db.command("find", "c", readConcern={"level": "snapshot", "atClusterTime": Timestamp(1, 1)})
    with fails(72):
        db.command("find", "c", readConcern={"level": "local", "atClusterTime": Timestamp(1, 1)})
    with client.start_session() as session:
        with session.start_transaction(read_concern=SNAPSHOT, write_concern=WriteConcern("majority")):
            db.c.delete_one({"_id": 0}, session=session)
    assert db.c.count_documents({}) == 3


def test_a_stream_shows_a_transaction_as_a_whole(client, db):
    db.c.insert_one({"_id": 0})
    with db.watch() as stream, client.start_session() as session:
        with session.start_transaction():
            db.c.insert_one({"_id": 1}, session=session)
            db.c.update_one({"_id": 1}, {"$set": {"n": 1}}, session=session)
            db.c.delete_one({"_id": 0}, session=session)
            db.c.insert_one({"_id": "outside"})
        events = [stream.next() for _ in range(4)]
        assert [e["operationType"] for e in events] == ["insert", "insert", "update", "delete"]
        assert events[0]["documentKey"] == {"_id": "outside"} and "txnNumber" not in events[0]
        inside = events[1:]
        assert len({e["clusterTime"] for e in inside}) == 1
        user = hashlib.sha256(b"").digest()
        assert all(e["lsid"] == {"id": session.session_id["id"], "uid": user} for e in inside)
        assert len({e["txnNumber"] for e in inside}) == 1
        with db.watch(resume_after=inside[0]["_id"]) as resumed:
            assert [resumed.next()["operationType"] for _ in range(2)] == ["update", "delete"]


def test_large_transactions(client, db):
    with client.start_session() as session, session.start_transaction():
        for start in range(0, 100_000, 10_000):
            db.c.insert_many([{"_id": i} for i in range(start, start + 10_000)], session=session)
    assert db.c.count_documents({}) == 100_000
    text = "x" * 10_000_000
    with client.start_session() as session:
        with session.start_transaction():
            for i in range(10):
                db.large.insert_one({"_id": i, "text": text}, session=session)
        assert db.large.count_documents({}) == 10
        with fails(257), session.start_transaction():
            for i in range(30):
                db.large.insert_one({"_id": 100 + i, "text": text}, session=session)
    assert db.large.count_documents({}) == 10
    db.drop_collection("large")


def test_bulk_error_aborts(client, db):
    db.c.insert_one({"_id": 1})
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(BulkWriteError):
            db.c.insert_many([{"_id": 5}, {"_id": 1}], session=session)
        with fails(251):
            session.commit_transaction()
    assert db.c.distinct("_id") == [1]


@pytest.fixture
def shops(client, http):
    """Two databases over HTTP."""
    names = [f"{kind}-{uuid.uuid4().hex[:12]}" for kind in ("stock", "orders")]
    for name in names:
        http.database(name).put()
    yield names
    for name in names:
        http.database(name).delete()


def test_http_transaction_stores_all_or_nothing(client, http, shops):
    stock, orders = shops
    first = http.database(stock).put("pen", json={"left": 5}).json()["rev"]
    body = {"docs": [
        {"db": stock, "doc": {"_id": "pen", "_rev": first, "left": 4}},
        {"db": orders, "doc": {"_id": "o1", "item": "pen"}},
    ]}
    answer = http.post("_transaction", json=body)
    assert answer.status_code == 201
    assert [row["id"] for row in answer.json()["docs"]] == ["pen", "o1"]
    revision = answer.json()["docs"][0]["rev"]
    assert http.database(stock).get("pen").json() == {"_id": "pen", "_rev": revision, "left": 4}
    # The pen has another revision by now, and the order exists.
    body["docs"].append({"db": orders, "doc": {"_id": "o2"}})
    answer = http.post("_transaction", json=body)
    assert answer.status_code == 409
    assert [(row["db"], row["id"]) for row in answer.json()["docs"]] == [(stock, "pen"), (orders, "o1")]
    assert http.database(orders).get("o2").status_code == 404
    # Deletions, and documents without an id.
    answer = http.post("_transaction", json={"docs": [
        {"db": stock, "doc": {"_id": "pen", "_rev": revision, "_deleted": True}}, {"db": orders, "doc": {"n": 1}},
    ]})
    assert answer.status_code == 201
    assert http.database(stock).get("pen").status_code == 404
    for bad in ({}, {"docs": 1}, {"docs": [{"db": stock}]}, {"docs": [{"db": stock, "doc": {"_id": "_local/x"}}]}):
        assert http.post("_transaction", json=bad).status_code == 400
    assert http.post("_transaction", json={"docs": [{"db": "missing", "doc": {}}]}).status_code == 404
    assert http.post("_transaction", json={"docs": []}).json() == {"ok": True, "docs": []}


def test_transfers_of_both_faces_keep_the_sum(client, http, shops):
    one, other = shops
    accounts = [client.test[name] for name in shops]
    for collection in accounts:
        collection.insert_many({"_id": str(i), "balance": 100} for i in range(5))

    def over_http(rounds):
        for turn in range(rounds):
            docs = [http.database(name).get(str((turn + at) % 5)).json() for at, name in enumerate(shops)]
            docs[0]["balance"] -= 1
            docs[1]["balance"] += 1
            body = {"docs": [{"db": name, "doc": doc} for name, doc in zip(shops, docs)]}
            assert http.post("_transaction", json=body).status_code in (201, 409)

    def over_wire(rounds):
        def transfer(session):
            accounts[1].update_one({"_id": "1"}, {"$inc": {"balance": -1}}, session=session)
            accounts[0].update_one({"_id": "0"}, {"$inc": {"balance": 1}}, session=session)

        with client.start_session() as session:
            for _ in range(rounds):
                session.with_transaction(transfer)

    def watch():
        while any(thread.is_alive() for thread in threads):
            with client.start_session(snapshot=True) as session:
                sums = [sum(d["balance"] for d in collection.find({}, session=session)) for collection in accounts]
                assert sum(sums) == 1000, sums
                seen.append(sums)

    seen = []
    threads = [threading.Thread(target=work, args=(40,)) for work in (over_http, over_wire, over_http, over_wire)]
    [thread.start() for thread in threads]
    watch()
    [thread.join() for thread in threads]
    assert len(seen) > 3
