"""Null servers, generated requests, and systems that are not given."""

import pytest

from bench import process
from bench.data import Table
from bench.measure import Contestant, stretch
from bench.targets import TARGETS, NotGiven
from bench.targets.base import SYNCED
from bench.targets.couch_client import to_map
from bench.targets.mongo_client import to_filter
from bench.tests.systems import options
from bench.workloads.persons import FIELDS
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

PEOPLE = Table("people", FIELDS)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.kind == "null"])
def test_null_servers_answer_the_real_drivers(name, tmp_path):
    target = TARGETS[name].configured(options())
    target.start(tmp_path)
    try:
        contestant = Contestant(target, SYNCED)
        rows = list(zip(keys(300), persons(300, "flat")))

        def work():
            for row in rows:
                contestant.client.insert_one(PEOPLE, row)
            contestant.client.insert_many(PEOPLE, rows)
            return sum(bool(contestant.client.find_by_id(PEOPLE, key)) for key, _ in rows)

        sample = stretch(contestant, 600, work)
        assert sample.rows == 300
        assert sample.server_cpu_seconds > 0 and sample.client_cpu_seconds > 0
        assert process.listener("127.0.0.1", target.port) == target.pid
        contestant.client.close()
    finally:
        target.stop()


def test_mongodb_filters_match_the_thesis():
    salary = {"salary": {"$gt": 18500, "$lt": 35000}, "age": {"$gt": 25}}
    assert to_filter(PUBLISHED[3]) == {**salary, "pet": "Penguin"}
    assert to_filter(DESCRIBED[3]) == {**salary, "pet": {"$exists": True, "$eq": "Penguin"}}
    either = [{"jedi_power": "Force Choke"}, {"jedi_power": "Force Insanity"}]
    assert to_filter(PUBLISHED[4]) == {**salary, "jedi_power": {"$exists": True}, "$or": either}


def test_queries_become_map_functions():
    salary = 'doc["salary"] > 18500 && doc["salary"] < 35000'
    assert to_map(DESCRIBED[0]) == f"function (doc) {{ if ({salary}) emit(doc._id, doc); }}"
    pet = '[].concat(doc["pet"]).some(function (one) { return ["Penguin"].indexOf(one) >= 0; })'
    assert to_map(DESCRIBED[3], "null") == (
        f'function (doc) {{ if ({salary} && doc["age"] > 25 && doc["pet"] !== undefined && {pet}) emit(doc._id, null); }}'
    )


def test_absent_systems_raise_not_given(tmp_path):
    nothing = options(diwan_program=tmp_path / "diwan")
    for name in ("diwan", "diwan-http", "mongodb", "couchdb"):
        target = TARGETS[name].configured(nothing)
        with pytest.raises(NotGiven):
            target.start(tmp_path)
        target.stop()
