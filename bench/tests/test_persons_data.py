"""The persons data against checksums and counts computed with a real Python 2.7."""

import hashlib
import json

import pytest

from bench.workloads.persons_data import DESCRIBED, PUBLISHED, Query, keys, persons

KNOWN = [
    ("flat", 5_000, "1178d38575b57cbb", (2707, 2408, 601, 100, 228)),
    ("flat", 50_000, "d3c3766e2b1d4605", (26584, 23739, 6007, 959, 2354)),
    ("nested", 5_000, "6575ad192401fca9", (2604, 2327, 589, 232, 421)),
    ("nested", 50_000, "b8c5b0ffd892be00", (26468, 23591, 5880, 2315, 4284)),
]


@pytest.mark.parametrize(("shape", "size", "checksum", "counts"), KNOWN)
def test_persons_match_published_checksums_and_counts(shape, size, checksum, counts):
    digest = hashlib.sha256()
    described, published = [0] * 5, [0] * 5
    for person in persons(size, shape):
        digest.update(json.dumps(person, separators=(",", ":")).encode() + b"\n")
        for number in range(5):
            described[number] += DESCRIBED[number].matches(person)
            published[number] += PUBLISHED[number].matches(person)
    assert digest.hexdigest()[:16] == checksum
    assert tuple(described) == counts
    assert tuple(published) == (*counts[:4], 0)


def test_query_bounds_are_exclusive():
    salary = Query("salary", DESCRIBED[0].conditions)
    assert [salary.matches({"salary": value}) for value in (18500, 18501, 34999, 35000)] == [False, True, True, False]
    assert not salary.matches({})


def test_keys_are_distinct_ascending_and_twelve_bytes():
    made = keys(20_000)
    assert made == sorted(set(made)) and {len(key) for key in made} == {12}
