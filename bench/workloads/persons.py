"""Experiment P, persons: inserts, size on disk, point reads, an unindexed count, and the five queries, as described and as published.

One data set is a shape and a size, loaded into every target anew. The load itself, one document a call from one client, is cut
into slices that the targets take in turn, so that it is measured several times without being done several times. Reads do not
depend on durability; synced runs only insert, and fewer documents, since each waits for the disk.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

from bench.data import INTEGER, NESTED, TEXT, Row, Table
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, concurrent, repeated, sizes, stretch
from bench.targets import Client
from bench.targets.base import RELAXED, SYNCED
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

FIELDS = (
    *(("name", TEXT), ("salary", INTEGER), ("age", INTEGER), ("telephone", TEXT)),
    *(("pet", NESTED), ("fax", NESTED), ("jedi power", NESTED)),  # a text where persons are flat, a list where they are nested
)
TABLE, BATCHED, SHARED, SCRATCH = (
    Table(name, FIELDS) for name in ("persons", "persons_batched", "persons_shared", "persons_scratch")
)
BATCH = 1000
POINT_READS = 5_000


def _insert_each(client: Client, table: Table, rows: list[Row]) -> None:
    for row in rows:
        client.insert_one(table, row)


def _insert_share(client: Client, share: list[Row], warming: bool) -> None:
    # A first insert elsewhere opens the connection's session and prepares nothing that is measured.
    _insert_each(client, SCRATCH if warming else SHARED, share)


def _cut(rows: list, pieces: int) -> list[list]:
    bounds = [len(rows) * piece // pieces for piece in range(pieces + 1)]
    return [rows[start:end] for start, end in zip(bounds, bounds[1:])]


class Loads:
    """The stages over one shape and size of persons."""

    def __init__(self, shape: str, rows: list[Row], rounds: int, slices: int, clients: int) -> None:
        self.about = {"workload": "persons", "shape": shape, "size": len(rows)}
        self._rows = rows
        self._slices = _cut(rows, slices)
        self._clients = clients
        self._rounds = rounds

    def stages(self, reads: bool) -> list[Stage]:
        """Everything, or the inserts alone."""
        slices = len(self._slices)
        return [
            Stage("prepare", 1, self._prepare, record="prepared", null=True),
            Stage("insert, 1 client", slices, self._insert, null=True),
            *(self._reading() if reads else []),
            Stage(f"insert, {self._clients} clients", slices, self._insert_concurrently, null=True),
            Stage(f"insert, {BATCH} a command", slices, self._insert_batches, null=True),
        ]

    def _reading(self) -> Iterator[Stage]:
        yield Stage("size", 1, self._size, record="size")
        yield Stage("find by _id", self._rounds, self._find, null=True)
        yield Stage("count Q1", self._rounds, partial(self._count, DESCRIBED[0], self._expected(DESCRIBED[0])))
        for manner, queries, counting in (("as described", DESCRIBED, False), ("as published", PUBLISHED, True)):
            for query in queries:
                run = partial(self._iterate, query, self._expected(query), counting)
                yield Stage(f"{query.name} {manner}", self._rounds, run)

    def _expected(self, query) -> int:
        return sum(query.matches(person) for _, person in self._rows)

    def _prepare(self, contestant: Contestant, _round: int) -> dict:
        for table in (TABLE, BATCHED, SHARED, SCRATCH):
            contestant.client.create(table)
        _insert_each(contestant.client, SCRATCH, [(b"warm" + key[4:], person) for key, person in self._rows[:100]])
        return {}

    def _insert(self, contestant: Contestant, number: int) -> dict:
        rows = self._slices[number]
        return checked(stretch(contestant, len(rows), lambda: _insert_each(contestant.client, TABLE, rows)), None)

    def _insert_concurrently(self, contestant: Contestant, number: int) -> dict:
        return checked(concurrent(contestant, self._clients, self._slices[number], _insert_share), None)

    def _insert_batches(self, contestant: Contestant, number: int) -> dict:
        rows = self._slices[number]

        def work() -> None:
            for start in range(0, len(rows), BATCH):
                contestant.client.insert_many(BATCHED, rows[start : start + BATCH])

        return checked(stretch(contestant, len(rows), work), None)

    def _size(self, contestant: Contestant, _round: int) -> dict:
        return sizes(contestant, TABLE)

    def _find(self, contestant: Contestant, number: int) -> dict:
        chosen = random.Random(number).choices(self._rows, k=min(POINT_READS, len(self._rows)))

        def work() -> int:
            find = contestant.client.find_by_id
            return sum(find(TABLE, key) is not None for key, _ in chosen)

        return checked(stretch(contestant, len(chosen), work), len(chosen))

    def _count(self, query, expected: int, contestant: Contestant, number: int) -> dict:
        work = partial(contestant.client.count, TABLE, query)
        return self._warmed(work, expected, contestant, number)

    def _iterate(self, query, expected: int, counting: bool, contestant: Contestant, number: int) -> dict:
        client = contestant.client

        def work() -> int:
            # The published program prints the cursor's count, a command of its own, before it iterates.
            if counting:
                client.count(TABLE, query)
            found = 0
            for _ in client.find(TABLE, query):
                found += 1
            return found

        return self._warmed(work, expected, contestant, number)

    @staticmethod
    def _warmed(work: Callable[[], int], expected: int, contestant: Contestant, number: int) -> dict:
        if number == 0:
            work()
        return checked(repeated(contestant, work), expected)


class Persons(Experiment):
    """The whole experiment, as the command line wants it."""

    name = "persons"

    def _plan(self) -> Iterator[tuple[str, int, str]]:
        sizes = sorted(self.options.sizes)
        for shape in self.options.shapes:
            if RELAXED in self.options.durability:
                for size in sizes:
                    yield shape, size, RELAXED
            if SYNCED in self.options.durability:
                yield shape, min(sizes[-1], self.options.synced_inserts), SYNCED

    def _make(self, shape: str, size: int, durability: str) -> tuple[dict, list[Stage]]:
        rows = list(zip(keys(size), persons(size, shape)))
        loads = Loads(shape, rows, self.options.rounds, self.options.slices, self.options.clients)
        return loads.about, loads.stages(reads=durability == RELAXED)

    def data_sets(self) -> list[DataSet]:
        return [
            DataSet(f"{shape} · {size:,} · {durability}", durability, partial(self._make, shape, size, durability))
            for shape, size, durability in self._plan()
        ]
