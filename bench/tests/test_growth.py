"""Growth: the documents, the choice of data sets, and a run at the smallest scale."""

import bson
import pytest

from bench.command import parsers
from bench.targets.sqlite import SQLiteAdapter
from bench.tests.experiments import failures, measured, ran
from bench.workloads.growth import COUNT, COUNTED, FIND, FIND_INDEXED, LOAD, MEMORY, SHAPES, Growth, counted, document

CHOSEN = {"growth_sizes": [2_000], "growth_shapes": list(SHAPES)}


@pytest.mark.parametrize("size", SHAPES.values())
def test_documents_have_their_size_and_are_the_same_in_every_run(size):
    for number in (0, 1, 999, 20_000_000):
        key, fields = document(number, size)
        assert (key, fields) == document(number, size)
        # Numbers below 2^31 take four bytes less.
        assert len(bson.encode({"_id": bson.ObjectId(key), **fields})) == size - (4 if fields["spread"] < 1 << 31 else 0)


def test_ids_rise_and_indexed_numbers_are_unique_and_spread():
    rows = [document(number, 120) for number in range(20_000)]
    keys, numbers = [key for key, _ in rows], [fields["spread"] for _, fields in rows]
    assert keys == sorted(keys) and len(set(numbers)) == len(numbers)
    assert all(4_500 < sum(number >> 61 == quarter for number in numbers) < 5_500 for quarter in range(4))


@pytest.mark.parametrize("size", [1, 999, 1_000, 12_345])
def test_the_expected_count_is_that_of_the_documents(size):
    assert counted(size) == sum(COUNTED.matches(document(number, 120)[1]) for number in range(size))


def data_sets(*arguments: str) -> list[str]:
    settings = parsers()[0].parse_args(["run", "growth", *arguments])
    return [data.name for data in Growth(settings, [], None, None).data_sets()]


def test_sizes_and_shapes_are_chosen_and_very_large_sets_only_by_name():
    assert data_sets("--growth-sizes", "3000,100", "--growth-shapes", "1 KB") == ["1 KB · 100", "1 KB · 3,000"]
    assert data_sets()[3] == "120 bytes · 20,000,000" and data_sets()[-1] == "1 KB · 5,000,000"
    assert data_sets("--growth-sizes", "20000000")[-1] == "1 KB · 20,000,000"
    assert data_sets("--scale", "0.0001") == ["120 bytes · 2,000", "1 KB · 2,000"]


def test_every_row_is_measured(tmp_path):
    records = ran(Growth, ("diwan", "sqlite", "null-mongo"), tmp_path, 0.0001, **CHOSEN)
    assert not failures(records) and "sqlite" in measured(records)
    for target in set(measured(records)) - {"null-mongo"}:
        samples = {(one["shape"], one["operation"]) for one in records if one["record"] == "sample" and one["target"] == target}
        assert samples == {(shape, operation) for shape in SHAPES for operation in (LOAD, FIND, FIND_INDEXED, COUNT)}
    memory = [one for one in records if one["record"] == "figure" and one["target"] == "diwan"]
    assert all(one["operation"] == MEMORY and one["value"] > 1 for one in memory)


def test_a_text_that_comes_back_changed_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(SQLiteAdapter, "find_by_id", lambda *_: {"text": ""})
    records = ran(Growth, ("sqlite",), tmp_path, 0.0001, **CHOSEN)
    assert {one["operation"] for one in records if one["record"] == "failure"} == {FIND}
