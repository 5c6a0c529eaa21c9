"""Key-value stores: their unsupported queries and their special features. test_operations.py tests their operations."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.data import INTEGER, Query, Table
from bench.targets import TARGETS
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.tests.systems import started
from bench.workloads.persons import FIELDS
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

PEOPLE = Table("people", FIELDS)
ORDERED = Table("ordered", (("n", INTEGER),), key=int)


@pytest.mark.parametrize("name", ["redis", "berkeleydb", "tokyo-hash", "tokyo-tree"])
def test_key_value_stores_report_unsupported_queries(name, tmp_path):
    target = started(name, tmp_path)
    try:
        client = target.connector(RELAXED)()
        client.create(PEOPLE)
        for ask in (
            lambda: client.count(PEOPLE, DESCRIBED[0]),
            lambda: list(client.find(PEOPLE, DESCRIBED[0])),
            lambda: client.delete_many(PEOPLE, DESCRIBED[0]),
            lambda: client.create_index(PEOPLE, "age"),
            lambda: client.native(PEOPLE, {}),
        ):
            with pytest.raises(Unsupported):
                ask()
        client.close()
    finally:
        target.stop()


@pytest.mark.parametrize("name", ["berkeleydb", "tokyo-tree"])
def test_trees_scan_in_key_order(name, tmp_path):
    client = started(name, tmp_path).connector(SYNCED)()
    client.create(ORDERED)
    client.insert_many(ORDERED, [(number * 7 % 100 - 50, {"n": number}) for number in range(100)])
    assert client.read_range(ORDERED, 20, 50) == 30 and client.read_range(ORDERED, -300, 5) == 5
    assert [document["_id"] for document in client.find(ORDERED, Query("first", limit=60))] == list(range(-50, 10))
    client.close()


@pytest.mark.parametrize("name", ["tokyo-hash", "tokyo-tree", "tokyo-table"])
def test_a_second_client_of_a_tokyo_file_is_unsupported(name, tmp_path):
    target = started(name, tmp_path)
    first, second = target.connector(RELAXED)(), target.connector(RELAXED)()
    first.create(PEOPLE)
    with pytest.raises(Unsupported, match="one client at a time"):
        second.find_by_id(PEOPLE, b"x")
    first.close()
    assert second.find_by_id(PEOPLE, b"x") is None
    apart = replace(PEOPLE, database="apart")
    second.insert_one(apart, (b"x", {"age": 5}))
    assert second.find_by_id(PEOPLE, b"x") is None
    second.drop(apart)
    assert not [file for file in target.data.iterdir() if "apart" in file.name]
    second.close()


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_tokyo_tables_find_the_same_rows_with_an_index(shape, tmp_path):
    client = started("tokyo-table", tmp_path).connector(RELAXED)()
    rows = list(zip(keys(1_000), persons(1_000, shape)))
    client.create(PEOPLE)
    client.insert_many(PEOPLE, rows)
    between = (("at least", "salary", 20_000), ("at most", "salary", 21_000))
    ends = Query("ends", (*between, ("above", "age", 20)), ("name", "salary"), "salary")
    one_end = Query("one end", (("at most", "salary", 12_000), ("equals", "age", 30)))
    named = Query("named", (("equals", "name", rows[5][1]["name"]),))
    among = Query("among", (("any", "age", (20, 21)), ("any", "telephone", (rows[5][1]["telephone"], "(.*)"))), limit=3)
    for index in (None, "salary", "name", "age"):
        if index:
            client.create_index(PEOPLE, index)
        for query in (*DESCRIBED, *PUBLISHED, ends, one_end, named, among):
            expected = [document for _, document in rows if query.matches(document)]
            assert client.count(PEOPLE, query) == len(expected), (query, index)
            found = list(client.find(PEOPLE, query))
            assert len(found) == len(expected), (query, index)
        found = list(client.find(PEOPLE, ends))
        assert [document["salary"] for document in found] == sorted(one["salary"] for _, one in rows if ends.matches(one))
        assert set(found[0]) == {"_id", "name", "salary"}
    assert client.delete_many(PEOPLE, ends) == len(found) and client.count(PEOPLE, ends) == 0
    with pytest.raises(Unsupported):
        client.create_index(PEOPLE, "pet")
    with pytest.raises(Unsupported):
        client.count(PEOPLE, Query("order of texts", (("above", "name", "m"),)))
    client.close()


def test_a_redis_replica_catches_up(tmp_path):
    target = started("redis", tmp_path)
    try:
        client = target.connector(RELAXED)()
        client._redis.config_set("repl-diskless-sync-delay", 0)  # the default waits 5 s for more replicas
        client.create(PEOPLE)
        rows = list(zip(keys(600), persons(600, "flat")))
        client.insert_many(PEOPLE, rows[:300])
        (tmp_path / "replica").mkdir()
        target.start_replica(tmp_path / "replica", [PEOPLE])
        client.insert_many(PEOPLE, rows[300:])
        target.await_replica(30)
        copy = target.replica_connector()()
        assert copy.count(PEOPLE, Query("all")) == 600
        client.update_field(PEOPLE, rows[0][0], "age", 3)
        target.await_replica(30)
        assert copy.find_by_id(PEOPLE, rows[0][0])["age"] == 3
        copy.close()
        client.close()
    finally:
        target.stop()


def test_null_redis_answers_redis_py(tmp_path):
    target = TARGETS["null-redis"].configured(SimpleNamespace())
    target.start(tmp_path)
    try:
        client = target.connector(SYNCED)()
        client.create(PEOPLE)
        rows = list(zip(keys(300), persons(300, "flat")))
        client.insert_many(PEOPLE, rows)
        for row in rows:
            client.insert_one(PEOPLE, row)
        assert client.find_by_id(PEOPLE, rows[0][0])["age"] == 40
        client.update_field(PEOPLE, rows[0][0], "age", 3)
        client.delete_one(PEOPLE, rows[0][0])
        client.close()
    finally:
        target.stop()
