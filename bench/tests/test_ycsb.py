"""YCSB: distributions and mixes against their definitions, checks of answers, and a complete run at the smallest scale."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest

from bench.tests.experiments import failures, measured, ran
from bench.workloads import ycsb, ycsb_data
from bench.workloads.ycsb_data import FIELDS, INSERT, MODIFY, READ, SCAN, UPDATE, ZIPFIAN_CONSTANT, Values, Zipfian

MIXES = (*ycsb.BEFORE_RELOAD, ycsb_data.E)


def test_keys_equal_ycsb_keys():
    assert [ycsb_data.key_name(number) for number in range(3)] == [
        "user6284781860667377211",
        "user8517097267634966620",
        "user1820151046732198393",
    ]


@pytest.mark.parametrize("items", [3, 1_000])
def test_ranks_are_zipfian(items):
    draw, draws = random.Random(1), 200_000
    zipfian = Zipfian(items)
    seen = Counter(zipfian.rank(draw.random()) for _ in range(draws))
    assert min(seen) == 0 and max(seen) < items
    total = sum(1 / rank**ZIPFIAN_CONSTANT for rank in range(1, items + 1))
    for first in (1, 2, 10, 100, 1_000):
        share = sum(1 / rank**ZIPFIAN_CONSTANT for rank in range(1, min(first, items) + 1)) / total
        # Gray's method is exact for the first two ranks and close for the others.
        assert sum(seen[rank] for rank in range(first)) / draws == pytest.approx(share, rel=0.01 if first <= 2 else 0.06), first


def test_popular_keys_are_scattered_and_keep_their_share():
    draw, draws, keys = random.Random(2), 200_000, 10_000
    seen = Counter(ycsb_data.popular(draw, keys) for _ in range(draws))
    ranked = [number for number, _ in seen.most_common(3)]
    assert ranked == [ycsb_data.scatter(rank) % keys for rank in range(3)]
    expected = [1 / (rank**ZIPFIAN_CONSTANT * ycsb_data.RANKS_ZETA) for rank in (1, 2)]
    assert [seen[number] / draws for number in ranked[:2]] == pytest.approx(expected, rel=0.05)
    assert len(seen) > keys * 0.9 and set(seen) <= set(range(keys))


def test_mixes_have_the_published_proportions():
    published = {
        "A": {READ: 0.5, UPDATE: 0.5},
        "B": {READ: 0.95, UPDATE: 0.05},
        "C": {READ: 1.0},
        "D": {READ: 0.95, INSERT: 0.05},
        "E": {SCAN: 0.95, INSERT: 0.05},
        "F": {READ: 0.5, MODIFY: 0.5},
    }
    assert {mix.name[0] for mix in MIXES} == set(published) and [mix.name for mix in MIXES if mix.latest] == ["D, read latest"]
    for mix in MIXES:
        kinds = Counter(mix.kinds(1_000, random.Random(3)))
        assert {kind: count / 1_000 for kind, count in kinds.items()} == published[mix.name[0]]


def test_records_are_a_kilobyte_and_foreign_ones_are_detected():
    key, record = Values(4).record(7)
    assert key == ycsb_data.key_name(7) and list(record) == list(FIELDS)
    assert {len(value) for value in record.values()} == {100} and len(set("".join(record.values()))) == 64
    assert ycsb_data.wrong(key, record) is None
    assert "no record" in ycsb_data.wrong(key, None)
    assert ycsb_data.wrong(ycsb_data.key_name(8), record) and ycsb_data.wrong(key, {**record, "field3": record["field3"][:-1]})
    assert ycsb_data.wrong(key, {name: value for name, value in record.items() if name != "field9"})


class Memory:
    """A client whose table is a dictionary. It can give wrong answers for one operation."""

    def __init__(self, rows: list, lie: str | None = None) -> None:
        self.rows = dict(rows)
        self.lie = lie
        self.scans: list[int] = []
        self.read: list[str] = []

    def find_by_id(self, _table, key: str) -> dict | None:
        self.read.append(key)
        if self.lie == "absent":
            return None
        return self.rows[min(self.rows) if self.lie == "another" else key]

    def update_field(self, _table, key: str, field: str, value: str) -> None:
        self.rows[key] = {**self.rows[key], field: value}

    def insert_one(self, _table, row) -> None:
        assert row[0] not in self.rows
        self.rows[row[0]] = row[1]

    def read_range(self, _table, start: str, limit: int) -> int:
        assert start in self.rows
        self.scans.append(limit)
        found = sum(key >= start for key in self.rows)
        return min(limit, found) - (1 if self.lie == "short" else 0)


def session(mix: ycsb_data.Mix, lie: str | None = None, operations: int = 400) -> tuple[ycsb.Session, Memory]:
    loaded = 500
    values = Values(5)
    rows = [values.record(number) for number in range(loaded)]
    memory = Memory(rows, lie)
    ranks = Zipfian(loaded) if mix.latest else None
    greatest = tuple(sorted(key for key, _ in rows)[-ycsb_data.MOST_SCANNED :])
    plan = ycsb.Plan(mix, loaded, operations, 1, 6, ranks, greatest, [0], checking=True)
    station = SimpleNamespace(argument=plan, client=memory, number=0, timed=lambda _name, operation, *arguments: operation(*arguments))
    return ycsb.Session(station), memory


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.name[0])
def test_a_client_runs_its_mix_of_operations(mix):
    client, memory = session(mix)
    updated = client.run()
    assert len(memory.rows) == 500 + round(400 * mix.share(INSERT))
    assert len(memory.scans) == round(400 * mix.share(SCAN)) and all(1 <= length <= 100 for length in memory.scans)
    assert bool(updated) == (mix.share(UPDATE) + mix.share(MODIFY) > 0)
    assert all(memory.rows[key][FIELDS[field]][4] == ycsb_data.UPDATED for key, field in updated)
    for key, record in memory.rows.items():
        assert ycsb_data.wrong(key, record) is None
    if mix.latest:
        newest = {ycsb_data.key_name(number) for number in range(495, 520)}
        assert sum(key in newest for key in memory.read) / len(memory.read) > 0.3


@pytest.mark.parametrize(("mix", "lie"), [(mix, "another") for mix in MIXES if mix.share(READ)] + [(ycsb_data.E, "short")])
def test_wrong_answers_are_detected(mix, lie):
    client, _ = session(mix, lie)
    with pytest.raises(AssertionError):
        client.run()


def test_a_missing_record_is_detected(monkeypatch):
    monkeypatch.setattr(ycsb, "LATE_SECONDS", 0.05)
    for mix in (ycsb_data.C, ycsb_data.D):
        client, _ = session(mix, "absent")
        with pytest.raises(AssertionError, match="no record"):
            client.run()


def test_a_ycsb_run_records_every_operation(tmp_path):
    records = ran(ycsb.Ycsb, ("sqlite", "diwan", "diwan-http", "null-mongo", "null-http"), tmp_path, scale=0.0002)
    assert failures(records) == []
    for target in measured(records):
        samples = [one for one in records if one["record"] == "sample" and one["target"] == target]
        assert [one["operation"] for one in samples] == [ycsb.LOAD, *(mix.name for mix in ycsb.BEFORE_RELOAD), ycsb.RELOAD, MIXES[-1].name]
        assert all(one["operations"] == 200 for one in samples)
        outcome = {one["operation"]: one["count"] for one in records if one["record"] == "latency" and one["target"] == target}
        assert outcome["A, update heavy: read"] == outcome["F, read-modify-write: read-modify-write"] == 100
        assert outcome["E, short ranges: insert"] == outcome["D, read latest: insert"] == 10
