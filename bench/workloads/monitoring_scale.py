"""Two complaints of the monitoring service. Complaint 4: each customer's database pre-allocates files. Complaint 5: a new replica must catch up
quickly with a live master, and stay in sync.
"""

import struct
import time
from functools import partial
from itertools import islice
from json import dumps

from bench.data import ALL, INTEGER, TEXT, Row, Table
from bench.latency import Latencies, Role, Station, Watch, run_clients
from bench.measure import Contestant, Stage, settle
from bench.targets import Client
from bench.workloads.checks import await_count
from bench.workloads.monitoring_data import VALUES, value_row, value_rows

DATABASES = 1_000
SMALL = 10

ROWS = 100_000
SERVERS = 100
BATCH = 1000
WRITERS, WRITES_A_SECOND = 2, 250
PROBES, PROBES_A_SECOND = 50, 25
CATCH_UP_SECONDS = 1_800.0
LATER = 1_000_000  # minutes: rows of the writers are later than the loaded ones
PROBE_LATER = 2_000_000


def customer(number: int) -> Table:
    """A customer's database, with one table."""
    return Table("settings", (("name", TEXT), ("value", INTEGER)), database=f"customer{number}")


def settings(number: int) -> list[Row]:
    """A customer's ten small documents."""
    return [(struct.pack(">III", 0, number, one), {"name": f"setting {one}", "value": number * SMALL + one}) for one in range(SMALL)]


class Databases:
    """The stages of complaint 4."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bytes = sum(len(dumps(document)) + len(key) for number in range(count) for key, document in settings(number))
        self.about = {"workload": "monitoring", "shape": "a database a customer", "size": count * SMALL}

    def stages(self) -> list[Stage]:
        """The stages: creating the databases, their size on disk, opening them again."""
        return [
            Stage("make databases", 1, self._make, record="prepared"),
            Stage("disk", 1, self._disk, record="figure"),
            Stage("open again", 1, self._open, record="figure"),
        ]

    def _make(self, contestant: Contestant, _round: int) -> list[dict]:
        latencies, began = Latencies(), time.perf_counter()
        for number in range(self._count):
            latencies.timed(self._make_one, contestant.client, number)
        spent = time.perf_counter() - began
        return [
            {"record": "latency", "operation": "make a database of 10 documents"} | latencies.fields(),
            {"record": "figure", "operation": f"make {self._count:,} databases", "value": spent, "unit": "s"},
        ]

    @staticmethod
    def _make_one(client: Client, number: int) -> None:
        client.create(customer(number))
        client.insert_many(customer(number), settings(number))

    def _disk(self, contestant: Contestant, _round: int) -> list[dict] | None:
        resting = settle(contestant)
        if resting is None:
            return []
        beyond = (resting - self._bytes) / self._count
        return [{"operation": "bytes on disk a database, beyond its documents", "value": beyond, "unit": "bytes"}]

    def _open(self, contestant: Contestant, _round: int) -> list[dict]:
        target = contestant.target
        server = target.kind == "server"
        if server:
            target.kill()
        try:
            contestant.client.close()
        except Exception:
            pass  # its server is gone
        began = time.perf_counter()
        if server:
            target.restart()
        contestant.reconnect()
        self._read_one(contestant.client, 0)
        serves = time.perf_counter() - began
        latencies = Latencies()
        for number in range(self._count):
            latencies.timed(self._read_one, contestant.client, number)
        every = time.perf_counter() - began
        return [
            {"operation": "until the first database answers again", "value": serves, "unit": "s"},
            {"operation": "until every database has answered", "value": every, "unit": "s"},
            {"record": "latency", "operation": "first read of a database"} | latencies.fields(),
        ]

    @staticmethod
    def _read_one(client: Client, number: int) -> None:
        key, document = settings(number)[-1]
        found = client.find_by_id(customer(number), key)
        if found != document:
            raise AssertionError(f"read {found}, expected {document}")


def write(station: Station) -> int:
    """Inserts rows at a steady rate; returns their number."""
    written = 0
    for written in station.paced(WRITES_A_SECOND):
        minute, server = divmod(written, SERVERS)
        row = value_row(server, LATER + minute, station.number)
        station.timed("insert beside the replica", station.client.insert_one, VALUES, row)
    return written + 1


class Replica:
    """The stages of complaint 5. Clients write to the master all the time, so probes show whether the replica has caught up.

    A probe is a row that is inserted in the master and read from the replica by its id until it appears. The first one is inserted when
    the replica's start has returned. When it appears, the replica has all earlier writes.
    """

    def __init__(self, rows: int) -> None:
        self._size = rows
        self.about = {"workload": "monitoring", "shape": "new replica", "size": rows}

    def stages(self) -> list[Stage]:
        """The stages: the rows, then the replica."""
        return [Stage("prepare", 1, self._prepare, record="prepared"), Stage("replica", 1, self._follow, record="figure")]

    def _prepare(self, contestant: Contestant, _round: int) -> None:
        contestant.client.create(VALUES)
        rows = value_rows(self._size, SERVERS)
        while batch := list(islice(rows, BATCH)):
            contestant.client.insert_many(VALUES, batch)

    def _follow(self, contestant: Contestant, _round: int) -> list[dict]:
        roles = [Role("writers", write, WRITERS)]
        outcome = run_clients(contestant, roles, meanwhile=partial(self._probe, contestant))
        caught_up, lags = outcome.meanwhile
        stopped = time.perf_counter()
        contestant.target.await_replica()
        last = time.perf_counter() - stopped
        expected = self._size + sum(outcome.returned["writers"]) + 1 + PROBES
        replica = contestant.target.replica_connector()()
        for client in (contestant.client, replica):
            await_count(client, VALUES, expected)
        replica.close()
        beside = outcome.latencies("insert beside the replica").corrected(1 / WRITES_A_SECOND)
        return [
            {"operation": "until a new replica has caught up", "value": caught_up, "unit": "s"},
            {"operation": "until the replica is level after the last write", "value": last, "unit": "s"},
            {"record": "latency", "operation": "lag of the replica"} | lags.fields(),
            {"record": "latency", "operation": "insert beside the replica"} | beside.fields(),
        ]

    @staticmethod
    def _probe(contestant: Contestant, watch: Watch) -> tuple[float, Latencies]:
        directory = contestant.directory / "replica"
        directory.mkdir()
        began = time.perf_counter()
        contestant.target.start_replica(directory, [VALUES])
        replica = contestant.target.replica_connector()()
        _await_probe(contestant.client, replica, 0)
        watch.ended("writers")  # raises an error if a writer has failed, because the test needs a busy master
        caught_up = time.perf_counter() - began
        lags = Latencies()
        for number in range(1, PROBES + 1):
            lags.record(_await_probe(contestant.client, replica, number))
            time.sleep(1 / PROBES_A_SECOND)
        replica.close()
        return caught_up, lags


def _await_probe(master: Client, replica: Client, number: int) -> float:
    """Inserts a row in the master. Returns the seconds from its acknowledgement until the replica has it."""
    key, document = value_row(number, PROBE_LATER, 0)
    master.insert_one(VALUES, (key, document))
    began = time.perf_counter()
    while replica.find_by_id(VALUES, key) is None:
        if time.perf_counter() - began > CATCH_UP_SECONDS:
            raise TimeoutError(f"the replica has not caught up within {CATCH_UP_SECONDS:.0f} s")
        time.sleep(0.001)
    return time.perf_counter() - began
