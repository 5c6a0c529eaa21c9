"""Reading and writing documents through pymongo."""

import datetime
import re

import pytest
from bson import BSON, Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError
from pymongo.write_concern import WriteConcern


def test_every_bson_type_round_trips(db):
    document = {
        "_id": ObjectId(),
        "double": 1.5,
        "negative zero": -0.0,
        "string": "šířka \0 𝄞",
        "document": {"a": {"b": {}}},
        "array": [1, [2, [3, []]]],
        "binary": Binary(b"\x00\xff", 128),
        "uuid": Binary(bytes(range(16)), 4),
        "object id": ObjectId(),
        "bool": True,
        "date": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        "null": None,
        "regex": Regex("^a.*b$", "imsx"),
        "code": Code("function () {}"),
        "code with scope": Code("x", {"x": 1}),
        "int": 2**31 - 1,
        "timestamp": Timestamp(4294967295, 1),
        "long": Int64(2**63 - 1),
        "decimal": Decimal128("1.10"),
        "min": MinKey(),
        "max": MaxKey(),
        "reference": DBRef("other", 1),
        "": "a field without a name",
    }
    db.c.insert_one(document)
    raw = db.get_collection("c", codec_options=db.codec_options.with_options(document_class=RawBSONDocument))
    assert raw.find_one().raw == BSON.encode(document)


def test_find_filters_sorts_and_projects(db):
    db.c.insert_many({"_id": i, "n": i % 5, "tags": ["even" if i % 2 == 0 else "odd"], "in": {"x": i}} for i in range(20))
    assert [d["_id"] for d in db.c.find({"n": {"$gte": 3}, "tags": "odd"}).sort("_id", -1)] == [19, 13, 9, 3]
    assert [d["_id"] for d in db.c.find({"in.x": {"$in": [2, 4, 99]}})] == [2, 4]
    assert [d["_id"] for d in db.c.find({}, {"_id": 1}).sort([("n", -1), ("_id", 1)]).skip(1).limit(2)] == [9, 14]
    assert db.c.find_one({"_id": 7}, {"in": 1, "_id": 0}) == {"in": {"x": 7}}
    assert db.c.find_one({"$expr": {"$eq": ["$n", {"$multiply": ["$_id", 2]}]}})["_id"] == 0
    assert db.c.count_documents({"$or": [{"n": 0}, {"n": 1}]}) == 8
    assert db.c.estimated_document_count() == 20
    assert sorted(db.c.distinct("tags", {"n": 2})) == ["even", "odd"]
    assert db.c.find_one({"_id": "none"}) is None


def test_regular_expressions_with_flags(db):
    db.c.insert_many([{"_id": 1, "s": "Foo"}, {"_id": 2, "s": "barfoo"}, {"_id": 3, "s": "a\nfoo"}])
    assert [d["_id"] for d in db.c.find({"s": re.compile("^foo", re.IGNORECASE)})] == [1]
    assert [d["_id"] for d in db.c.find({"s": {"$regex": "^foo", "$options": "mi"}})] == [1, 3]
    assert [d["_id"] for d in db.c.find({"s": {"$not": re.compile("foo$")}})] == [1]


def test_updates_report_matched_modified_and_upserted(db):
    db.c.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
    result = db.c.update_many({"n": 1}, {"$set": {"n": 1}})
    assert (result.matched_count, result.modified_count) == (2, 0)
    result = db.c.update_one({"_id": 2}, {"$inc": {"n": 4}, "$push": {"list": {"$each": [3, 1, 2], "$sort": 1, "$slice": 2}}})
    assert (result.matched_count, result.modified_count, result.upserted_id) == (1, 1, None)
    assert db.c.find_one({"_id": 2}) == {"_id": 2, "n": 5, "list": [1, 2]}
    result = db.c.update_one({"_id": 3, "kind": "new"}, {"$setOnInsert": {"n": 9}}, upsert=True)
    assert (result.matched_count, result.upserted_id) == (0, 3)
    assert db.c.find_one({"_id": 3}) == {"_id": 3, "kind": "new", "n": 9}
    result = db.c.replace_one({"_id": 3}, {"only": 1})
    assert result.modified_count == 1
    assert db.c.find_one({"_id": 3}) == {"_id": 3, "only": 1}


def test_updates_by_array_filter_and_pipeline(db):
    db.c.insert_one({"_id": 1, "grades": [{"g": 80}, {"g": 95}], "total": 0})
    db.c.update_one({"_id": 1}, {"$set": {"grades.$[high].top": True}}, array_filters=[{"high.g": {"$gt": 90}}])
    db.c.update_one({"_id": 1, "grades.g": 80}, {"$inc": {"grades.$.g": 1}})
    db.c.update_one({"_id": 1}, [{"$set": {"total": {"$sum": "$grades.g"}}}])
    assert db.c.find_one() == {"_id": 1, "grades": [{"g": 81}, {"g": 95, "top": True}], "total": 176}


def test_deletes_report_their_count(db):
    db.c.insert_many({"_id": i} for i in range(5))
    assert db.c.delete_one({"_id": {"$gt": 2}}).deleted_count == 1
    assert db.c.delete_many({"_id": {"$lt": 2}}).deleted_count == 2
    assert db.c.delete_many({"_id": "none"}).deleted_count == 0
    assert db.c.count_documents({}) == 2


def test_find_and_modify_returns_the_document_before_or_after(db):
    db.c.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 5}])
    assert db.c.find_one_and_update({}, {"$inc": {"n": 1}}, sort=[("n", -1)]) == {"_id": 2, "n": 5}
    after = db.c.find_one_and_update({"_id": 2}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER, projection={"_id": 0})
    assert after == {"n": 7}
    assert db.c.find_one_and_replace({"_id": 9}, {"new": 1}, upsert=True, return_document=ReturnDocument.AFTER) == {"_id": 9, "new": 1}
    assert db.c.find_one_and_delete({"_id": 1}) == {"_id": 1, "n": 1}
    assert db.c.find_one_and_delete({"_id": 1}) is None


def test_unordered_bulk_write_continues_after_errors(db):
    result = db.c.bulk_write(
        [
            InsertOne({"_id": 1}),
            InsertOne({"_id": 2}),
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            UpdateMany({}, {"$set": {"b": 1}}),
            ReplaceOne({"_id": 3}, {"c": 1}, upsert=True),
            DeleteOne({"_id": 2}),
            DeleteMany({"_id": "none"}),
        ]
    )
    assert result.bulk_api_result["nInserted"] == 2
    assert (result.matched_count, result.modified_count, result.deleted_count) == (3, 3, 1)
    assert result.upserted_ids == {4: 3}

    with pytest.raises(BulkWriteError) as caught:
        db.c.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 10})], ordered=True)
    assert caught.value.details["nInserted"] == 0
    with pytest.raises(BulkWriteError) as caught:
        db.c.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 10}), InsertOne({"_id": 3})], ordered=False)
    assert caught.value.details["nInserted"] == 1
    assert [(e["index"], e["code"]) for e in caught.value.details["writeErrors"]] == [(0, 11000), (2, 11000)]


def test_client_bulk_write_in_several_collections(client, db):
    result = client.bulk_write(
        [
            InsertOne({"_id": 1, "n": 1}, namespace=f"{db.name}.a"),
            InsertOne({"_id": 1}, namespace=f"{db.name}.b"),
            UpdateOne({"_id": 1}, {"$inc": {"n": 1}}, namespace=f"{db.name}.a"),
            UpdateOne({"_id": 7}, {"$set": {"n": 1}}, upsert=True, namespace=f"{db.name}.b"),
            DeleteOne({"_id": 1}, namespace=f"{db.name}.b"),
        ],
        verbose_results=True,
    )
    assert (result.inserted_count, result.modified_count, result.upserted_count, result.deleted_count) == (2, 1, 1, 1)
    assert result.update_results[3].upserted_id == 7
    assert list(db.a.find()) == [{"_id": 1, "n": 2}]
    assert list(db.b.find()) == [{"_id": 7, "n": 1}]


def test_insert_many_splits_into_several_commands(db):
    count = 120_000
    assert len(db.c.insert_many(({"_id": i} for i in range(count)), ordered=False).inserted_ids) == count
    assert db.c.estimated_document_count() == count
    assert sum(1 for _ in db.c.find()) == count


def test_duplicate_key_error_names_index_and_value(db):
    db.c.create_index([("a.b", 1), ("c", -1)], unique=True)
    db.c.insert_one({"a": {"b": 1}, "c": "x"})
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.insert_one({"a": {"b": 1}, "c": "x"})
    assert caught.value.code == 11000
    assert caught.value.details["keyPattern"] == {"a.b": 1, "c": -1}
    assert caught.value.details["keyValue"] == {"a.b": 1, "c": "x"}
    assert caught.value.details["errmsg"] == (
        f'E11000 duplicate key error collection: {db.name}.c index: a.b_1_c_-1 dup key: {{ a.b: 1, c: "x" }}'
    )
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.find_one_and_update({"x": 1}, {"$set": {"a.b": 1, "c": "x"}}, upsert=True)
    assert caught.value.details["keyPattern"] == {"a.b": 1, "c": -1}


@pytest.mark.parametrize(
    ("update", "code"),
    [
        ({"$set": {"_id": 2}}, 66),
        ({"$set": {"a": 1, "a.b": 1}}, 40),
        ({"$inc": {"text": 1}}, 14),
        ({"$push": {"text": 1}}, 2),
        ({"$unknown": {"a": 1}}, 9),
        ({"$set": {"text.b": 1}}, 28),
        ({"$rename": {"a": "a"}}, 2),
    ],
)
def test_invalid_update_is_refused_and_changes_nothing(db, update, code):
    db.c.insert_one({"_id": 1, "text": "x"})
    with pytest.raises(WriteError) as caught:
        db.c.update_one({"_id": 1}, update)
    assert caught.value.code == code
    assert db.c.find_one() == {"_id": 1, "text": "x"}


def test_statements_are_checked_without_a_collection(db):
    for attempt in (
        lambda: db.none.update_one({}, {"$unknown": {"a": 1}}),
        lambda: db.none.delete_one({"$unknown": 1}),
        lambda: db.none.find_one_and_update({}, {"$unknown": {"a": 1}}),
        lambda: db.none.find_one_and_delete({"$unknown": 1}),
    ):
        with pytest.raises(OperationFailure) as caught:
            attempt()
        assert caught.value.code in (2, 9)
    assert db.list_collection_names() == []


@pytest.mark.parametrize(
    ("filter", "code"),
    [({"a": {"$unknown": 1}}, 2), ({"$unknown": 1}, 2), ({"$and": 1}, 2), ({"a": {"$in": 1}}, 2), ({"a": {"$regex": "("}}, 51091)],
)
def test_invalid_filter_is_refused(db, filter, code):
    with pytest.raises(OperationFailure) as caught:
        db.c.find_one(filter)
    assert caught.value.code == code


def test_unacknowledged_write_is_done_without_a_reply(db):
    silent = db.get_collection("c", write_concern=WriteConcern(w=0))
    assert not silent.insert_one({"_id": 1}).acknowledged
    # The find uses the same pooled connection, so the server handles it after the insert.
    assert db.c.find_one() == {"_id": 1}


def test_largest_document_is_stored_and_a_larger_one_refused(db):
    limit = 16 * 1024 * 1024
    overhead = len(BSON.encode({"_id": 1, "s": ""}))
    db.c.insert_one({"_id": 1, "s": "x" * (limit - overhead)})
    assert len(db.c.find_one()["s"]) == limit - overhead
    with pytest.raises(WriteError) as caught:
        db.c.update_one({"_id": 1}, {"$set": {"more": 1}})
    assert caught.value.code in (10334, 17419)
