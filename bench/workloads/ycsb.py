"""YCSB: its core workloads A to F over one table, in the order that it recommends: load, A, B, C, F, D, load again, E.

Scale 1 is a million records of a kilobyte and a million operations per workload; YCSB's own files contain a thousand of each (scale
0.001) as a start. Each client process does its share of the operations, one request after another, with its own connection, like
YCSB's threads. Random choices are made before the clock starts where possible. They follow YCSB, except that the number of
inserts is the same for all clients, so that the numbers of records have no gaps.

Every answer is checked: records by their marks, scans by their length, writes by their replies. After each slice updated
fields are read again and the records are counted. Latencies are those of single operations; a read-modify-write is one operation.
"""

import heapq
import multiprocessing
import random
import time
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

from bench.data import TEXT, Table
from bench.exhibits import Bars
from bench.latency import ClientResults, Role, Station, run_clients
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, sizes
from bench.targets.base import RELAXED, Client, Unsupported
from bench.workloads import ycsb_data
from bench.workloads.checks import await_count
from bench.workloads.ycsb_data import FIELDS, INSERT, MODIFY, MOST_SCANNED, READ, SCAN, UPDATE, UPDATED, Mix, Values, Zipfian

TABLE = Table("usertable", tuple((name, TEXT) for name in FIELDS), key=str)
RECORDS = OPERATIONS = 1_000_000
MANY = 100_000  # a workload with at least this many operations is divided into one slice per round, and the targets take turns
AGAIN = 20  # the number of updated fields that a client returns to be read again
LOAD, RELOAD = "load", "load again"
BEFORE_RELOAD = (ycsb_data.A, ycsb_data.B, ycsb_data.C, ycsb_data.F, ycsb_data.D)
LATE_SECONDS = 5.0  # the time for which an acknowledged write may stay invisible, in systems that acknowledge before they write


@dataclass(frozen=True)
class Load:
    """The records that a load inserts, by number, and whether answers can be wrong."""

    start: int
    end: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """A slice of one workload, as all its client processes get it."""

    mix: Mix
    records: int  # the number of records at its start
    operations: int  # of each client
    clients: int
    seed: int
    ranks: Zipfian | None  # the popularity of records by age, if the latest are the popular ones
    last_keys: tuple[str, ...]  # the greatest existing keys, ascending; a scan that starts there may return fewer rows
    inserted: object  # the number of acknowledged inserts of each client, in shared memory
    checking: bool


def _load(station: Station) -> None:
    load: Load = station.argument
    values = Values(load.seed + station.number)
    insert = station.client.insert_one
    for number in range(load.start + station.number, load.end, station.role.processes):
        station.timed(INSERT, insert, TABLE, values.record(number))


class Session:
    """One client's share of a slice. Its kinds, keys and lengths are drawn in advance."""

    def __init__(self, station: Station) -> None:
        self.plan: Plan = station.argument
        self._station = station
        self._client: Client = station.client
        self._draw = random.Random(self.plan.seed * 1009 + station.number)
        self._values = Values(self._draw.getrandbits(32))
        self._inserts = self.plan.mix.share(INSERT) > 0
        self._kinds = self.plan.mix.kinds(self.plan.operations, self._draw)
        # With inserts the number of keys grows, but the popularity of keys stays the same: future keys are drawn too.
        self._span = self.plan.records
        self._span += int(2 * self.plan.clients * self.plan.operations * self.plan.mix.share(INSERT))
        self._chosen = [self._choose() for _ in self._kinds]
        self._names = None if self.plan.mix.latest else [ycsb_data.key_name(number) for number in self._chosen]
        self._own = self.plan.records + station.number
        self._updated: list[tuple[str, int]] = []

    def _choose(self) -> int:
        if self.plan.ranks:
            return self.plan.ranks.rank(self._draw.random())
        return ycsb_data.popular(self._draw, self._span)

    def _present(self) -> int:
        # Clients insert interleaved numbers: all numbers exist up to the client with the fewest acknowledgements.
        return self.plan.records + self.plan.clients * min(self.plan.inserted) if self._inserts else self.plan.records

    def _key(self, turn: int) -> str:
        if self._names is None:
            return ycsb_data.key_name(self._present() - 1 - self._chosen[turn])
        number, present = self._chosen[turn], self._present()
        if number < present:
            return self._names[turn]
        while number >= present:
            number = self._choose()
        return ycsb_data.key_name(number)

    def run(self) -> list[tuple[str, int]]:
        """Runs all operations; returns some updated fields."""
        done = {READ: self._read, UPDATE: self._update, INSERT: self._insert, SCAN: self._scan, MODIFY: self._modify}
        for turn, kind in enumerate(self._kinds):
            done[kind](turn)
        return self._updated[-AGAIN:]

    def _check(self, key: str, document: dict | None) -> None:
        fault = ycsb_data.wrong(key, document) if self.plan.checking else None
        if fault:
            raise AssertionError(fault)

    def _read(self, turn: int) -> None:
        key = self._key(turn)
        self._check(key, self._station.timed(READ, self._find, key))

    def _find(self, key: str) -> dict | None:
        end = time.monotonic() + (LATE_SECONDS if self._inserts else 0.0)
        # The wait for a new record is part of the time of its read.
        while (found := self._client.find_by_id(TABLE, key)) is None and time.monotonic() < end:
            time.sleep(0.001)
        return found

    def _new_value(self, key: str) -> tuple[int, str]:
        field = int(self._draw.random() * len(FIELDS))
        self._updated.append((key, field))
        return field, self._values.value(key, field, UPDATED)

    def _update(self, turn: int) -> None:
        key = self._key(turn)
        field, value = self._new_value(key)
        self._station.timed(UPDATE, self._client.update_field, TABLE, key, FIELDS[field], value)

    def _modify(self, turn: int) -> None:
        key = self._key(turn)
        field, value = self._new_value(key)
        self._check(key, self._station.timed(MODIFY, self._read_and_write, key, FIELDS[field], value))

    def _read_and_write(self, key: str, field: str, value: str) -> dict | None:
        found = self._client.find_by_id(TABLE, key)
        self._client.update_field(TABLE, key, field, value)
        return found

    def _insert(self, _turn: int) -> None:
        self._station.timed(INSERT, self._client.insert_one, TABLE, self._values.record(self._own))
        self._own += self.plan.clients
        self.plan.inserted[self._station.number] += 1

    def _scan(self, turn: int) -> None:
        start, wanted = self._key(turn), 1 + int(self._draw.random() * MOST_SCANNED)
        rows = self._station.timed(SCAN, self._client.read_range, TABLE, start, wanted)
        least = min(wanted, len(self.plan.last_keys) - bisect_left(self.plan.last_keys, start))
        if self.plan.checking and not least <= rows <= wanted:
            raise AssertionError(f"a scan of {wanted} rows from {start} returned {rows} rows")


def _prepare(station: Station) -> None:
    station.argument = Session(station)


def _work(station: Station) -> list[tuple[str, int]]:
    return station.argument.run()


class Workloads:
    """The stages for one number of records. After each stage the tables of all targets have the same contents."""

    def __init__(self, records: int, operations: int, clients: int, rounds: int) -> None:
        self.about = {"workload": "ycsb", "shape": "core workloads", "size": records}
        self._records = records
        self._clients = clients
        self._slices = rounds if operations >= MANY else 1
        self._operations = -(-operations // (clients * self._slices))  # per client and slice, rounded up
        self._ranks = Zipfian(records)
        self._last_keys = tuple(sorted(heapq.nlargest(MOST_SCANNED, map(ycsb_data.key_name, range(records)))))

    def stages(self) -> list[Stage]:
        """YCSB's recommended order. D's inserts make the table grow, so the table is loaded anew for E."""
        return [
            *self._loading(LOAD),
            Stage("size", 1, self._size, record="size"),
            *map(self._workload, BEFORE_RELOAD),
            *self._loading(RELOAD),
            self._workload(ycsb_data.E),
        ]

    def _loading(self, name: str) -> list[Stage]:
        prepare = Stage(f"prepare, {name}", 1, lambda contestant, _: contestant.client.create(TABLE) or {}, record="prepared", null=True)
        return [prepare, Stage(name, self._slices, partial(self._load, name), null=True)]

    def _load(self, name: str, contestant: Contestant, number: int) -> list[dict]:
        start, end = (self._records * piece // self._slices for piece in (number, number + 1))
        outcome = run_clients(contestant, [Role("loader", _load, self._clients, Load(start, end, seed=start + 1))])
        self._count(contestant, end)
        return self._records_of(outcome, name)

    def _workload(self, mix: Mix) -> Stage:
        return Stage(mix.name, self._slices, partial(self._run, mix), null=True)

    def _run(self, mix: Mix, contestant: Contestant, number: int) -> list[dict]:
        inserts = self._clients * round(self._operations * mix.share(INSERT))
        context = multiprocessing.get_context("forkserver")
        plan = Plan(
            mix,
            records=self._records + number * inserts,
            operations=self._operations,
            clients=self._clients,
            seed=1000 * ord(mix.name[0]) + number,
            ranks=self._ranks if mix.latest else None,
            last_keys=self._last_keys,
            inserted=context.RawArray("q", self._clients),
            checking=contestant.target.kind != "null",
        )
        outcome = run_clients(contestant, [Role("client", _work, self._clients, plan, _prepare)])
        if plan.checking:
            self._read_again(contestant.client, [field for updated in outcome.returned["client"] for field in updated])
        self._count(contestant, plan.records + inserts)
        return self._records_of(outcome, mix.name)

    @staticmethod
    def _records_of(outcome: ClientResults, name: str) -> list[dict]:
        kinds = ({"record": "latency", "operation": f"{name}: {kind}", **outcome.latencies(kind).fields()} for kind in outcome.timelines)
        return [checked(outcome.sample(), None), *kinds]

    @staticmethod
    def _read_again(client: Client, updated: list[tuple[str, int]]) -> None:
        for key, field in updated:
            found = client.find_by_id(TABLE, key)
            fault = ycsb_data.wrong(key, found)
            if fault or found[FIELDS[field]][4] != UPDATED:
                raise AssertionError(fault or f"{FIELDS[field]} of {key} has its value from before the update")

    @staticmethod
    def _count(contestant: Contestant, expected: int) -> None:
        if contestant.target.kind == "null":
            return
        try:
            await_count(contestant.client, TABLE, expected)
        except Unsupported:
            pass  # a key-value store may not support counts

    @staticmethod
    def _size(contestant: Contestant, _round: int) -> dict:
        return sizes(contestant, TABLE)


def _latency_chart(percentile: str, measure: str) -> Bars:
    kinds = tuple(f"{mix.name}: {kind}" for mix in (*BEFORE_RELOAD, ycsb_data.E) for kind, _ in mix.shares)
    return Bars(f"YCSB: {percentile} of each kind of operation", operations=kinds, measure=measure)


class Ycsb(Experiment):
    """The experiment, configured by the command line."""

    name = "ycsb"
    title = "YCSB core workloads"
    about = """
The core workloads of the Yahoo! Cloud Serving Benchmark, after their published definitions. Records have ten fields of a hundred letters; keys are
`user` and a hash. Workloads: A (half reads, half updates), B (95 % reads, 5 % updates), C (reads), D (95 % reads of the latest records, 5 %
inserts), E (95 % scans of 1 to 100 records, 5 % inserts), F (half reads, half read-modify-writes). An update writes one field. The popularity of keys
is zipfian with constant 0.99, and popular keys are scattered. Scale 1 means a million records and a million operations per workload. The order is
load, A, B, C, F, D, load again, E. Writes are acknowledged before they are on disk, which is the default of YCSB's drivers.
"""
    notes = """
- YCSB is a Java program with threads as clients. Here clients are Python processes with each system's usual Python driver, so a request
  costs the client more. The report shows the client's cost with a server that does nothing.
- The clients run on the same machine as the servers and compete for its cores.
- YCSB scans whole records. A system without key order does not support E.
- A system without updates in place reads and writes the whole record for an update, and repeats this after a conflict with another client.
"""
    charts = (
        Bars("YCSB: wall time of an operation", operations=(LOAD, *(mix.name for mix in (*BEFORE_RELOAD, ycsb_data.E)))),
        Bars(
            "YCSB: the server's CPU time of an operation",
            operations=(LOAD, *(mix.name for mix in (*BEFORE_RELOAD, ycsb_data.E))),
            measure="server_cpu_seconds",
        ),
        _latency_chart("99th percentile", "p99_us"),
        _latency_chart("99.9th percentile", "p999_us"),
    )

    def _make(self, records: int, operations: int) -> tuple[dict, list[Stage]]:
        workloads = Workloads(records, operations, self.clients, self.rounds)
        return workloads.about, workloads.stages()

    def data_sets(self) -> list[DataSet]:
        records, operations = self.singly(RECORDS), self.singly(OPERATIONS)
        return [DataSet(f"{records:,} records", RELAXED, partial(self._make, records, operations))]
