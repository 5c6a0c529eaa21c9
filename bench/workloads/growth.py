"""Experiment G, growth: what an operation costs as a collection grows from a hundred thousand documents to twenty million.

A document has an ascending id, an indexed number that is pseudo-random over its whole range, an unindexed number with few distinct
values, and text that fills the document up to its size. Each size is a data set of its own, loaded with a thousand documents per
command. Documents are generated from their numbers, so only the slice that is being loaded is in memory.
"""

import random
from functools import partial

from bench import process
from bench.data import INTEGER, TEXT, Query, Row, Table
from bench.exhibits import SIZE, BySize
from bench.latency import Latencies
from bench.measure import Contestant, DataSet, Experiment, Sample, Stage, checked, settle, sizes, stretch
from bench.options import list_of, sizes_of
from bench.targets.base import RELAXED
from bench.workloads.checks import await_count

SIZES = (100_000, 1_000_000, 5_000_000, 20_000_000)
SHAPES = {"120 bytes": 120, "1 KB": 1_024}
MOST_BYTES = 6_000_000_000  # of a data set's documents, unless `--growth-sizes` is given: several systems store them at once
TABLE = Table("growth", (("spread", INTEGER), ("few", INTEGER), ("text", TEXT)))
WARMING = Table("growth_warming", TABLE.fields)
INDEXED = "spread"
BATCH, SLICE = 1_000, 50_000
FINDS = 10_000
VALUES = 1_000  # how many distinct values the unindexed number has
BELOW = VALUES // 100
COUNTED = Query("one in a hundred", (("below", "few", BELOW),))

LOAD = f"load, {BATCH:,} a command"
FIND, FIND_INDEXED = "find by _id", "find by the index"
COUNT = "count, a document read"
MEMORY = "resident memory at rest"

BARE = 58  # bytes of a document as BSON beside its text
POOL_BYTES = 1 << 20


def _pool() -> str:
    """The text that the documents' texts are cut from: words of a made-up language, which compress about as well as prose."""
    drawn = random.Random(2012)
    words = ["".join(drawn.choices("aeioulnrstdmkp", k=drawn.randint(2, 10))) for _ in range(4_000)]
    text = []
    while sum(map(len, text)) < POOL_BYTES:
        text.append(" ".join(drawn.choices(words, k=10_000)) + " ")
    return "".join(text)


_TEXT = _pool()


def spread(number: int) -> int:
    """A unique number of 63 bits, pseudo-random: multiplying by an odd factor permutes the numbers."""
    return number * 0x5851_F42D_4C95_7F2D % (1 << 63)


def few(number: int) -> int:
    """One of `VALUES` numbers."""
    return number * 617 % VALUES


def document(number: int, size: int) -> Row:
    """The document of a number, `size` bytes long as BSON."""
    length, spread_out = size - BARE, spread(number)
    place = (spread_out >> 32) % (POOL_BYTES - length)
    fields = {"spread": spread_out, "few": few(number), "text": _TEXT[place : place + length]}
    return number.to_bytes(12, "big"), fields


def counted(size: int) -> int:
    """How many of the first `size` documents the count finds: `VALUES` consecutive documents have all different values."""
    whole, rest = divmod(size, VALUES)
    return whole * BELOW + sum(few(number) < BELOW for number in range(rest))


class Grown:
    """The stages for one size of collection and one size of document."""

    def __init__(self, shape: str, size: int, finds: int, rounds: int) -> None:
        self.about = {"workload": Growth.name, "shape": shape, "size": size}
        self._bytes = SHAPES[shape]
        self._size = size
        self._rounds = rounds
        drawn = random.Random(size)
        self._found = {
            stage: [[drawn.randrange(size) for _ in range(finds)] for _ in range(rounds)] for stage in (FIND, FIND_INDEXED)
        }

    def stages(self) -> list[Stage]:
        """The stages: an empty table with its index, the load, its size on disk, and reads."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared", null=True),
            Stage(LOAD, 1, self._load, null=True, founding=True),
            Stage("size", 1, self._sizes, record="size"),
            Stage(FIND, self._rounds, partial(self._find, FIND), null=True),
            Stage(FIND_INDEXED, self._rounds, partial(self._find, FIND_INDEXED)),
            Stage(COUNT, self._rounds, self._count),
            Stage(MEMORY, 1, self._memory, record="figure"),
        ]

    def _prepare(self, contestant: Contestant, _round: int) -> dict:
        client = contestant.client
        client.create(WARMING)
        client.insert_many(WARMING, [document(number, self._bytes) for number in range(50)])
        client.drop(WARMING)
        client.create(TABLE)
        if contestant.target.kind != "null":
            client.create_index(TABLE, INDEXED)
        return {}

    def _load(self, contestant: Contestant, _round: int) -> dict:
        """The server's CPU time counts until the server is idle, so that the compaction after the load is part of it."""
        server, wall, client = contestant.server_cpu(), 0.0, 0.0
        for start in range(0, self._size, SLICE):
            rows = [document(number, self._bytes) for number in range(start, min(start + SLICE, self._size))]

            def work() -> None:
                for first in range(0, len(rows), BATCH):
                    contestant.client.insert_many(TABLE, rows[first : first + BATCH])

            part = stretch(contestant, len(rows), work)
            wall, client = wall + part.wall_seconds, client + part.client_cpu_seconds
        if contestant.target.kind != "null":
            await_count(contestant.client, TABLE, self._size)
            settle(contestant, limit=600.0)
        used = None if server is None else contestant.server_cpu() - server
        return checked(Sample(self._size, wall, client, used), None)

    def _sizes(self, contestant: Contestant, _round: int) -> dict:
        return sizes(contestant, TABLE)

    def _find(self, stage: str, contestant: Contestant, number: int) -> dict:
        wanted = [document(one, self._bytes) for one in self._found[stage][number]]
        latencies, found = Latencies(), []
        client = contestant.client
        if stage == FIND:
            arguments = [key for key, _ in wanted]
            find = lambda key: client.find_by_id(TABLE, key)  # noqa: E731
        else:
            arguments = [Query("one", (("equals", INDEXED, fields[INDEXED]),)) for _, fields in wanted]
            find = lambda query: next(iter(client.find(TABLE, query)))  # noqa: E731

        def work() -> int:
            for argument in arguments:
                found.append(latencies.timed(find, argument))
            return sum(one is not None for one in found)

        fields = checked(stretch(contestant, len(wanted), work), len(wanted)) | latencies.fields()
        decoded = stage == FIND and contestant.target.kind != "null"
        if decoded and any(one["text"] != row["text"] for one, (_, row) in zip(found, wanted)):
            raise AssertionError("a find returned a document with a wrong text")
        return fields

    def _count(self, contestant: Contestant, _round: int) -> dict:
        work = partial(contestant.client.count, TABLE, COUNTED)
        return checked(stretch(contestant, self._size, work), counted(self._size))

    @staticmethod
    def _memory(contestant: Contestant, _round: int) -> dict:
        settle(contestant)
        return {"value": process.resident_memory(*contestant.target.pids) / 1e6 if contestant.target.pids else None, "unit": "MB"}


class Growth(Experiment):
    """The whole experiment. Writes do not wait for the disk."""

    name = "growth"
    title = "G. Growth, from a hundred thousand documents to twenty million"
    about = f"""
Documents of 120 bytes and of 1 KB, `{{"_id": 12 ascending bytes, "spread": a random number with an index, "few": one of {VALUES:,}
numbers, "text": words}}`, are loaded into collections of {SIZES[0]:,} to {SIZES[-1]:,} documents, with a thousand documents
per command. Then random documents are found one by one, by their `_id` and by the index, and the documents with one of {BELOW} values
of `few` are counted, which reads every document. The figures show the cost of each operation, and how it grows with the collection.
"""
    notes = """
- The server's CPU time of a load counts until the server is idle again: the compaction that follows a load is part of its cost.
- `--growth-sizes` and `--growth-shapes` choose data sets. Without them the largest set of 1 KB documents is left out: it takes
  20 GB and more for each system.
"""
    charts = (
        BySize("loading", operation=LOAD),
        BySize("finds by id", operation=FIND),
        BySize("finds by the index", operation=FIND_INDEXED),
        BySize("a count that reads", operation=COUNT),
        BySize("bytes on disk", operation=SIZE),
    )

    @classmethod
    def add_arguments(cls, parser) -> None:
        sizes_help = f"numbers of documents, separated by commas; at scale 1: {','.join(map(str, SIZES))}"
        parser.add_argument("--growth-sizes", type=sizes_of, help=sizes_help, metavar="SIZES")
        parser.add_argument("--growth-shapes", type=list_of(SHAPES), default=list(SHAPES), help=f"separated by commas: {', '.join(SHAPES)}")

    def _make(self, shape: str, size: int) -> tuple[dict, list[Stage]]:
        grown = Grown(shape, size, self.one_by_one(FINDS), self.rounds)
        return grown.about, grown.stages()

    def data_sets(self) -> list[DataSet]:
        asked = self.options.growth_sizes
        sizes = sorted(asked or self.scaled_sizes(SIZES, 100))
        return [
            DataSet(f"{shape} · {size:,}", RELAXED, partial(self._make, shape, size))
            for shape in self.options.growth_shapes
            for size in sizes
            if asked or size * SHAPES[shape] <= MOST_BYTES
        ]
