"""Indexes: creating, listing, dropping, constraints, and their use in plans."""

import datetime
import time

import pytest
from pymongo import ASCENDING, DESCENDING, HASHED, IndexModel
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure


def stages(plan):
    """The names of a plan's stages, outermost first."""
    names = []
    while plan:
        names.append(plan["stage"])
        plan = plan.get("inputStage")
    return names


def winning(cursor):
    return stages(cursor.explain()["queryPlanner"]["winningPlan"])


def test_indexes_are_listed_with_their_options(db):
    db.c.create_indexes(
        [
            IndexModel([("a", ASCENDING), ("b.c", DESCENDING)], unique=True),
            IndexModel("sparse", sparse=True, name="mine"),
            IndexModel("partial", partialFilterExpression={"n": {"$gt": 5}}),
            IndexModel("at", expireAfterSeconds=3600),
            IndexModel([("h", HASHED)]),
            IndexModel([("w.$**", 1)]),
            IndexModel("text", collation=Collation("de", strength=2)),
            IndexModel("unseen", hidden=True),
        ]
    )
    listed = {index["name"]: index for index in db.c.list_indexes()}
    assert listed["_id_"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert listed["a_1_b.c_-1"] == {"v": 2, "key": {"a": 1, "b.c": -1}, "name": "a_1_b.c_-1", "unique": True}
    assert listed["mine"]["sparse"] is True
    assert listed["partial_1"]["partialFilterExpression"] == {"n": {"$gt": 5}}
    assert listed["at_1"]["expireAfterSeconds"] == 3600
    assert listed["h_hashed"]["key"] == {"h": "hashed"}
    assert listed["w.$**_1"]["key"] == {"w.$**": 1}
    assert listed["text_1"]["collation"]["locale"] == "de"
    assert listed["unseen_1"]["hidden"] is True
    assert set(db.c.index_information()) == set(listed)


def test_create_and_drop_report_the_number_of_indexes(db):
    reply = db.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"], reply["createdCollectionAutomatically"]) == (1, 2, True)
    reply = db.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"], reply["note"]) == (2, 2, "all indexes already exist")
    assert db.command("dropIndexes", "c", index="a_1")["nIndexesWas"] == 2
    db.c.create_index("x")
    db.c.drop_indexes()
    assert list(db.c.index_information()) == ["_id_"]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda c: c.create_index("a", name="other"), 85),
        (lambda c: c.create_index("a", unique=True), 86),
        (lambda c: c.create_index("b", name="a_1"), 86),
        (lambda c: c.drop_index("none"), 27),
        (lambda c: c.drop_index("_id_"), 72),
        (lambda c: c.create_index([("a", 0)]), 67),
        (lambda c: c.create_index([("a", "nonsense")]), 67),
        (lambda c: c.create_index("x", expireAfterSeconds=-1), 67),
        (lambda c: c.create_index("x", nonsense=1), 197),
    ],
)
def test_invalid_index_commands_have_mongodb_codes(db, make, code):
    db.c.create_index("a")
    with pytest.raises(OperationFailure) as caught:
        make(db.c)
    assert caught.value.code == code


def test_unique_index_over_duplicates_is_not_built(db):
    db.c.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.create_index("a", unique=True)
    assert caught.value.details["keyPattern"] == {"a": 1}
    assert caught.value.details["keyValue"] == {"a": 1}
    assert list(db.c.index_information()) == ["_id_"]


def test_unique_sparse_and_partial_indexes_constrain_only_their_entries(db):
    db.c.create_index("sparse", unique=True, sparse=True)
    db.c.create_index("partial", unique=True, partialFilterExpression={"on": True})
    db.c.insert_many([{}, {}, {"partial": 1, "on": False}, {"partial": 1, "on": True}])
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"partial": 1, "on": True})
    db.c.insert_one({"sparse": 1})
    with pytest.raises(DuplicateKeyError):
        db.c.update_one({"partial": 1, "on": False}, {"$set": {"sparse": 1}})


def test_planner_uses_a_matching_index(db):
    db.c.insert_many({"_id": i, "a": i % 10, "b": i, "c": [i, i + 1]} for i in range(500))
    assert winning(db.c.find({"b": 7})) == ["COLLSCAN"]
    db.c.create_index([("a", 1), ("b", -1)])
    db.c.create_index("c")
    assert winning(db.c.find({"a": 3})) == ["FETCH", "IXSCAN"]
    assert "SORT" not in winning(db.c.find({"a": 3}).sort("b", -1))
    assert "SORT" in winning(db.c.find({"a": {"$gt": 3}}).sort("b", -1))
    covered = winning(db.c.find({"a": 3}, {"_id": 0, "b": 1}))
    assert covered[0].startswith("PROJECTION") and "FETCH" not in covered
    assert winning(db.c.find({"c": 3})) == ["FETCH", "IXSCAN"]
    assert winning(db.c.find({"a": 3}).hint([("$natural", 1)])) == ["COLLSCAN"]
    assert "IXSCAN" in winning(db.c.find().hint("c_1"))
    with pytest.raises(OperationFailure) as caught:
        db.c.find_one({}, hint="none")
    assert caught.value.code == 2


def test_results_are_the_same_with_and_without_an_index(db):
    values = [None, 1, 2.5, "a", "b", [1, "a"], [], [[1]], {"x": 1}, True, datetime.datetime(2020, 1, 1)]
    db.c.insert_many([{"_id": i, "v": v} for i, v in enumerate(values)] + [{"_id": 99}])
    filters = [{"v": v} for v in values]
    filters += [{"v": {op: v}} for op in ("$gt", "$gte", "$lt", "$lte", "$ne") for v in (1, "a", None, [1], True)]
    filters += [{"v": {"$in": [1, None, "b"]}}, {"v": {"$exists": False}}, {"v": {"$type": "array"}}, {"$nor": [{"v": 1}]}]
    before = [sorted(d["_id"] for d in db.c.find(f)) for f in filters]
    db.c.create_index("v")
    after = [sorted(d["_id"] for d in db.c.find(f).hint("v_1")) for f in filters]
    assert after == before


def test_execution_statistics_count_keys_and_documents(db):
    db.c.insert_many({"a": i % 10} for i in range(100))
    db.c.create_index("a")
    reply = db.command("explain", {"find": "c", "filter": {"a": 1}}, verbosity="executionStats")
    statistics = reply["executionStats"]
    assert (statistics["nReturned"], statistics["totalKeysExamined"], statistics["totalDocsExamined"]) == (10, 10, 10)
    assert statistics["executionSuccess"] is True


def test_hidden_index_is_not_used(db):
    db.c.insert_many({"a": i} for i in range(50))
    db.c.create_index("a", hidden=True)
    assert winning(db.c.find({"a": 1})) == ["COLLSCAN"]
    db.command("collMod", "c", index={"name": "a_1", "hidden": False})
    assert winning(db.c.find({"a": 1})) == ["FETCH", "IXSCAN"]


def test_ttl_index_deletes_expired_documents(client, db):
    old = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
    try:
        db.c.create_index("at", expireAfterSeconds=60)
        db.c.insert_many([{"_id": 1, "at": old}, {"_id": 2, "at": old + datetime.timedelta(hours=2)}, {"_id": 3, "at": "text"}])
        deadline = time.monotonic() + 60
        while db.c.find_one({"_id": 1}) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sorted(d["_id"] for d in db.c.find()) == [2, 3]
    finally:
        client.admin.command("setParameter", 1, ttlMonitorSleepSecs=60)


def test_min_max_and_return_key(db):
    db.c.insert_many({"_id": i, "a": i // 4, "b": i % 4} for i in range(16))
    db.c.create_index([("a", 1), ("b", 1)], name="ab")
    part = db.c.find().min([("a", 1), ("b", 2)]).max([("a", 2), ("b", 1)]).hint("ab")
    assert [d["_id"] for d in part] == [6, 7, 8]
    assert part.rewind().explain()["queryPlanner"]["winningPlan"]["inputStage"]["indexBounds"] == {
        "startKey": {"a": 1, "b": 2},
        "endKey": {"a": 2, "b": 1},
    }
    keys = db.c.find({"a": 3}, sort=[("b", -1)], return_key=True)
    assert list(keys) == [{"a": 3, "b": b} for b in (3, 2, 1, 0)]
    assert list(db.c.find({"_id": 3}, return_key=True)) == [{"_id": 3}]
    with pytest.raises(OperationFailure) as refused:
        list(db.c.find().min([("a", 1)]).hint("ab"))
    assert refused.value.code == 51174


def test_expr_comparisons_use_an_index(db):
    db.c.insert_many({"_id": i, "a": i % 100} for i in range(1000))
    db.c.create_index("a")
    plan = db.c.find({"$expr": {"$and": [{"$gte": ["$a", 97]}, {"$ne": ["$_id", 97]}]}})
    assert plan.explain()["executionStats"]["totalKeysExamined"] == 30
    assert len(list(plan.rewind())) == 29
    lookup = {"from": "c", "let": {"mine": "$a"}, "as": "same"}
    match = {"$expr": {"$eq": ["$a", "$$mine"]}}
    found = list(db.c.aggregate([{"$limit": 3}, {"$lookup": {**lookup, "pipeline": [{"$match": match}]}}]))
    assert [len(d["same"]) for d in found] == [10, 10, 10]
    uses = next(db.c.aggregate([{"$indexStats": {}}, {"$match": {"name": "a_1"}}]))
    assert uses["accesses"]["ops"] >= 5
