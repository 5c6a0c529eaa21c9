"""Diwan over PostgreSQL beside PostgreSQL itself, on the same server, and two Diwan processes beside one.

    python -m bench.over_postgres --program target/fast/diwan

PostgreSQL's own figures are those of psycopg's prepared statements on a table (id bytea, doc jsonb), each acknowledged after the
WAL's fsync, as Diwan's writes are. The compared systems take turns, and each ratio is of two neighbours in time. CPU is that of
PostgreSQL's processes and, for Diwan, of its own too. Prints Markdown: medians, with the lowest and the highest in brackets.
"""

import argparse
import os
import random
import signal
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from bench.data import INTEGER, TEXT, Query, Row, Table
from bench.measure import Contestant, Sample, concurrent, stretch
from bench.targets.base import SYNCED, Client
from bench.targets.diwan_postgres import DiwanPostgres, TwoOverPostgres
from bench.targets.mongo_client import MongoAdapter
from bench.targets.postgres import Cluster, Postgres

FIELDS = (("n", INTEGER), ("group", INTEGER), ("name", TEXT))
STORED = Table("stored", FIELDS)
PAIR = (Table("left", FIELDS), Table("right", FIELDS))
NOTHING = Query("nothing", (("equals", "name", "nobody"),))
BATCH = 1_000
FINDS = 2_000
INSERTS = 500
BATCHES = 10
CACHED_COUNTS = 10


def document(number: int) -> Row:
    """A small document: 71 bytes of BSON with its id."""
    return number.to_bytes(12), {"n": number, "group": number % 100, "name": f"person {number:08}"}


class Beside(Postgres):
    """PostgreSQL on a cluster that another target starts and stops."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._primary, self.pid = cluster, cluster.server.pid
        self.address = cluster.address


def shown(values: list[float], digits: int = 0) -> str:
    """The median, with the lowest and the highest."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}–{high})"


def micros(samples: list[Sample], what: str, digits: int = 0) -> str:
    """One of the times of an operation, in µs."""
    return shown([getattr(sample, what) / sample.operations * 1e6 for sample in samples], digits)


def ratios(ours: list[Sample], theirs: list[Sample], what: str, digits: int = 1) -> str:
    """Ours divided by theirs, for each round."""
    return shown([getattr(a, what) / a.operations / getattr(b, what) * b.operations for a, b in zip(ours, theirs)], digits)


def taking_turns(rounds: int, *works: Callable[[int], Sample]) -> list[list[Sample]]:
    """The samples of each work. The first of a round is the last of the next."""
    samples: list[list[Sample]] = [[] for _ in works]
    for number in range(rounds):
        order = list(enumerate(works))
        for place, work in order if number % 2 == 0 else reversed(order):
            samples[place].append(work(number))
    return samples


class OneClient:
    """What one client does with Diwan and with PostgreSQL."""

    def __init__(self, diwan: Contestant, postgres: Contestant, documents: int, rounds: int) -> None:
        self._both = (diwan, postgres)
        self._documents, self._rounds = documents, rounds
        self._next = {id(one): documents for one in self._both}
        # Drivers retry writes by default. The server records each such write, so that it can tell that it was executed.
        (process,) = diwan.target.processes
        self._unretried = {id(diwan): MongoAdapter(f"{process.uri}&retryWrites=false", SYNCED), id(postgres): postgres.client}

    def fill(self) -> None:
        """Loads both, and lets PostgreSQL do its work in the background now, for Diwan's tables too."""
        for one in self._both:
            one.client.create(STORED)
            for first in range(0, self._documents, BATCH):
                one.client.insert_many(STORED, [document(number) for number in range(first, min(first + BATCH, self._documents))])
        with psycopg.connect(self._both[1].target.address, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")

    def report(self) -> None:
        """Prints the table of all operations."""
        print("\n| operation, one client | Diwan, wall µs | PostgreSQL | ratio | Diwan, CPU µs | PostgreSQL | ratio | goal |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        self._row("find by `_id`, found in the cache", "≤ 2", self._finds)
        self._row("insert of one document", "≤ 3", lambda one, _: self._inserts(one, one.client))
        self._row("the same with `retryWrites=false`", "≤ 3", lambda one, _: self._inserts(one, self._unretried[id(one)]))
        self._row("insert, 1,000 documents a command, for each", "≤ 3", self._batches)

    def _row(self, name: str, goal: str, work: Callable[[Contestant, int], Sample]) -> None:
        for one in self._both:
            work(one, 0)  # statements become prepared, caches are filled
        ours, theirs = taking_turns(self._rounds, *(partial(work, one) for one in self._both))
        cells = []
        for what in ("wall_seconds", "server_cpu_seconds"):
            cells += [micros(ours, what), micros(theirs, what), ratios(ours, theirs, what)]
        print(f"| {name} |", " | ".join([*cells, goal]), "|", flush=True)

    def _finds(self, one: Contestant, _round: int) -> Sample:
        drawn = random.Random(1)
        return stretch(one, FINDS, partial(finds, one.client, [document(drawn.randrange(self._documents)) for _ in range(FINDS)]))

    def _rows(self, one: Contestant, count: int) -> list[Row]:
        first = self._next[id(one)]
        self._next[id(one)] += count
        return [document(number) for number in range(first, first + count)]

    def _inserts(self, one: Contestant, client: Client) -> Sample:
        rows = self._rows(one, INSERTS)

        def work() -> None:
            for row in rows:
                client.insert_one(STORED, row)

        return stretch(one, INSERTS, work)

    def _batches(self, one: Contestant, _round: int) -> Sample:
        batches = [self._rows(one, BATCH) for _ in range(BATCHES)]

        def work() -> None:
            for rows in batches:
                one.client.insert_many(STORED, rows)

        return stretch(one, BATCHES * BATCH, work)


def expect(holds: bool) -> None:
    """An answer of a measured system must be right, or its time means nothing."""
    if not holds:
        raise RuntimeError("a system gave a wrong answer")


def first_reads(target: DiwanPostgres, diwan: Contestant, postgres: Contestant, documents: int, rounds: int) -> None:
    """Prints what reads cost a process that has just started, and once more."""
    cold, cached, theirs, found = [], [], [], []
    for number in range(rounds):
        restart(target, diwan)
        drawn = random.Random(number)
        wanted = [document(drawn.randrange(documents)) for _ in range(FINDS)]
        found.append(stretch(diwan, FINDS, partial(finds, diwan.client, wanted)))
        restart(target, diwan)
        cold.append(stretch(diwan, documents, partial(counts, diwan.client, 1)))
        counts(diwan.client, 1)
        cached.append(stretch(diwan, documents * CACHED_COUNTS, partial(counts, diwan.client, CACHED_COUNTS)))
        theirs.append(stretch(postgres, documents, partial(counts, postgres.client, 1)))
    print("\n| read | wall µs | CPU µs | goal |\n| --- | --- | --- | --- |")
    for name, samples, goal in (
        ("find by `_id`, the first after a start", found, ""),
        (f"count of none of {documents:,}, for each document: Diwan, the first after a start", cold, "≤ 3"),
        ("the same: Diwan, from the third on", cached, "≤ 0.1"),
        ("the same: PostgreSQL, whose memory has the table", theirs, ""),
    ):
        print(f"| {name} |", micros(samples, "wall_seconds", 2), "|", micros(samples, "server_cpu_seconds", 2), f"| {goal} |", flush=True)


def restart(target: DiwanPostgres, diwan: Contestant) -> None:
    """Starts Diwan again, but not PostgreSQL."""
    diwan.client.close()
    for instance in target.processes:
        target.stop_process(instance)
        target.start_process(instance)
    diwan.reconnect()
    diwan.client.find_by_id(Table("absent", FIELDS), b"")


def finds(client: Client, rows: list[Row]) -> None:
    """Finds documents by their ids."""
    for key, row in rows:
        expect(client.find_by_id(STORED, key) == row)


def counts(client: Client, times: int) -> None:
    """Counts the documents that match a filter which none matches, without an index."""
    for _ in range(times):
        expect(client.count(STORED, NOTHING) == 0)


class Fleet:
    """Clients of some processes, of which each worker uses one."""

    def __init__(self, uris: list[str]) -> None:
        self._uris = uris
        self._clients: dict[str, MongoAdapter] = {}

    def client(self, worker: int) -> MongoAdapter:
        """The client of a worker."""
        uri = self._uris[worker % len(self._uris)]
        if uri not in self._clients:
            self._clients[uri] = MongoAdapter(uri, SYNCED)
        return self._clients[uri]

    def close(self) -> None:
        """Ends all connections."""
        for client in self._clients.values():
            client.close()


Share = list[tuple[int, int]]  # the number of the worker, and that of a document


def insert_share(tables: tuple[Table, ...], fleet: Fleet, share: Share, warming: bool) -> None:
    """Inserts documents one by one into the worker's table."""
    client, table = fleet.client(share[0][0]), tables[share[0][0] % len(tables)]
    if warming:
        client.find_by_id(table, b"")
        return
    for _, number in share:
        client.insert_one(table, document(number))


def find_share(tables: tuple[Table, ...], fleet: Fleet, share: Share, warming: bool) -> None:
    """Finds documents one by one in the worker's table."""
    client, table = fleet.client(share[0][0]), tables[share[0][0] % len(tables)]
    for _, number in share:
        expect(client.find_by_id(table, document(number)[0]) is not None or warming)


def count_share(tables: tuple[Table, ...], fleet: Fleet, share: Share, warming: bool) -> None:
    """Counts in the worker's table, by a scan."""
    client, table = fleet.client(share[0][0]), tables[share[0][0] % len(tables)]
    for _ in share:
        expect(client.count(table, NOTHING) == 0)


class TwoProcesses:
    """The same work by one process and by two. While one works, the other does not run."""

    def __init__(self, target: TwoOverPostgres, documents: int, rounds: int, operations: int) -> None:
        self._target, self._documents, self._rounds, self._operations = target, documents, rounds, operations
        self._contestant = Contestant(target, SYNCED)
        self._next = documents

    def fill(self) -> None:
        """Loads both collections."""
        for table in PAIR:
            self._contestant.client.create(table)
            for first in range(0, self._documents, BATCH):
                self._contestant.client.insert_many(table, [document(number) for number in range(first, first + BATCH)])

    def report(self) -> None:
        """Prints the table of all kinds of work."""
        print("\n| work | one process, operations/s | two | ratio | one, CPU µs | two | goal |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        self._row("finds by `_id`, 8 clients, two collections", 8, self._operations, partial(find_share, PAIR), "≥ 1.6")
        cores = sorted(os.sched_getaffinity(0))
        name = f"counts of none of {self._documents:,}, 2 clients, two collections, each process on a core of its own"
        self._row(name, 2, 60, partial(count_share, PAIR), "≥ 1.6", cores[:2])
        for clients in (8, 24):
            self._row(f"inserts into one collection, {clients} clients", clients, self._operations, partial(insert_share, PAIR[:1]), "≥ 1")
            self._row(f"inserts into two collections, {clients} clients", clients, self._operations, partial(insert_share, PAIR), "≥ 1")

    def _row(self, name: str, clients: int, operations: int, work: Callable, goal: str, cores: list[int] = []) -> None:
        one, two = taking_turns(self._rounds, *(partial(self._sample, count, clients, operations, work, cores) for count in (1, 2)))
        rates = [[sample.operations / sample.wall_seconds for sample in samples] for samples in (one, two)]
        cells = [shown(rates[0]), shown(rates[1]), ratios(one, two, "wall_seconds", 2)]
        cells += [micros(one, "server_cpu_seconds"), micros(two, "server_cpu_seconds"), goal]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)

    def _sample(self, count: int, clients: int, operations: int, work: Callable, cores: list[int], _round: int) -> Sample:
        first, second = self._target.processes
        self._target.stop_process(second)
        if count == 2:
            self._target.start_process(second)
        # CPU time is that of the processes that run now.
        for instance, core in zip((first, second)[:count], cores or [None] * count):
            pin(self._target.pid_of(instance), {core} if cores else os.sched_getaffinity(0))
        if work.func is insert_share:
            numbers = range(self._next, self._next + operations)
            self._next += operations
        else:
            drawn = random.Random(operations)
            numbers = [drawn.randrange(self._documents) for _ in range(operations)]
        rows = [(place % clients, number) for place, number in enumerate(numbers)]
        self._contestant.connect = partial(Fleet, [instance.uri for instance in (first, second)[:count]])
        if work.func is not insert_share:
            concurrent(self._contestant, clients, rows, work)  # fills the caches
        return concurrent(self._contestant, clients, rows, work)


def pin(pid: int, cores: set[int]) -> None:
    """Lets all threads of a process run on these cores only."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def main() -> None:
    """Measures and prints everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/diwan"))
    parser.add_argument("--documents", type=int, default=100_000, help="in each collection, a multiple of 1,000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", type=int, default=4_000, help="of all clients together, where there are several")
    parser.add_argument("--only", choices=("one", "two"), help="only the figures of one process, or those of two")
    parser.add_argument("--temporary", type=Path, help="where PostgreSQL keeps data; on a real disk, otherwise fsync measures nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped then, too
    for part, kind, measure in (("one", DiwanPostgres, one_client), ("two", TwoOverPostgres, two_processes)):
        if options.only not in (None, part):
            continue
        with tempfile.TemporaryDirectory(prefix="over-postgres-", dir=options.temporary) as place:
            os.chmod(place, 0o755)  # if the bench runs as root, PostgreSQL runs as another user
            target = kind(options.program)
            try:
                target.start(Path(place))
                about = target.describe()
                print(f"\n{about['version']}, {about['settings']}; {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
                measure(target, options)
            finally:
                target.stop()


def one_client(target: DiwanPostgres, options) -> None:
    """Prints the figures of one client and one process."""
    diwan, postgres = Contestant(target, SYNCED), Contestant(Beside(target.cluster), SYNCED)
    work = OneClient(diwan, postgres, options.documents, options.rounds)
    work.fill()
    first_reads(target, diwan, postgres, options.documents, options.rounds)
    work.report()


def two_processes(target: TwoOverPostgres, options) -> None:
    """Prints the figures of two processes."""
    work = TwoProcesses(target, options.documents, options.rounds, options.operations)
    work.fill()
    work.report()


if __name__ == "__main__":
    main()
