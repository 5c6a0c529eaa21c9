"""Every adapter's operations: against the real system where it can be started here, else the exact requests."""

import os
from types import SimpleNamespace

import pytest

from bench import process
from bench.measure import Contestant, concurrent, stretch
from bench.targets import TARGETS, NotGiven
from bench.targets.base import RELAXED, SYNCED
from bench.targets.couch_client import to_map
from bench.targets.mongo_client import to_filter
from bench.targets.postgres import find_programs
from bench.workloads.persons import SHARED, _insert_share
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

NOTHING_GIVEN = dict(diwan_program=None, diwan_uri=None, mongodb_uri=None, couchdb_url=None)


@pytest.fixture(params=["sqlite", "postgres"])
def started(request, tmp_path_factory):
    if request.param == "postgres" and not find_programs():
        pytest.skip("PostgreSQL is not installed here; the bench itself installs it")
    directory = tmp_path_factory.mktemp(request.param)
    for parent in (directory, *directory.parents):
        if os.stat(parent).st_uid == os.geteuid() and parent.name.startswith(("pytest", request.param)):
            parent.chmod(0o755)  # PostgreSQL runs as another user when we are root
    target = TARGETS[request.param].configured(SimpleNamespace(**NOTHING_GIVEN))
    try:
        target.start(directory)
        yield target
    finally:
        target.stop()


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_queries_find_what_python_finds(started, shape):
    rows = list(zip(keys(2_000), persons(2_000, shape)))
    client = started.connector(RELAXED)()
    client.create("people")
    client.insert_many("people", rows[:1_999])
    client.insert_one("people", rows[1_999])
    assert client.find_by_id("people", rows[7][0]) == rows[7][1]
    assert client.find_by_id("people", b"absent------") is None
    for query in (*DESCRIBED, *PUBLISHED):
        expected = sum(query.matches(person) for _, person in rows)
        assert client.count("people", query) == expected, query
        assert sum(1 for _ in client.find("people", query)) == expected, query
    assert client.maintain("people")
    assert client.table_bytes("people") > 2_000 * 50
    client.create("people")
    assert client.count("people", DESCRIBED[0]) == 0
    client.close()


def test_concurrent_clients_insert_all(started):
    contestant = Contestant(started, SYNCED)
    contestant.client.create(SHARED)
    contestant.client.create("persons_scratch")
    rows = list(zip(keys(200), persons(200, "flat")))
    sample = concurrent(contestant, 4, rows, _insert_share)
    assert sample.operations == 200 and sample.wall_seconds > 0
    assert all(contestant.client.find_by_id(SHARED, key) for key, _ in rows)
    # The rows are there already: every client's failure must reach the caller.
    with pytest.raises(RuntimeError, match="4 of 4 clients failed"):
        concurrent(contestant, 4, rows, _insert_share)
    contestant.client.close()


@pytest.mark.parametrize("name", ["null-mongo", "null-http", "null-postgres"])
def test_null_servers_answer_the_real_drivers(name, tmp_path):
    target = TARGETS[name].configured(SimpleNamespace())
    target.start(tmp_path)
    try:
        contestant = Contestant(target, SYNCED)
        rows = list(zip(keys(300), persons(300, "flat")))

        def work():
            for row in rows:
                contestant.client.insert_one("people", row)
            contestant.client.insert_many("people", rows)
            return sum(contestant.client.find_by_id("people", key)["age"] == 40 for key, _ in rows)

        sample = stretch(contestant, 600, work)
        assert sample.rows == 300
        assert sample.server_cpu_seconds > 0 and sample.client_cpu_seconds > 0
        assert process.listener("127.0.0.1", target.port) == target.pid
        contestant.client.close()
    finally:
        target.stop()


def test_filters_as_the_thesis_sent_them():
    salary = {"salary": {"$gt": 18500, "$lt": 35000}, "age": {"$gt": 25}}
    assert to_filter(PUBLISHED[3]) == {**salary, "pet": "Penguin"}
    assert to_filter(DESCRIBED[3]) == {**salary, "pet": {"$exists": True, "$eq": "Penguin"}}
    either = [{"jedi_power": "Force Choke"}, {"jedi_power": "Force Insanity"}]
    assert to_filter(PUBLISHED[4]) == {**salary, "jedi_power": {"$exists": True}, "$or": either}


def test_map_functions_of_temporary_views():
    salary = 'doc["salary"] > 18500 && doc["salary"] < 35000'
    assert to_map(DESCRIBED[0]) == f"function (doc) {{ if ({salary}) emit(doc._id, doc); }}"
    pet = '[].concat(doc["pet"]).some(function (one) { return ["Penguin"].indexOf(one) >= 0; })'
    assert to_map(DESCRIBED[3], "null") == (
        f'function (doc) {{ if ({salary} && doc["age"] > 25 && doc["pet"] && {pet}) emit(doc._id, null); }}'
    )


def test_absent_systems_say_so(tmp_path):
    options = SimpleNamespace(diwan_program=tmp_path / "diwan", diwan_uri=None, mongodb_uri=None, couchdb_url=None)
    for name in ("diwan", "diwan-http", "mongodb", "couchdb"):
        target = TARGETS[name].configured(options)
        with pytest.raises(NotGiven):
            target.start(tmp_path)
        target.stop()
