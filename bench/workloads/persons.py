"""Experiment P, persons: inserts, size on disk, point reads, an unindexed count, and the five queries, as described and as published.

A data set is a shape and a size, loaded anew into every target. The load itself, one document per call from one client, is divided
into slices that the targets run in turn. So the load gives several samples without being repeated. Reads do not
depend on durability; synced data sets only insert, and fewer documents, because each insert waits for the disk. An option limits the number of
single calls; the rest of the load then uses batches of a thousand and is not measured.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

from bench.data import INTEGER, NESTED, TEXT, Row, Table
from bench.exhibits import SIZE, Bars, BySize
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, concurrent, repeated, sizes, stretch
from bench.options import list_of, positive, sizes_of
from bench.targets import Client
from bench.targets.base import RELAXED, SYNCED
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, SHAPES, keys, persons

FIELDS = (
    *(("name", TEXT), ("salary", INTEGER), ("age", INTEGER), ("telephone", TEXT)),
    *(("pet", NESTED), ("fax", NESTED), ("jedi power", NESTED)),  # a text in flat persons, a list in nested ones
)
TABLE, BATCHED, SHARED, SCRATCH = (
    Table(name, FIELDS) for name in ("persons", "persons_batched", "persons_shared", "persons_scratch")
)
SIZES = (5_000, 50_000, 500_000)
SYNCED_INSERTS = 5_000
BATCH = 1000
POINT_READS, LEAST_READS = 5_000, 200
CHEAP = ("insert, 1 client", f"insert, {BATCH} a command", "find by _id")


def _insert_each(client: Client, table: Table, rows: list[Row]) -> None:
    for row in rows:
        client.insert_one(table, row)


def _insert_many(client: Client, table: Table, rows: list[Row]) -> None:
    for start in range(0, len(rows), BATCH):
        client.insert_many(table, rows[start : start + BATCH])


def _insert_share(client: Client, share: list[Row], warming: bool) -> None:
    # A first insert into another table opens the connection's session without preparing measured statements.
    _insert_each(client, SCRATCH if warming else SHARED, share)


def _cut(rows: list, pieces: int) -> list[list]:
    bounds = [len(rows) * piece // pieces for piece in range(pieces + 1)]
    return [rows[start:end] for start, end in zip(bounds, bounds[1:])]


class Loads:
    """The stages for one shape and size of persons."""

    def __init__(self, shape: str, rows: list[Row], singles: int, rounds: int, slices: int, clients: int) -> None:
        self.about = {"workload": "persons", "shape": shape, "size": len(rows)}
        self._rows = rows
        self._singles, self._rest = _cut(rows[:singles], slices), rows[singles:]
        self._batches = _cut(rows, slices)
        self._clients = clients
        self._rounds = rounds

    def stages(self, reads: bool) -> list[Stage]:
        """All stages, or only the inserts."""
        slices = len(self._singles)
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
        rows = self._singles[number]
        outcome = checked(stretch(contestant, len(rows), lambda: _insert_each(contestant.client, TABLE, rows)), None)
        if rows is self._singles[-1]:
            _insert_many(contestant.client, TABLE, self._rest)
        return outcome

    def _insert_concurrently(self, contestant: Contestant, number: int) -> dict:
        return checked(concurrent(contestant, self._clients, self._singles[number], _insert_share), None)

    def _insert_batches(self, contestant: Contestant, number: int) -> dict:
        rows = self._batches[number]
        return checked(stretch(contestant, len(rows), lambda: _insert_many(contestant.client, BATCHED, rows)), None)

    def _size(self, contestant: Contestant, _round: int) -> dict:
        return sizes(contestant, TABLE)

    def _find(self, contestant: Contestant, number: int) -> dict:
        reads = min(POINT_READS, max(LEAST_READS, len(self._rows) // 10))
        chosen = random.Random(number).choices(self._rows, k=reads)

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
            # The published program prints the cursor's count, which is a separate command, before it iterates.
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
    """The experiment, configured by the command line."""

    name = "persons"
    title = "P. Persons"
    whole = ("count", "Q")
    about = """
The thesis (2011, MongoDB 1.6.3 and CouchDB 1.0.1 on a laptop): random persons, bit for bit the published ones, inserted one per
call; the size on disk; five queries without a secondary index, with iteration over all results. Flat persons have single values, nested ones lists.
"""
    notes = """
- The thesis published graphs without figures: MongoDB is faster than CouchDB in every insert and query and smaller on disk, and
  everything grows linearly with the number of documents. Its charts 4–10 are redrawn here for today's systems; the table of growth
  shows which costs are linear.
- Every system gets the same documents and the same 12-byte ids, has no secondary index, and returns whole documents that the client
  decodes to dictionaries. "As published" sends a count before it iterates, and its Q5 asks for a key that no document has.
  Systems with columns answer it without reading rows.
- With several clients, server and clients compete for the same cores, so wall time covers both. Judge a server by its CPU time.
- A system that splits a count over parallel workers can use more CPU than wall time. Relational systems keep no change log and no
  revisions.
- Over HTTP the queries are temporary views in JavaScript, and a count is a view with `_count`. CouchDB has no temporary views since 2.0; its settings
  show which requests it gets instead. The published map functions expect a pet to be a list, but a flat person's pet is not; here they accept both.
"""
    charts = (
        BySize("Inserts, one a call", "insert, 1 client", durability=RELAXED, caption="the thesis' figure 4"),
        BySize("Size on disk", SIZE, durability=RELAXED, caption="figure 5"),
        *(
            BySize(f"Query {number} as published", f"Q{number} as published", durability=RELAXED, caption=f"figure {number + 5}")
            for number in range(1, 6)
        ),
        BySize("Unindexed count, Q1", "count Q1", durability=RELAXED),
        Bars("Server's own CPU time", operations=CHEAP, measure="server_cpu_seconds", durability=RELAXED),
    )

    @classmethod
    def add_arguments(cls, parser) -> None:
        parser.add_argument("--sizes", type=sizes_of, help="comma-separated numbers of documents, instead of the scaled ones")
        parser.add_argument("--shapes", type=list_of(SHAPES), default=list(SHAPES))
        parser.add_argument("--durability", type=list_of((RELAXED, SYNCED)), default=[RELAXED, SYNCED])
        parser.add_argument("--slices", type=positive, help="number of measured slices of a load (default 5, below a scale of 0.1: 1)")
        parser.add_argument("--single-inserts", type=positive, help="most single inserts, by 1 client and by many (default all, below a scale of 0.1: 1,000)")
        parser.add_argument("--synced-inserts", type=positive, help="most documents inserted in synced data sets")

    def _plan(self) -> Iterator[tuple[str, int, str]]:
        sizes = sorted(self.options.sizes or self.scaled_sizes(SIZES, 20))
        synced = self.options.synced_inserts or self.scaled(SYNCED_INSERTS, 50)
        for shape in self.options.shapes:
            if RELAXED in self.options.durability:
                for size in sizes:
                    yield shape, size, RELAXED
            if SYNCED in self.options.durability:
                yield shape, min(sizes[-1], synced), SYNCED

    def _make(self, shape: str, size: int, durability: str) -> tuple[dict, list[Stage]]:
        rows = list(zip(keys(size), persons(size, shape)))
        slices = self.options.slices or (1 if self.brief else 5)
        singles = self.options.single_inserts or self.one_by_one(size)
        loads = Loads(shape, rows, singles, self.rounds, slices, self.clients)
        return loads.about, loads.stages(reads=durability == RELAXED)

    def data_sets(self) -> list[DataSet]:
        return [
            DataSet(f"{shape} · {size:,} · {durability}", durability, partial(self._make, shape, size, durability))
            for shape, size, durability in self._plan()
        ]
