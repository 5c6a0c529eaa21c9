"""Experiment W, washers: single documents in a loop, one request of all documents, requests of 1,000 in a loop.

Published of CouchDB 0.7 in 2007: 93–111 documents a second and 1.3 GB for 100,000; 667–1,667 a second until 100,000 in one
request ended the server; 200,000 in 96 s and 38 MB by thousands.
"""

from collections.abc import Iterator
from functools import partial

from bench.data import INTEGER, TEXT, Row, Table
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, sizes, stretch
from bench.targets.base import SYNCED
from bench.workloads.persons_data import keys

TABLE = Table("washers", (("name", INTEGER), ("color", TEXT), ("type", TEXT), ("tstamp", INTEGER)))
BATCH = 1000

# Each experiment's manner, and the numbers of documents it was published for.
EACH, ONE, LOOP = "one document a request", "one request", f"{BATCH:,} documents a request"
PUBLISHED = {EACH: (1_000, 10_000, 100_000), ONE: (1_000, 10_000, 100_000), LOOP: (200_000,)}


def washers(count: int) -> Iterator[dict]:
    """Documents as the post shows one."""
    for number in range(count):
        yield {"name": 12345 + number, "color": "white", "type": "washer", "tstamp": 12345 + number}


class Manner:
    """The stages of one experiment at one size."""

    def __init__(self, manner: str, size: int) -> None:
        self.about = {"workload": "washers", "shape": manner, "size": size}
        self._rows: list[Row] = list(zip(keys(size), washers(size)))
        self._batch = {EACH: 0, ONE: size, LOOP: BATCH}[manner]

    def stages(self) -> list[Stage]:
        """An empty table, the inserts, what they take on disk."""
        return [
            Stage("prepare", 1, lambda contestant, _: contestant.client.create(TABLE) or {}, record="prepared", null=True),
            Stage(f"insert, {self.about['shape']}", 1, self._insert, null=True),
            Stage("size", 1, self._size, record="size"),
        ]

    def _insert(self, contestant: Contestant, _round: int) -> dict:
        insert = partial(self._in_batches, contestant) if self._batch else partial(self._one_by_one, contestant)
        return checked(stretch(contestant, len(self._rows), insert), None)

    def _one_by_one(self, contestant: Contestant) -> None:
        insert = contestant.client.insert_one
        for row in self._rows:
            insert(TABLE, row)

    def _in_batches(self, contestant: Contestant) -> None:
        for start in range(0, len(self._rows), self._batch):
            contestant.client.insert_many(TABLE, self._rows[start : start + self._batch])

    def _size(self, contestant: Contestant, _round: int) -> dict:
        return sizes(contestant, TABLE)


class Washers(Experiment):
    """The whole experiment, as the command line wants it. Every write is synced, as CouchDB's are."""

    name = "washers"

    @staticmethod
    def _make(manner: str, size: int) -> tuple[dict, list[Stage]]:
        inserts = Manner(manner, size)
        return inserts.about, inserts.stages()

    def data_sets(self) -> list[DataSet]:
        scaled = [
            (manner, max(1, round(size * self.options.scale))) for manner, sizes in PUBLISHED.items() for size in sizes
        ]
        return [DataSet(f"{manner} · {size:,}", SYNCED, partial(self._make, manner, size)) for manner, size in scaled]
