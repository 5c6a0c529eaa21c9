"""Aggregation pipelines through pymongo."""

import datetime

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def sales(db):
    db.sales.insert_many(
        {"_id": i, "shop": "ABC"[i % 3], "price": i * 1.5, "tags": ["t%d" % (i % 2), "all"], "day": datetime.datetime(2024, 1 + i % 12, 1)}
        for i in range(24)
    )
    db.shops.insert_many([{"_id": "A", "city": "Ankara"}, {"_id": "B", "city": "Baku"}])
    return db.sales


def test_group_computes_accumulators_by_key(sales):
    rows = list(
        sales.aggregate(
            [
                {"$match": {"price": {"$gt": 0}}},
                {"$group": {"_id": "$shop", "n": {"$sum": 1}, "sum": {"$sum": "$price"}, "max": {"$max": "$price"}, "first": {"$first": "$_id"}}},
                {"$sort": {"_id": 1}},
            ]
        )
    )
    assert rows == [
        {"_id": "A", "n": 7, "sum": 126.0, "max": 31.5, "first": 3},
        {"_id": "B", "n": 8, "sum": 138.0, "max": 33.0, "first": 1},
        {"_id": "C", "n": 8, "sum": 150.0, "max": 34.5, "first": 2},
    ]


def test_lookup_joins_by_field_and_by_pipeline(sales):
    simple = list(
        sales.aggregate(
            [
                {"$match": {"_id": {"$in": [0, 2]}}},
                {"$lookup": {"from": "shops", "localField": "shop", "foreignField": "_id", "as": "where"}},
                {"$project": {"city": {"$first": "$where.city"}}},
                {"$sort": {"_id": 1}},
            ]
        )
    )
    assert simple == [{"_id": 0, "city": "Ankara"}, {"_id": 2}]
    piped = list(
        sales.database.shops.aggregate(
            [
                {
                    "$lookup": {
                        "from": "sales",
                        "let": {"shop": "$_id"},
                        "pipeline": [{"$match": {"$expr": {"$eq": ["$shop", "$$shop"]}}}, {"$count": "n"}],
                        "as": "sold",
                    }
                },
                {"$unwind": "$sold"},
                {"$replaceWith": {"shop": "$_id", "n": "$sold.n"}},
                {"$sort": {"shop": 1}},
            ]
        )
    )
    assert piped == [{"shop": "A", "n": 8}, {"shop": "B", "n": 8}]


def test_facet_bucket_and_count(sales):
    [row] = sales.aggregate(
        [
            {
                "$facet": {
                    "tags": [{"$unwind": "$tags"}, {"$sortByCount": "$tags"}],
                    "prices": [{"$bucket": {"groupBy": "$price", "boundaries": [0, 10, 30], "default": "more"}}],
                    "auto": [{"$bucketAuto": {"groupBy": "$_id", "buckets": 4}}],
                    "n": [{"$count": "n"}],
                }
            }
        ]
    )
    assert row["tags"][0] == {"_id": "all", "count": 24}
    assert row["prices"] == [{"_id": 0, "count": 7}, {"_id": 10, "count": 13}, {"_id": "more", "count": 4}]
    assert [bucket["count"] for bucket in row["auto"]] == [6, 6, 6, 6]
    assert row["n"] == [{"n": 24}]


def test_out_and_merge_write_collections(sales):
    db = sales.database
    sales.aggregate([{"$group": {"_id": "$shop", "n": {"$sum": 1}}}, {"$out": "result"}])
    assert db.result.count_documents({"n": 8}) == 3
    sales.aggregate([{"$group": {"_id": "$shop", "last": {"$max": "$_id"}}}, {"$merge": {"into": "result", "whenMatched": "merge"}}])
    assert db.result.find_one({"_id": "C"}) == {"_id": "C", "n": 8, "last": 23}


def test_union_sample_documents_and_statistics_stages(client, sales):
    db = sales.database
    assert len(list(sales.aggregate([{"$unionWith": "shops"}]))) == 26
    assert len(list(sales.aggregate([{"$sample": {"size": 5}}]))) == 5
    assert list(db.aggregate([{"$documents": [{"x": 1}]}])) == [{"x": 1}]
    [statistics] = sales.aggregate([{"$collStats": {"count": {}, "storageStats": {}}}])
    assert statistics["count"] == 24 and statistics["storageStats"]["nindexes"] == 1
    assert [index["name"] for index in sales.aggregate([{"$indexStats": {}}])] == ["_id_"]
    assert any(op.get("command", {}).get("aggregate") == 1 for op in client.admin.aggregate([{"$currentOp": {}}]))


def test_expressions_evaluate_as_documented(db):
    db.c.insert_one({"s": "Hello", "n": -7, "d": datetime.datetime(2024, 2, 29, 13, 5), "a": [3, 1, 2], "o": {"x": 1}})
    [row] = db.c.aggregate(
        [
            {
                "$project": {
                    "_id": 0,
                    "upper": {"$toUpper": "$s"},
                    "mod": {"$mod": ["$n", 3]},
                    "day": {"$dateToString": {"date": "$d", "format": "%Y-%m-%d %H", "timezone": "Europe/Prague"}},
                    "next": {"$dateAdd": {"startDate": "$d", "unit": "year", "amount": 1}},
                    "sorted": {"$sortArray": {"input": "$a", "sortBy": 1}},
                    "sum": {"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
                    "pairs": {"$objectToArray": "$o"},
                    "kind": {"$switch": {"branches": [{"case": {"$lt": ["$n", 0]}, "then": "negative"}], "default": "other"}},
                    "type": {"$type": "$d"},
                }
            }
        ]
    )
    assert row == {
        "upper": "HELLO",
        "mod": -1,
        "day": "2024-02-29 14",
        "next": datetime.datetime(2025, 2, 28, 13, 5),
        "sorted": [1, 2, 3],
        "sum": 6,
        "pairs": [{"k": "x", "v": 1}],
        "kind": "negative",
        "type": "date",
    }


def test_view_is_queried_through_its_pipeline_and_refuses_writes(db):
    db.c.insert_many({"_id": i, "n": i} for i in range(10))
    db.create_collection("large", viewOn="c", pipeline=[{"$match": {"n": {"$gte": 5}}}, {"$set": {"view": True}}])
    assert db.large.count_documents({}) == 5
    assert db.large.find_one({"n": 7}) == {"_id": 7, "n": 7, "view": True}
    assert [d["_id"] for d in db.large.aggregate([{"$sort": {"_id": -1}}, {"$limit": 2}])] == [9, 8]
    with pytest.raises(OperationFailure) as caught:
        db.large.insert_one({})
    assert caught.value.code == 166
    kinds = {c["name"]: c["type"] for c in db.list_collections()}
    assert kinds["large"] == "view" and kinds["c"] == "collection"


@pytest.mark.parametrize(
    ("pipeline", "code", "text"),
    [
        ([{"$nonsense": {}}], 40324, "Unrecognized pipeline stage name: '$nonsense'"),
        ([{"$project": {"x": {"$nonsense": 1}}}], 31325, "Unknown expression $nonsense"),
        ([{"$group": {"n": {"$sum": 1}}}], 15955, "a group specification must include an _id"),
        ([{"$match": 1}], 15959, "the match filter must be an expression in an object"),
        ([{"$limit": 0}], 15958, "the limit must be positive"),
        ([{"$sort": {}}], 15976, "$sort stage must have at least one sort key"),
        ([{"$unwind": "a"}], 28818, "path option to $unwind stage should be prefixed with a '$': a"),
        ([{"$out": "x"}, {"$match": {}}], 40601, "$out can only be the final stage in the pipeline"),
    ],
)
def test_invalid_pipeline_is_refused_with_code_and_text(db, pipeline, code, text):
    db.c.insert_one({"a": 1})
    with pytest.raises(OperationFailure) as caught:
        list(db.c.aggregate(pipeline))
    assert caught.value.code == code
    assert text in caught.value.details["errmsg"]
