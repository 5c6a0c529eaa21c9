"""Experiment W, washers: single documents in a loop, one request with all documents, requests with 1,000 documents in a loop."""

from collections.abc import Iterator
from functools import partial

from bench.data import INTEGER, TEXT, Row, Table
from bench.exhibits import RATE, SIZE, Bars, BySize, Published
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, sizes, stretch
from bench.targets.base import SYNCED
from bench.workloads.persons_data import keys

TABLE = Table("washers", (("name", INTEGER), ("color", TEXT), ("type", TEXT), ("tstamp", INTEGER)))
BATCH = 1000

# The shapes of data sets, and their published numbers of documents.
EACH, ONE, LOOP = "one document a request", "one request", f"{BATCH:,} documents a request"
SIZES = {EACH: (1_000, 10_000, 100_000), ONE: (1_000, 10_000, 100_000), LOOP: (200_000,)}


def washers(count: int) -> Iterator[dict]:
    """Documents as in the post's example."""
    for number in range(count):
        yield {"name": 12345 + number, "color": "white", "type": "washer", "tstamp": 12345 + number}


class Manner:
    """The stages for one shape and size."""

    def __init__(self, manner: str, size: int) -> None:
        self.about = {"workload": "washers", "shape": manner, "size": size}
        self._rows: list[Row] = list(zip(keys(size), washers(size)))
        self._batch = {EACH: 0, ONE: size, LOOP: BATCH}[manner]

    def stages(self) -> list[Stage]:
        """The stages: an empty table, the inserts, their size on disk."""
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
    """The experiment, configured by the command line. Every write is synced, as in CouchDB."""

    name = "washers"
    title = "W. Washers"
    about = """
A blog post on CouchDB's first release (2007, version 0.7.2): documents of a washing machine,
`{"name": 12345, "color": "white", "type": "washer", "tstamp": 12345}`, inserted with one document per request, with
all in one request, and with a thousand per request in a loop. Every write waits for the disk.
"""
    notes = """
- 100,000 documents in one request crashed the server of 2007, out of memory. Here every system accepts them or is shown as unsupported.
- With one document per request the disk's fsync dominates, then as now.
- A document of the post takes 67 bytes by its author's count. Here its id takes 12 of these bytes instead of 36.
- Sizes are published only for single documents (1.3 GB for 100,000) and for requests of a thousand (38 MB for 200,000).
"""
    published = (
        Published(
            source="one POST a document",
            unit=RATE,
            figures={"CouchDB 0.7.2": {1_000: 111, 10_000: 106, 100_000: 93}},
            operation=f"insert, {EACH}",
            reference="CouchDB 0.7.2",
            today={"CouchDB 0.7.2": "couchdb"},
        ),
        Published(
            source="one _bulk_docs of all documents",
            unit=RATE,
            figures={"CouchDB 0.7.2": {1_000: 1667, 10_000: 667}},
            operation=f"insert, {ONE}",
            reference="CouchDB 0.7.2",
            today={"CouchDB 0.7.2": "couchdb"},
            remark="100,000 crashed the server.",
        ),
        Published(
            source="_bulk_docs of 1,000 in a loop",
            unit="s",
            figures={"CouchDB 0.7.2": {200_000: 96}},
            operation=f"insert, {LOOP}",
            reference="CouchDB 0.7.2",
            today={"CouchDB 0.7.2": "couchdb"},
        ),
        *(
            Published(
                source=f"size on disk, {shape}",
                unit="MB",
                figures={"CouchDB 0.7.2": figures},
                operation=SIZE,
                shape=shape,
                reference="CouchDB 0.7.2",
                today={"CouchDB 0.7.2": "couchdb"},
            )
            for shape, figures in ((EACH, {100_000: 1300}), (LOOP, {200_000: 38}))
        ),
    )
    charts = (
        *(BySize(manner, f"insert, {manner}", shape=manner) for manner in (EACH, ONE)),
        Bars(LOOP, operations=(f"insert, {LOOP}",), shape=LOOP),
        BySize("size on disk, one document a request", SIZE, shape=EACH),
    )

    @staticmethod
    def _make(manner: str, size: int) -> tuple[dict, list[Stage]]:
        inserts = Manner(manner, size)
        return inserts.about, inserts.stages()

    def data_sets(self) -> list[DataSet]:
        scaled = [(manner, size) for manner, sizes in SIZES.items() for size in self.scaled_sizes(sizes)]
        return [DataSet(f"{manner} · {size:,}", SYNCED, partial(self._make, manner, size)) for manner, size in scaled]
