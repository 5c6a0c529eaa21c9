"""Experiment S, short reads: millions of small documents, loaded over the network, then read one by one by their ids.

A document has a read of a sequencing machine, 36 letters, as its id, and the frequency of the read. A hash computes each read from its
number, so reads need not be stored: a slice of them exists only while it is loaded.
"""

import random
from functools import partial
from hashlib import blake2b

from bench.data import INTEGER, Query, Row, Table
from bench.exhibits import SIZE, Bars, Published
from bench.latency import Latencies
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, repeated, sizes, stretch
from bench.targets.base import RELAXED, Unsupported
from bench.workloads.checks import await_count

READS, RETRIEVED = 2_800_000, 500_000
TABLE = Table("reads", (("count", INTEGER),), key=str)
WARMING = Table("reads_warming", TABLE.fields, key=str)
BATCH = 1000
SLICES, LEAST_SLICE = 20, 10_000
THRESHOLD = 100
FREQUENT = Query("frequent", (("above", "count", THRESHOLD),))

BATCHES, EACH = "1,000 a command", "one a command"
LOAD_BATCHES, LOAD_EACH = f"load, {BATCHES}", f"load, {EACH}"
RETRIEVE = "retrieve by id"
SEARCH, SEARCH_INDEXED = f"reads with a frequency above {THRESHOLD}", f"reads with a frequency above {THRESHOLD}, with an index"
INDEX = "build an index on the frequency"

# A byte contains four letters of two bits.
LETTERS = ["".join("ACGT"[byte >> shift & 3] for shift in (6, 4, 2, 0)) for byte in range(256)]


def read(number: int) -> Row:
    """The read with a number, and its frequency. One in k reads has a frequency of k or more."""
    drawn = blake2b(number.to_bytes(8, "big"), digest_size=13).digest()
    letters = "".join([LETTERS[byte] for byte in drawn[:9]])
    return letters, {"count": (1 << 32) // (int.from_bytes(drawn[9:], "big") + 1)}


def _slices(size: int) -> list[range]:
    pieces = max(1, min(SLICES, size // LEAST_SLICE))
    bounds = [size * piece // pieces for piece in range(pieces + 1)]
    return [range(start, end) for start, end in zip(bounds, bounds[1:])]


class _Loaded:
    """The common part of both ways of loading."""

    manner: str

    def __init__(self, size: int) -> None:
        self.about = {"workload": ShortReads.name, "shape": self.manner, "size": size}
        self._size = size
        self._slices = _slices(size)

    def _prepare(self, contestant: Contestant, _round: int) -> dict:
        for table in (TABLE, WARMING):
            contestant.client.create(table)
        rows = [read(-number % (1 << 64)) for number in range(1, 101)]
        contestant.client.insert_many(WARMING, rows[:50])
        for row in rows[50:]:
            contestant.client.insert_one(WARMING, row)
        contestant.client.drop(WARMING)
        return {}

    def _sizes(self, contestant: Contestant, _round: int) -> dict:
        await_count(contestant.client, TABLE, self._size)
        return sizes(contestant, TABLE)


class OneByOne(_Loaded):
    """Loads with one command per read."""

    manner = EACH

    def stages(self) -> list[Stage]:
        """The stages: an empty table, the load, its size on disk."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared", null=True),
            Stage(LOAD_EACH, len(self._slices), self._load, null=True),
            Stage("size", 1, self._sizes, record="size"),
        ]

    def _load(self, contestant: Contestant, number: int) -> dict:
        rows = [read(one) for one in self._slices[number]]
        latencies = Latencies()

        def work() -> None:
            insert = contestant.client.insert_one
            for row in rows:
                latencies.timed(insert, TABLE, row)

        return checked(stretch(contestant, len(rows), work), None) | latencies.fields()


class InBatches(_Loaded):
    """Loads a thousand reads per command, then runs all queries."""

    manner = BATCHES

    def __init__(self, size: int, retrieved: int, rounds: int) -> None:
        super().__init__(size)
        self._rounds = rounds
        chosen = random.Random(0).sample(range(size), min(size, retrieved))
        self._retrieved = [chosen[number::rounds] for number in range(min(rounds, len(chosen)))]
        frequencies = (read(number)[1]["count"] for number in range(size))
        self._frequent = sum(frequency > THRESHOLD for frequency in frequencies)
        self._without_index: set[str] = set()

    def stages(self) -> list[Stage]:
        """The stages: an empty table, the load, its size, retrieval by id, and searches without and with an index."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared", null=True),
            Stage(LOAD_BATCHES, len(self._slices), self._load, null=True),
            Stage("size", 1, self._sizes, record="size"),
            Stage(RETRIEVE, len(self._retrieved), self._retrieve, null=True),
            Stage(SEARCH, self._rounds, self._search),
            Stage(INDEX, 1, self._index),
            Stage(SEARCH_INDEXED, self._rounds, self._search_indexed),
        ]

    def _load(self, contestant: Contestant, number: int) -> dict:
        rows = [read(one) for one in self._slices[number]]

        def work() -> None:
            for start in range(0, len(rows), BATCH):
                contestant.client.insert_many(TABLE, rows[start : start + BATCH])

        return checked(stretch(contestant, len(rows), work), None)

    def _retrieve(self, contestant: Contestant, number: int) -> dict:
        rows = [read(one) for one in self._retrieved[number]]
        latencies, found = Latencies(), []

        def work() -> int:
            find = contestant.client.find_by_id
            for key, _ in rows:
                found.append(latencies.timed(find, TABLE, key))
            return sum(document is not None for document in found)

        fields = checked(stretch(contestant, len(rows), work), len(rows)) | latencies.fields()
        if contestant.target.kind != "null" and found != [document for _, document in rows]:
            raise AssertionError("a read came back with another frequency")
        return fields

    def _search(self, contestant: Contestant, number: int) -> dict:
        def work() -> int:
            return sum(1 for _ in contestant.client.find(TABLE, FREQUENT))

        if number == 0:
            work()
        return checked(repeated(contestant, work), self._frequent)

    def _index(self, contestant: Contestant, _round: int) -> dict:
        try:
            return checked(stretch(contestant, 1, lambda: contestant.client.create_index(TABLE, "count")), None)
        except Unsupported:
            self._without_index.add(contestant.target.name)
            raise

    def _search_indexed(self, contestant: Contestant, number: int) -> dict:
        if contestant.target.name in self._without_index:
            raise Unsupported("has no such index")
        return self._search(contestant, number)


TYRANT, COUCHDB, MONGODB = "Tokyo Cabinet/Tyrant", "CouchDB 0.9", "MongoDB (2009)"
TODAY = {TYRANT: "tyrant", COUCHDB: "couchdb", MONGODB: "mongodb"}


class ShortReads(Experiment):
    """The experiment, configured by the command line. Writes are relaxed, as in the published one."""

    name = "short-reads"
    title = "S. Short reads"
    about = """
A blog post that evaluated databases for short read data (2009): one client loads 2.8 million reads of a sequencing machine,
`{"_id": 36 letters of A, C, G and T, "count": its frequency}`, over the network. It then retrieves half a million of them one by one by
id, in random order. The last part is a query that the author's key-value store could not answer: the reads with a frequency above a threshold,
here 100, which one in a hundred reads has, without and with an index.
"""
    notes = """
- Published times include a network between two machines; here client and server share one machine.
- CouchDB was loaded in batches, on the advice of its users. Tokyo Tyrant and MongoDB were loaded with one read per command, as far as the post says.
- Tokyo Tyrant's 24 MB are for a compressed B+ tree. `tokyo-tree` is the same database with nearly the same settings inside the client,
  without a network.
- MongoDB's files were pre-allocated: 192 to 960 MB for the same data.
- Reads here are random. Real reads of a genome repeat each other slightly and compress slightly better.
"""
    whole = (SEARCH, INDEX)
    published = (
        Published(
            source="load time, one a command",
            unit="min",
            figures={TYRANT: {READS: 12}, MONGODB: {READS: 3}},
            operation=LOAD_EACH,
            reference=MONGODB,
            today=TODAY,
            shape=EACH,
        ),
        Published(
            source="load time, in batches",
            unit="min",
            figures={COUCHDB: {READS: 5.5}},
            operation=LOAD_BATCHES,
            reference=COUCHDB,
            today=TODAY,
            shape=BATCHES,
            remark="With one read per request it took 22 hours.",
        ),
        Published(
            source="retrieval time",
            unit="min",
            figures={TYRANT: {RETRIEVED: 3.5}, COUCHDB: {RETRIEVED: 14.5}, MONGODB: {RETRIEVED: 4}},
            operation=RETRIEVE,
            reference=MONGODB,
            today=TODAY,
            shape=BATCHES,
        ),
        Published(
            source="file size",
            unit="MB",
            figures={TYRANT: {READS: 24}, COUCHDB: {READS: 236}, MONGODB: {READS: 192}},
            operation=SIZE,
            reference=MONGODB,
            today=TODAY,
            shape=BATCHES,
            remark="MongoDB: 192 to 960 MB.",
        ),
    )
    charts = (
        Bars("loading", operations=(LOAD_EACH,), shape=EACH),
        Bars("loading in batches, and retrieving", operations=(LOAD_BATCHES, RETRIEVE), shape=BATCHES),
        Bars("retrieving: the slowest in a hundred", operations=(RETRIEVE,), shape=BATCHES, measure="p99_us"),
        Bars("searching by frequency", operations=(SEARCH, SEARCH_INDEXED), shape=BATCHES),
    )

    def _in_batches(self, size: int) -> tuple[dict, list[Stage]]:
        loaded = InBatches(size, self.singly(RETRIEVED), self.rounds)
        return loaded.about, loaded.stages()

    @staticmethod
    def _one_by_one(size: int) -> tuple[dict, list[Stage]]:
        loaded = OneByOne(size)
        return loaded.about, loaded.stages()

    def data_sets(self) -> list[DataSet]:
        made = ((EACH, self.singly(READS), self._one_by_one), (BATCHES, self.scaled(READS), self._in_batches))
        return [DataSet(f"{manner} · {size:,}", RELAXED, partial(make, size)) for manner, size, make in made]
