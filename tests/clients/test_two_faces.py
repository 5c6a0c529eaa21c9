"""One collection, used by a MongoDB driver and over HTTP."""

import datetime
import uuid

import pytest
import requests
from bson import DBRef, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

MOMENT = datetime.datetime(2020, 2, 2, 2, 2, 2, 20000)


@pytest.fixture
def cars(client, http):
    """The collection `test.<name>` and the database of the same name."""
    name = f"cars-{uuid.uuid4().hex[:12]}"
    yield client["test"][name], http.database(name)
    client["test"].drop_collection(name)


def test_http_database_without_a_slash_is_a_collection_of_test(cars):
    collection, database = cars
    assert database.put("").status_code == 201
    assert collection.name in collection.database.list_collection_names()
    assert database.put("one", json={"wheels": 4}).status_code == 201
    assert collection.find_one() == {"_id": "one", "wheels": 4}
    assert database.get("").json()["doc_count"] == 1


def test_slash_separates_database_and_collection(client, http):
    client["shop"]["orders"].insert_one({"_id": "o1"})
    try:
        assert http.get("shop%2Forders/o1").json()["_id"] == "o1"
        assert "shop/orders" in http.get("_all_dbs").json()
    finally:
        client.drop_database("shop")
    assert http.get("shop%2Forders").status_code == 404


def test_ids_of_every_type_have_an_http_form(cars):
    collection, database = cars
    oid = ObjectId()
    ids = {
        str(oid): oid,
        "plain": "plain",
        "with space/slash": "with space/slash",
        f'~"{oid}"': str(oid),
        '~{"$numberInt":"7"}': 7,
        '~{"$numberLong":"8"}': Int64(8),
        '~{"$numberDouble":"1.5"}': 1.5,
        '~{"a":{"$numberInt":"1"}}': {"a": 1},
        "~true": True,
    }
    collection.insert_many([{"_id": value, "n": n} for n, value in enumerate(ids.values())])
    listed = {row["id"] for row in database.get("_all_docs").json()["rows"]}
    assert listed == set(ids)
    for n, (text, value) in enumerate(ids.items()):
        doc = database.get(requests.utils.quote(text, safe="")).json()
        assert (doc["_id"], doc["n"]) == (text, n)
        changed = database.put(requests.utils.quote(text, safe=""), json={**doc, "n": n + 100})
        assert changed.status_code == 201, changed.text
        assert collection.find_one({"_id": value})["n"] == n + 100
    assert collection.count_documents({}) == len(ids)
    assert {change["id"] for change in database.get("_changes").json()["results"]} == set(ids)


def test_types_survive_an_edit_over_http(cars):
    collection, database = cars
    before = {
        "_id": "t",
        "int": 1,
        "long": Int64(2),
        "big": Int64(2**60),
        "double": 3.0,
        "decimal": Decimal128("4.50"),
        "date": MOMENT,
        "oid": ObjectId(),
        "binary": b"\x00\xff",
        "uuid": uuid.uuid4(),
        "regex": Regex("^a", "i"),
        "timestamp": Timestamp(1, 2),
        "max": MaxKey(),
        "list": [Int64(1), 2.0, {"deep": Int64(3)}],
        "__v": 0,
    }
    codec = collection.with_options(collection.codec_options.with_options(uuid_representation=4))
    codec.insert_one(before)
    doc = database.get("t").json()
    assert doc["$__v"] == 0 and "__v" not in doc
    doc["added"] = "text"
    doc["list"].append(5)
    # JavaScript clients write 3.0 as 3.
    doc["double"] = 3
    assert database.put("t", json=doc).status_code == 201
    after = codec.find_one({"_id": "t"})
    expected = {**before, "added": "text", "list": [*before["list"], 5]}
    assert after == expected
    assert [type(value) for value in after.values()] == [type(after[name]) for name in after]
    for name, value in before.items():
        if name != "list":
            assert type(after[name]) is type(value), name
    assert [type(value) for value in after["list"]] == [Int64, float, dict, int]
    assert type(after["list"][2]["deep"]) is Int64


def test_driver_writes_create_revisions_and_changes(cars):
    collection, database = cars
    collection.insert_many([{"_id": f"d{n}", "n": n} for n in range(10)])
    first = {row["id"]: row["value"]["rev"] for row in database.get("_all_docs").json()["rows"]}
    assert all(rev.startswith("1-") for rev in first.values())
    since = database.get("_changes").json()["last_seq"]
    collection.update_many({"n": {"$lt": 3}}, {"$set": {"small": True}})
    collection.delete_many({"n": {"$gte": 8}})
    rows = database.get("_changes", params={"since": since}).json()["results"]
    assert {row["id"]: (row.get("deleted", False), row["changes"][0]["rev"][:2]) for row in rows} == {
        **{f"d{n}": (False, "2-") for n in range(3)},
        **{f"d{n}": (True, "2-") for n in (8, 9)},
    }
    doc = database.get("d1", params={"revs": "true"}).json()
    assert doc["_revisions"]["ids"][1] == first["d1"][2:]
    stale = database.put("d1", json={"_rev": first["d1"]})
    assert (stale.status_code, stale.json()["error"]) == (409, "conflict")


def test_index_created_on_either_side_serves_both(cars):
    collection, database = cars
    collection.insert_many([{"_id": f"d{n}", "a": n % 5, "b": n} for n in range(50)])
    collection.create_index([("a", 1)], name="by_a")
    explained = database.post("_explain", json={"selector": {"a": 3}}).json()
    assert explained["index"]["name"] == "by_a"
    found = database.post("_find", json={"selector": {"a": 3}, "fields": ["_id"]}).json()
    assert len(found["docs"]) == 10 and "warning" not in found
    made = database.post("_index", json={"index": {"fields": ["b"]}, "name": "by_b", "ddoc": "own"}).json()
    assert made["result"] == "created"
    plan = collection.find({"b": {"$gt": 40}}).explain()["queryPlanner"]["winningPlan"]
    assert "IXSCAN" in str(plan)


def test_driver_write_extends_the_winning_revision_of_a_conflict(cars):
    collection, database = cars
    database.put("")
    revisions = [("1-" + "a" * 32, "one"), ("1-" + "b" * 32, "two")]
    for rev, text in revisions:
        body = {"docs": [{"_id": "c", "_rev": rev, "text": text}], "new_edits": False}
        assert database.post("_bulk_docs", json=body).json() == []
    assert collection.find_one({"_id": "c"})["text"] == "two"
    assert database.get("c", params={"conflicts": "true"}).json()["_conflicts"] == [revisions[0][0]]
    collection.update_one({"_id": "c"}, {"$set": {"text": "three"}})
    doc = database.get("c", params={"conflicts": "true"}).json()
    assert doc["text"] == "three" and doc["_rev"].startswith("2-") and doc["_conflicts"] == [revisions[0][0]]
    collection.delete_one({"_id": "c"})
    assert collection.find_one({"_id": "c"}) is None
    assert database.get("c").status_code == 404


def test_driver_write_keeps_attachments(cars):
    collection, database = cars
    database.put("")
    rev = database.put("d", json={"n": 1}).json()["rev"]
    put = database.put("d/note.txt", params={"rev": rev}, data=b"hello", headers={"Content-Type": "text/plain"})
    assert put.status_code == 201
    assert collection.find_one({"_id": "d"}) == {"_id": "d", "n": 1}
    collection.update_one({"_id": "d"}, {"$inc": {"n": 1}})
    assert database.get("d").json()["_attachments"]["note.txt"]["length"] == 5
    assert database.get("d/note.txt").content == b"hello"


def test_pipelines_and_update_operators_work_over_http(cars):
    collection, database = cars
    collection.insert_many([{"_id": f"d{n}", "a": n % 2, "n": n} for n in range(10)])
    pipeline = [{"$group": {"_id": "$a", "sum": {"$sum": "$n"}}}, {"$sort": {"_id": 1}}]
    assert database.post("_aggregate", json=pipeline).json()["docs"] == [{"_id": 0, "sum": 20}, {"_id": 1, "sum": 25}]
    rev = database.get("d1").json()["_rev"]
    patched = database.request("PATCH", "d1", json={"$inc": {"n": 5}}, params={"rev": rev})
    assert patched.status_code in (200, 201) and patched.json()["rev"].startswith("2-")
    assert collection.find_one({"_id": "d1"})["n"] == 6
    assert database.request("PATCH", "d1", json={"$inc": {"n": 5}}, params={"rev": rev}).status_code == 409


def test_field_names_with_a_dollar_are_refused_on_both_sides(cars):
    collection, database = cars
    database.put("")
    refused = database.put("d", json={"$bad": 1})
    assert (refused.status_code, refused.json()["error"]) == (400, "doc_validation")
    refused = database.put("d", json={"_bad": 1})
    assert refused.json()["reason"] == "Bad special document member: _bad"
    with pytest.raises(Exception, match="dollar"):
        collection.insert_one({"$bad": 1})
    collection.insert_one({"_id": "r", "ref": DBRef("other", 1)})
    assert database.get("r").json()["ref"] == {"$ref": "other", "$id": 1}
