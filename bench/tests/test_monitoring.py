"""The monitoring and records experiments at the smallest scale: their records, and the detection of errors."""

import argparse
from datetime import datetime

import pytest
from rich.progress import Progress

from bench import results
from bench.data import ALL, COMPARISONS, plain
from bench.targets.sqlite import SQLite, SQLiteAdapter
from bench.workloads import monitoring_kills as kills
from bench.workloads.checks import await_count
from bench.workloads.monitoring import Monitoring
from bench.workloads.monitoring_data import VALUES, lengthened, range_query, snapshot_row, value_row, value_rows
from bench.workloads.records import Records, field1


def records_of(experiment: type, tmp_path, only: str = "") -> list[dict]:
    recorder = results.Recorder(tmp_path)
    made = experiment(argparse.Namespace(scale=0.001, rounds=1, clients=2), [SQLite()], recorder, tmp_path / "tmp")
    chosen = [data for data in made.data_sets() if only in data.name]
    made.data_sets = lambda: chosen
    with Progress(disable=True) as progress:
        made.run(progress, {})
    recorder.close()
    return results.read(tmp_path)


def operations(records: list[dict], kind: str) -> set[str]:
    return {record["operation"] for record in records if record["record"] == kind}


def test_row_ids_are_unique_and_ordered_by_time():
    rows = list(value_rows(2_000, servers=7))
    ids = [key for key, _ in rows]
    assert ids == sorted(set(ids)) and all(len(key) == 12 for key in ids)
    assert rows[29] == value_row(0, 1, 1) and rows[29][1]["tA"] == datetime(2009, 7, 25, 0, 1)
    assert len(snapshot_row(3, 5)[1]["ps"]) == 40 and snapshot_row(3, 5) == snapshot_row(3, 5) != snapshot_row(3, 6)


def test_long_names_cost_the_published_hundred_bytes():
    short, long = rows = value_row(1, 1, 1), lengthened(value_row(1, 1, 1))
    names = [sum(map(len, document)) for _, document in rows]
    assert list(short[1].values()) == list(long[1].values())
    assert names[0] < 20 and 90 < names[1] < 110


def test_the_range_query_finds_the_rows_of_one_check():
    rows = [document for _, document in value_rows(4 * 3 * 100, servers=3)]
    found = [document for document in rows if range_query(2, 1, 10, 19, 5).matches(document)]
    assert len(found) == 10 and {document["tAG"] for document in found} == {"load"}
    assert COMPARISONS["at most"](plain(found[-1]["tA"]), "2009-07-25T00:19:00.000Z")


def test_reports_names_and_databases_record_every_operation(tmp_path):
    records = records_of(Monitoring, tmp_path, "s")
    assert not [record for record in records if record["record"] == "failure"]
    samples = {record["operation"]: record for record in records if record["record"] == "sample"}
    assert samples["report, 4 agents"]["operations"] == 240 and samples["range read"]["rows"] > 1_000
    assert operations(records, "latency") >= {"report: values", "report: snapshot", "range read beside reports", "first read of a database"}
    figures = {(record["shape"], record["operation"]): record["value"] for record in records if record["record"] == "figure"}
    named = [figures[f"{length} field names", "bytes on disk a document"] for length in ("short", "long")]
    assert named[0] + 50 < named[1] < named[0] + 120
    assert figures["a database a customer", "bytes on disk a database, beyond its documents"] > 0


def test_locks_are_measured_in_three_phases_on_two_tables(tmp_path):
    records = records_of(Monitoring, tmp_path, "locks")
    phases = ("quiet", "while an index is built", "while half is deleted")
    assert {f"longest request, {phase}" for phase in phases} <= operations(records, "figure")
    assert {f"read, {place} table, {phase}" for place in ("same", "other") for phase in phases} <= operations(records, "latency")
    assert not operations(records, "failure")


def test_an_unsupported_operation_is_a_record(tmp_path):
    records = records_of(Monitoring, tmp_path, "kills · relaxed")
    assert operations(records, "unsupported") == {"kill"} and not operations(records, "failure")


def test_lost_and_damaged_documents_are_counted(tmp_path):
    target = SQLite()
    target.start(tmp_path)
    client = target.connector("relaxed")()
    client.create(kills.TABLE)
    for number in range(10):
        key, document = kills.row(0, 1, number)
        if number != 3:
            client.insert_one(kills.TABLE, (key, document | ({"text": "mixed"} if number == 7 else {})))
    station = argparse.Namespace(client=client, number=0, argument=[[0, 10]], role=argparse.Namespace(processes=1))
    assert kills.look(station) == (1, 1)
    client.close()


def test_check_count_waits_and_refuses_extra_documents():
    outcome = iter((1, 2, 3, 4))
    client = argparse.Namespace(count=lambda table, query: next(outcome) if (table, query) == (VALUES, ALL) else None)
    await_count(client, VALUES, 3)
    with pytest.raises(AssertionError, match="contains 4 documents, expected 3"):
        await_count(client, VALUES, 3)


def test_records_are_inserted_from_both_ends_and_selected(tmp_path):
    assert len({field1(number) for number in range(-1_000, 10_000)}) == 11_000
    records = records_of(Records, tmp_path)
    assert not operations(records, "failure")
    samples = {record["operation"]: record for record in records if record["record"] == "sample"}
    assert samples["insert, 2 programs"]["operations"] == 1_000 and samples["select, 2 programs"]["operations"] == 200
    assert samples["insert beside selects"]["operations"] > 0 and samples["select beside inserts"]["client_cpu_seconds"] is None
    assert operations(records, "timeline") == set(samples)
    assert {record["resting_bytes"] > 100_000 for record in records if record["record"] == "size"} == {True}


def test_a_lost_insert_fails_the_records_experiment(monkeypatch, tmp_path):
    counted = SQLiteAdapter.count
    monkeypatch.setattr(SQLiteAdapter, "count", lambda self, table, query: counted(self, table, query) + 1)
    records = records_of(Records, tmp_path)
    assert operations(records, "failure") == {"insert, 2 programs"}
