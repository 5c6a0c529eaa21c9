"""Change streams: events, tokens, images and pipelines, over both faces."""

import threading
import time

import pytest
import requests
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from server_process import ServerProcess
from wire import WireConnection


@pytest.fixture
def database(client):
    yield client.streams
    client.drop_database("streams")


WAIT = 20


def watch(target, pipeline=None, **options):
    """A stream whose readers do not wait long."""
    return target.watch(pipeline, max_await_time_ms=WAIT, **options)


def drain(stream):
    """All events that there are now."""
    events = []
    while (event := stream.try_next()) is not None:
        events.append(event)
    return events


def kinds(events):
    return [event["operationType"] for event in events]


def test_writes_of_a_collection_make_events_in_their_order(database):
    with watch(database.c) as stream:
        database.c.insert_one({"_id": 1, "list": [1, 2, 3], "inner": {"a": 1, "b": 2}})
        database.c.update_one({"_id": 1}, {"$set": {"list.1": 5, "inner.c": 9}, "$unset": {"inner.a": 1}})
        database.c.update_one({"_id": 1}, {"$pop": {"list": 1}})
        database.c.replace_one({"_id": 1}, {"other": True})
        database.c.find_one_and_delete({"_id": 1})
        database.d.insert_one({"_id": "of another collection"})
        insert, update, pop, replace, delete = drain(stream)
    assert insert["fullDocument"] == {"_id": 1, "list": [1, 2, 3], "inner": {"a": 1, "b": 2}}
    assert insert["ns"] == {"db": "streams", "coll": "c"} and insert["documentKey"] == {"_id": 1}
    assert list(insert) == ["_id", "operationType", "clusterTime", "wallTime", "fullDocument", "ns", "documentKey"]
    assert update["updateDescription"] == {
        "updatedFields": {"list.1": 5, "inner.c": 9},
        "removedFields": ["inner.a"],
        "truncatedArrays": [],
    }
    assert "fullDocument" not in update and "documentKey" in update
    assert pop["updateDescription"]["truncatedArrays"] == [{"field": "list", "newSize": 2}]
    assert replace["operationType"] == "replace" and replace["fullDocument"] == {"_id": 1, "other": True}
    assert delete["operationType"] == "delete" and "fullDocument" not in delete
    times = [event["clusterTime"] for event in (insert, update, pop, replace, delete)]
    assert times == sorted(times) and len(set(times)) == 5


def test_writes_that_change_nothing_make_no_events(database):
    database.c.insert_one({"_id": 1, "a": 1})
    with watch(database.c) as stream:
        database.c.update_one({"_id": 1}, {"$set": {"a": 1}})
        database.c.delete_one({"_id": 2})
        assert drain(stream) == []


def test_a_stream_of_a_database_ends_when_it_is_dropped(database, client):
    with watch(database) as stream, watch(client) as everything:
        database.a.insert_one({})
        database.b.insert_one({})
        database.a.rename("moved")
        database.b.drop()
        client.drop_database("streams")
        events = drain(stream)
        assert kinds(events) == ["insert", "insert", "rename", "drop", "drop", "dropDatabase", "invalidate"]
        assert events[2]["to"] == {"db": "streams", "coll": "moved"}
        assert not stream.alive
        mine = [event for event in drain(everything) if event.get("ns", {}).get("db") == "streams"]
        assert kinds(mine) == kinds(events)[:-1] and everything.alive


def test_a_stream_continues_behind_an_invalidate_with_start_after_only(database):
    with watch(database.c) as stream:
        database.c.insert_one({"_id": 1})
        database.c.drop()
        assert kinds(events := drain(stream)) == ["insert", "drop", "invalidate"]
    database.c.insert_one({"_id": 2})
    token = events[-1]["_id"]
    with pytest.raises(OperationFailure) as refused:
        watch(database.c, resume_after=token)
    assert refused.value.code == 260
    with watch(database.c, start_after=token) as stream:
        assert [event["documentKey"] for event in drain(stream)] == [{"_id": 2}]


def test_expanded_events_tell_of_collections_and_indexes(database):
    with watch(database, show_expanded_events=True) as stream:
        database.create_collection("c", capped=True, size=4096)
        database.c.create_index("a")
        database.command("collMod", "c", validator={"a": {"$exists": True}})
        database.c.drop_index("a_1")
        events = drain(stream)
    assert kinds(events) == ["create", "createIndexes", "modify", "dropIndexes"]
    assert events[0]["operationDescription"]["capped"] is True and events[0]["collectionUUID"].subtype == 4
    assert events[1]["operationDescription"]["indexes"][0]["name"] == "a_1"


def test_images_before_and_after_are_shown_where_they_are_kept(database):
    database.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    options = {"full_document": "required", "full_document_before_change": "required"}
    with watch(database.c, **options) as stream:
        database.c.insert_one({"_id": 1, "n": 1})
        database.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        database.c.delete_one({"_id": 1})
        _, update, delete = drain(stream)
    assert update["fullDocumentBeforeChange"] == {"_id": 1, "n": 1} and update["fullDocument"] == {"_id": 1, "n": 2}
    assert delete["fullDocumentBeforeChange"] == {"_id": 1, "n": 2}
    with watch(database.plain, full_document="whenAvailable") as available, watch(database.plain, **options) as required:
        database.plain.insert_one({"_id": 1})
        database.plain.update_one({"_id": 1}, {"$set": {"n": 1}})
        assert drain(available)[1]["fullDocument"] is None
        with pytest.raises(OperationFailure) as refused:
            drain(required)
        assert refused.value.code == 47


def test_update_lookup_shows_the_present_document(database):
    database.c.insert_one({"_id": 1})
    with watch(database.c, full_document="updateLookup") as stream:
        database.c.update_one({"_id": 1}, {"$set": {"a": 1}})
        database.c.update_one({"_id": 1}, {"$set": {"a": 2}})
        assert [event["fullDocument"] for event in drain(stream)] == [{"_id": 1, "a": 2}] * 2


def test_tokens_move_on_while_nothing_matches(database):
    with watch(database.c, [{"$match": {"operationType": "delete"}}]) as stream:
        before = stream.resume_token
        database.c.insert_many([{} for _ in range(10)])
        assert drain(stream) == []
        after = stream.resume_token
        database.c.insert_one({"_id": "seen"})
        with watch(database.c, resume_after=after) as resumed:
            assert [event["documentKey"] for event in drain(resumed)] == [{"_id": "seen"}]
    assert before != after


@pytest.mark.parametrize(
    ("pipeline", "field"),
    [
        ([{"$project": {"fullDocument.a": 1}}], "fullDocument"),
        ([{"$addFields": {"b": "$fullDocument.a"}}], "b"),
        ([{"$replaceRoot": {"newRoot": {"_id": "$_id", "a": "$fullDocument.a"}}}], "a"),
        ([{"$redact": {"$cond": [{"$eq": ["$secret", True]}, "$$PRUNE", "$$DESCEND"]}}], "fullDocument"),
        ([{"$unset": "wallTime"}, {"$set": {"c": 1}}], "c"),
    ],
)
def test_pipelines_shape_events(database, pipeline, field):
    with watch(database.c, pipeline) as stream:
        database.c.insert_one({"a": 1, "inner": {"secret": True}})
        (event,) = drain(stream)
    assert event[field] is not None
    if "$redact" in pipeline[0]:
        assert "inner" not in event["fullDocument"]


@pytest.mark.parametrize("stage", [{"$sort": {"a": 1}}, {"$group": {"_id": 1}}, {"$out": "x"}, {"$limit": 1}])
def test_stages_that_streams_cannot_have_are_refused(database, stage):
    with pytest.raises(OperationFailure) as refused:
        watch(database.c, [stage])
    assert refused.value.code == 20


def test_a_pipeline_that_drops_the_token_fails_with_280(database):
    with watch(database.c, [{"$unset": "_id"}]) as stream:
        database.c.insert_one({})
        with pytest.raises(OperationFailure) as refused:
            drain(stream)
    assert refused.value.code == 280


def test_tokens_that_lead_nowhere_are_refused(database):
    with watch(database.other) as stream:
        database.other.insert_one({})
        (of_another,) = drain(stream)
    for token, code in [({"_data": "82ABCD"}, 260), ({"_data": 1}, 40647), (of_another["_id"], 280)]:
        with pytest.raises(OperationFailure) as refused, watch(database.c, resume_after=token):
            pass
        assert refused.value.code == code, token
    with pytest.raises(OperationFailure) as refused:
        watch(database.c, start_at_operation_time=Timestamp(1, 1))
    assert refused.value.code == 286


def test_a_stream_starts_at_an_operation_time(database):
    with watch(database.c):
        pass
    database.c.insert_one({"_id": 1})
    reply = database.command("insert", "c", documents=[{"_id": 2}])
    database.c.insert_one({"_id": 3})
    with watch(database.c, start_at_operation_time=reply["operationTime"]) as stream:
        assert [event["documentKey"]["_id"] for event in drain(stream)] == [2, 3]


def test_writes_over_http_make_the_events_of_what_documents_show(database, server):
    url = f"{server.url.rstrip('/')}/streams%2Fc"
    database.c.insert_one({"_id": "a"})
    with watch(database.c) as stream:
        first = requests.put(f"{url}/doc", json={"n": 1}, timeout=10).json()
        requests.put(f"{url}/doc", json={"_rev": first["rev"], "n": 2}, timeout=10)
        loser = {"_id": "doc", "_rev": "1-00000000000000000000000000000000", "n": "loses"}
        winner = {"_id": "doc", "_rev": "9-ffffffffffffffffffffffffffffffff", "n": "wins"}
        for conflict in (loser, winner):
            body = {"new_edits": False, "docs": [conflict]}
            assert requests.post(f"{url}/_bulk_docs", json=body, timeout=10).status_code == 201
        requests.delete(f"{url}/doc", params={"rev": winner["_rev"]}, timeout=10)
        events = drain(stream)
    # The deletion of the winner shows the other revision again.
    assert kinds(events) == ["insert", "replace", "replace", "replace"]
    assert [event["fullDocument"]["n"] for event in events] == [1, 2, "wins", 2]


def test_merge_and_out_make_events(database):
    database.source.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    database.target.insert_one({"_id": 1})
    with watch(database.target) as stream:
        database.source.aggregate([{"$merge": {"into": "target", "whenMatched": "replace"}}])
        database.source.aggregate([{"$merge": {"into": "target", "whenMatched": [{"$set": {"m": 1}}]}}])
        assert kinds(drain(stream)) == ["replace", "insert", "update", "update"]
    with watch(database) as stream:
        database.source.aggregate([{"$out": "fresh"}])
        assert any(event.get("to") == {"db": "streams", "coll": "fresh"} for event in drain(stream))


def test_capped_collections_show_what_they_lose(database):
    database.create_collection("c", capped=True, size=1 << 20, max=2)
    with watch(database.c) as stream:
        for number in range(4):
            database.c.insert_one({"_id": number})
        assert kinds(drain(stream)).count("delete") == 2


def test_large_events_are_refused_or_split(database):
    database.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    options = {"full_document": "required", "full_document_before_change": "required"}
    split = [{"$changeStreamSplitLargeEvent": {}}]
    with watch(database.c, **options) as whole, watch(database.c, split, **options) as parts:
        database.c.insert_one({"_id": 1, "text": "a" * (10 << 20)})
        database.c.update_one({"_id": 1}, {"$set": {"n": 1}})
        database.c.insert_one({"_id": 2})
        with pytest.raises(OperationFailure) as refused:
            drain(whole)
        assert refused.value.code == 10334
        insert, first, second, last = drain(parts)
        assert (first["splitEvent"], second["splitEvent"]) == ({"fragment": 1, "of": 2}, {"fragment": 2, "of": 2})
        together = {**first, **second}
        assert together["fullDocument"]["n"] == 1 and "n" not in together["fullDocumentBeforeChange"]
        assert "splitEvent" not in insert and "splitEvent" not in last
    with watch(database.c, split, resume_after=first["_id"], **options) as resumed:
        assert [event["_id"] for event in drain(resumed)] == [second["_id"], last["_id"]]


def test_many_streams_with_filters_get_their_own_events(database):
    streams = [watch(database.c, [{"$match": {"fullDocument.n": number}}]) for number in range(100)]
    database.c.insert_many([{"n": number % 100} for number in range(300)])
    assert all(len(drain(stream)) == 3 for stream in streams)
    for stream in streams:
        stream.close()


def test_a_waiting_stream_is_woken_by_a_write(database):
    with database.c.watch(max_await_time_ms=20_000) as stream:
        threading.Timer(0.2, lambda: database.c.insert_one({"_id": 1})).start()
        begun = time.monotonic()
        assert next(stream)["documentKey"] == {"_id": 1}
        assert time.monotonic() - begun < 10


def test_tokens_hold_across_a_kill(stored_server):
    server = stored_server
    with MongoClient(server.uri) as client, client.test.c.watch() as stream:
        client.test.c.insert_one({"_id": 1})
        token = next(stream)["_id"]
        client.test.c.insert_many([{"_id": number} for number in range(2, 500)])
    server.kill()
    server.start()
    with MongoClient(server.uri) as client, watch(client.test.c, resume_after=token) as stream:
        client.test.c.insert_one({"_id": 500})
        assert [event["documentKey"]["_id"] for event in drain(stream)] == list(range(2, 501))


def test_a_stream_resumes_while_other_streams_have_events(database):
    with watch(database.c) as stream, watch(database.other):
        database.other.insert_many([{}, {}])
        assert drain(stream) == []
        token = stream.resume_token
    database.c.insert_one({"_id": 1})
    with watch(database.c, resume_after=token) as stream:
        assert [event["documentKey"]["_id"] for event in drain(stream)] == [1]


def test_a_renamed_collection_is_watched_by_its_new_name(database):
    with watch(database.c) as stream:
        database.other.insert_one({})
        database.other.rename("c")
        assert kinds(drain(stream)) == ["rename", "invalidate"]
        token = stream.resume_token
    with watch(database.c, start_after=token) as stream:
        database.c.insert_one({"_id": 1})
        assert kinds(drain(stream)) == ["insert"]


def test_images_are_kept_from_a_coll_mod_on(database):
    database.c.insert_one({"_id": 1, "n": 1})
    database.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
    with watch(database.c, full_document_before_change="required") as stream:
        database.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert drain(stream)[0]["fullDocumentBeforeChange"] == {"_id": 1, "n": 1}
    database.command("collMod", "c", changeStreamPreAndPostImages={"enabled": False})
    with watch(database.c, full_document_before_change="whenAvailable") as stream:
        database.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert drain(stream)[0]["fullDocumentBeforeChange"] is None


def test_killing_a_cursor_ends_the_get_more_that_waits_for_it(database, server):
    cursor = database.command("aggregate", "c", pipeline=[{"$changeStream": {}}], cursor={})["cursor"]
    with MongoClient(server.uri) as other:
        timer = threading.Timer(0.2, lambda: other.streams.command("killCursors", "c", cursors=[cursor["id"]]))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(OperationFailure) as killed:
            database.command("getMore", cursor["id"], collection="c", maxTimeMS=20_000)
        assert killed.value.code == 237 and time.monotonic() - begun < 10
        timer.join()


def test_a_cursor_has_one_waiting_get_more_at_a_time(server):
    with WireConnection(server.port) as one, WireConnection(server.port) as other:
        opened = one.command("streams", {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}})
        more = {"getMore": Int64(opened["cursor"]["id"]), "collection": "c", "maxTimeMS": 2000}
        waiting = threading.Thread(target=lambda: one.command("streams", more))
        waiting.start()
        time.sleep(0.3)
        with pytest.raises(OperationFailure) as refused:
            other.command("streams", more)
        assert refused.value.code == 143
        waiting.join()


def test_a_stream_that_starts_at_the_time_of_a_write_shows_it_whatever_others_write(database):
    with watch(database.c):
        stopped = threading.Event()

        def write():
            while not stopped.is_set():
                database.busy.insert_one({})

        writers = [threading.Thread(target=write) for _ in range(3)]
        [thread.start() for thread in writers]
        for number in range(30):
            reply = database.command("insert", "c", documents=[{"_id": number}])
            with watch(database.c, start_at_operation_time=reply["operationTime"]) as stream:
                assert drain(stream)[0]["documentKey"] == {"_id": number}
        stopped.set()
        [thread.join() for thread in writers]


def test_a_view_cannot_be_a_stream(database):
    with pytest.raises(OperationFailure) as refused:
        database.create_collection("v", viewOn="c", pipeline=[{"$changeStream": {}}])
    assert refused.value.code == 167


def test_readers_are_told_when_their_history_was_deleted(tmp_path):
    server = ServerProcess(tmp_path, data=tmp_path / "data", arguments=("--change-history-size", "100kB")).start()
    with MongoClient(server.uri) as client, client.test.c.watch(max_await_time_ms=20) as stream:
        assert stream.try_next() is None
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            client.test.c.insert_many([{"text": "x" * 500} for _ in range(1000)])
            with client.test.c.watch() as newest:
                token = newest.resume_token
            try:
                with client.test.c.watch(resume_after=stream.resume_token):
                    time.sleep(0.2)
            except OperationFailure as lost:
                assert lost.code == 286
                break
        with pytest.raises(OperationFailure) as refused:
            for _ in range(10_000):
                stream.try_next()
        assert refused.value.code == 286
        with client.test.c.watch(resume_after=token, max_await_time_ms=20) as stream:
            assert stream.try_next() is None
    server.end()
