"""Tokyo Cabinet, Redis and Berkeley DB: each one's operations against the real thing, wherever it is installed."""

from datetime import datetime
from types import SimpleNamespace

import pytest

from bench.data import ALL, DATE, FLOAT, INTEGER, NESTED, TEXT, Query, Table
from bench.measure import Contestant, concurrent
from bench.targets import TARGETS, NotGiven, debian
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.workloads.persons import FIELDS, SCRATCH, SHARED, _insert_share
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

PEOPLE = Table("people", FIELDS)
MIXED = Table("mixed", (("t", TEXT), ("n", INTEGER), ("x", FLOAT), ("d", DATE), ("list", NESTED)), key=str, database="apart")


def _start(name: str, tmp_path, monkeypatch):
    def refuse(*packages: str) -> None:
        raise NotGiven("a test installs nothing")

    monkeypatch.setattr(debian, "install", refuse)
    target = TARGETS[name].configured(SimpleNamespace())
    try:
        target.start(tmp_path)
    except NotGiven:
        pytest.skip(f"{name} is not installed here; the bench itself installs it")
    return target


@pytest.fixture(params=["tokyo-hash", "tokyo-tree", "tokyo-table", "redis", "berkeleydb"])
def started(request, tmp_path, monkeypatch):
    target = _start(request.param, tmp_path, monkeypatch)
    yield target
    target.stop()


@pytest.mark.parametrize("durability", [RELAXED, SYNCED])
def test_records_by_their_ids(started, durability):
    rows = list(zip(keys(300), persons(300, "nested")))
    client = started.connector(durability)()
    client.create(PEOPLE)
    client.insert_many(PEOPLE, rows[:250])
    for row in rows[250:]:
        client.insert_one(PEOPLE, row)
    assert all(client.find_by_id(PEOPLE, key) == document for key, document in rows)
    assert client.find_by_id(PEOPLE, b"absent------") is None
    assert client.count(PEOPLE, ALL) == 300
    assert sum(1 for _ in client.find(PEOPLE, ALL)) == 300
    assert sum(1 for _ in client.find(PEOPLE, Query("some", limit=7, fields=("age",)))) == 7
    with pytest.raises(Exception, match="before|existing|exist"):
        client.insert_one(PEOPLE, rows[0])
    with pytest.raises(Exception, match="before|existing|exist"):
        client.insert_many(PEOPLE, rows[:2])
    client.update_field(PEOPLE, rows[1][0], "age", 17)
    assert client.find_by_id(PEOPLE, rows[1][0]) == {**rows[1][1], "age": 17}
    client.delete_one(PEOPLE, rows[2][0])
    assert client.find_by_id(PEOPLE, rows[2][0]) is None
    with pytest.raises(LookupError):
        client.delete_one(PEOPLE, rows[2][0])
    assert client.maintain(PEOPLE)
    assert client.count(PEOPLE, ALL) == 299
    told = client.table_bytes(PEOPLE)
    assert told is None or told > 300 * 50
    client.close()
    assert started.describe()["version"][0].isdigit()
    again = started.connector(durability)()
    assert again.find_by_id(PEOPLE, rows[0][0]) == rows[0][1]
    again.create(PEOPLE)
    assert again.count(PEOPLE, ALL) == 0
    again.close()


def test_other_kinds_of_fields_and_ids_in_a_database_apart(started):
    client = started.connector(RELAXED)()
    client.create(MIXED)
    document = {"t": 'ä"\\', "n": -5, "x": 0.1, "list": [{"a": 1}, "b"]}
    client.insert_one(MIXED, ("schlüssel", document))
    assert client.find_by_id(MIXED, "schlüssel") == document
    client.drop(MIXED)
    client.create(MIXED)
    assert client.find_by_id(MIXED, "schlüssel") is None
    client.close()


def test_what_a_key_value_store_cannot_answer(started):
    if started.name == "tokyo-table":
        pytest.skip("has queries")
    client = started.connector(RELAXED)()
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


def test_order_where_there_is_one(started):
    client = started.connector(RELAXED)()
    table = Table("ordered", (("n", INTEGER),), key=int)
    client.create(table)
    client.insert_many(table, [(number * 7 % 100 - 50, {"n": number}) for number in range(100)])
    if started.name in ("tokyo-tree", "berkeleydb"):
        assert client.read_range(table, 20, 50) == 30
        assert client.read_range(table, -300, 5) == 5
        assert [key for key, _ in client.find(table, ALL)] == list(range(-50, 50))
    else:
        with pytest.raises(Unsupported):
            client.read_range(table, 20, 50)
    client.close()


@pytest.mark.parametrize("name", ["redis"])
def test_concurrent_clients_insert_all(name, tmp_path, monkeypatch):
    target = _start(name, tmp_path, monkeypatch)
    try:
        contestant = Contestant(target, SYNCED)
        contestant.client.create(SHARED)
        contestant.client.create(SCRATCH)
        rows = list(zip(keys(100), persons(100, "flat")))
        assert concurrent(contestant, 2, rows, _insert_share).operations == 100
        assert all(contestant.client.find_by_id(SHARED, key) == document for key, document in rows)
        with pytest.raises(RuntimeError, match="2 of 2 clients failed"):
            concurrent(contestant, 2, rows, _insert_share)
        contestant.client.close()
    finally:
        target.stop()


def test_a_tokyo_file_has_one_client(tmp_path, monkeypatch):
    target = _start("tokyo-hash", tmp_path, monkeypatch)
    first, second = target.connector(RELAXED)(), target.connector(RELAXED)()
    first.create(PEOPLE)
    with pytest.raises(Unsupported, match="one client at a time"):
        second.find_by_id(PEOPLE, b"x")
    first.close()
    assert second.find_by_id(PEOPLE, b"x") is None
    second.close()


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_tokyos_tables_find_what_python_finds(shape, tmp_path, monkeypatch):
    client = _start("tokyo-table", tmp_path, monkeypatch).connector(RELAXED)()
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
            found = [document for _, document in client.find(PEOPLE, query)]
            assert len(found) == len(expected), (query, index)
        found = [document for _, document in client.find(PEOPLE, ends)]
        assert [document["salary"] for document in found] == sorted(one["salary"] for _, one in rows if ends.matches(one))
        assert set(found[0]) == {"name", "salary"}
    assert client.delete_many(PEOPLE, ends) == len(found) and client.count(PEOPLE, ends) == 0
    with pytest.raises(Unsupported):
        client.create_index(PEOPLE, "pet")
    with pytest.raises(Unsupported):
        client.count(PEOPLE, Query("order of texts", (("above", "name", "m"),)))
    client.close()


def test_tokyos_tables_compare_dates(tmp_path, monkeypatch):
    client = _start("tokyo-table", tmp_path, monkeypatch).connector(SYNCED)()
    client.create(MIXED)
    days = [datetime(2009, 5, day, 12, 30, 15, 250_000) for day in range(1, 29)]
    client.insert_many(MIXED, [(f"{day.day}", {"d": day}) for day in days])
    client.create_index(MIXED, "d")
    week = Query("week", (("at least", "d", days[6]), ("at most", "d", days[13])), order="d", limit=5)
    assert [document["d"] for _, document in client.find(MIXED, week)] == days[6:11]
    client.close()


def test_redis_keeps_what_it_acknowledged_when_killed(tmp_path, monkeypatch):
    target = _start("redis", tmp_path, monkeypatch)
    try:
        client = target.connector(SYNCED)()
        client.create(PEOPLE)
        rows = list(zip(keys(500), persons(500, "flat")))
        client.insert_many(PEOPLE, rows)
        target.kill()
        with pytest.raises(Exception, match="onnect"):
            client.find_by_id(PEOPLE, rows[0][0])
        target.restart()
        client = target.connector(SYNCED)()
        assert client.count(PEOPLE, ALL) == 500 and target.pid and target.ready_seconds > 0
        client.close()
    finally:
        target.stop()
    target.stop()


def test_redis_replica_follows(tmp_path, monkeypatch):
    target = _start("redis", tmp_path, monkeypatch)
    try:
        client = target.connector(RELAXED)()
        client._redis.config_set("repl-diskless-sync-delay", 0)  # its default waits 5 s for more replicas to come
        client.create(PEOPLE)
        rows = list(zip(keys(600), persons(600, "flat")))
        client.insert_many(PEOPLE, rows[:300])
        (tmp_path / "replica").mkdir()
        target.start_replica(tmp_path / "replica", [PEOPLE])
        client.insert_many(PEOPLE, rows[300:])
        target.await_replica(30)
        copy = target.replica_connector()()
        assert copy.count(PEOPLE, ALL) == 600
        client.update_field(PEOPLE, rows[0][0], "age", 3)
        target.await_replica(30)
        assert copy.find_by_id(PEOPLE, rows[0][0])["age"] == 3
        copy.close()
        client.close()
    finally:
        target.stop()


def test_a_null_redis_answers_the_real_driver(tmp_path):
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
