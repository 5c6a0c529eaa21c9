"""The base load of the monitoring service, and complaint 1: the disk space of long field names.

Agents are client processes, each with a share of the servers. Simulated minutes follow each other without a pause. A report is two
calls: one command for the values of all checks, and one for the snapshot. Another client reads ranges at a steady rate.
"""

import random
from dataclasses import asdict
from itertools import islice

from bench.data import Row, Table
from bench.latency import Latencies, Role, Station, run_clients
from bench.measure import Contestant, Sample, Stage, checked, sizes, stretch
from bench.workloads.monitoring_data import (
    CHECKS,
    INDEX,
    LONG_VALUES,
    SNAPSHOTS,
    VALUES,
    lengthened,
    range_query,
    snapshot_row,
    value_row,
    value_rows,
)

SERVERS, MINUTES = 100, 1_440
LEAST_SERVERS, LEAST_MINUTES = 4, 60
AGENTS = 4
READS_A_SECOND = 20
HOUR, LIMIT = 60, 50
READS = 200
BATCH = 1000
REPORT = f"report, {AGENTS} agents"
REPORT_VALUES, REPORT_SNAPSHOT, READ_BESIDE = "report: values", "report: snapshot", "range read beside reports"


def draw_lists(station: Station) -> None:
    """Generates the process lists of an agent's servers before the clock starts."""
    for server in station.share(list(range(station.argument[0]))):
        snapshot_row(server, 0)


def report(station: Station) -> int:
    """Sends the reports of an agent's servers for a day, minute by minute."""
    servers, minutes = station.argument
    mine = station.share(list(range(servers)))
    for minute in range(minutes):
        for server in mine:
            values = [value_row(server, minute, check) for check in range(len(CHECKS))]
            station.timed(REPORT_VALUES, station.client.insert_many, VALUES, values)
            station.timed(REPORT_SNAPSHOT, station.client.insert_one, SNAPSHOTS, snapshot_row(server, minute))
    return len(mine) * minutes


def _read(client, server: int, check: int, first: int) -> int:
    return sum(1 for _ in client.find(VALUES, range_query(server, check, first, first + HOUR - 1, LIMIT)))


def read_ranges(station: Station) -> None:
    """Reads the first hour repeatedly while the agents fill it."""
    servers, _ = station.argument
    for number in station.paced(READS_A_SECOND):
        found = station.timed(READ_BESIDE, _read, station.client, number % servers, number % len(CHECKS), 0)
        if found > LIMIT:
            raise AssertionError(f"a read of at most {LIMIT} returned {found}")


class Reports:
    """The stages of the base load. `scale` first shortens the day, then reduces the number of servers."""

    def __init__(self, scale: float) -> None:
        reports = round(SERVERS * MINUTES * scale)
        self._servers = max(LEAST_SERVERS, min(SERVERS, reports // LEAST_MINUTES))
        self._minutes = max(LEAST_MINUTES, reports // self._servers)
        self.documents = self._servers * self._minutes * (len(CHECKS) + 1)
        self.about = {"workload": "monitoring", "shape": "agents' reports", "size": self.documents}

    def stages(self, rounds: int) -> list[Stage]:
        """The stages: reports and concurrent reads, their size, reads alone."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared"),
            Stage("index", 1, lambda contestant, _: contestant.client.create_index(VALUES, *INDEX), record="indexed"),
            Stage(REPORT, 1, self._report, founding=True),
            Stage("size", 1, lambda contestant, _: sizes(contestant, SNAPSHOTS), record="size"),
            Stage("range read", rounds, self._read),
        ]

    @staticmethod
    def _prepare(contestant: Contestant, _round: int) -> None:
        contestant.client.create(VALUES)
        contestant.client.create(SNAPSHOTS)

    def _report(self, contestant: Contestant, _round: int) -> list[dict]:
        scope = (self._servers, self._minutes)
        outcome = run_clients(
            contestant,
            [Role("agents", report, AGENTS, scope, prepare=draw_lists), Role("reader", read_ranges, 1, scope, attendant=True)],
        )
        reports = Sample(sum(outcome.returned["agents"]), outcome.wall_seconds, outcome.client_cpu_seconds, outcome.server_cpu_seconds)
        records = [{"operation": REPORT} | asdict(reports)]
        for operation, timeline in sorted(outcome.timelines.items()):
            whole = timeline.whole()
            fields = (whole.corrected(1 / READS_A_SECOND) if operation == READ_BESIDE else whole).fields()
            records.append({"record": "latency", "operation": operation} | fields)
            records.append({"record": "timeline", "operation": operation} | timeline.fields())
        return records

    def _read(self, contestant: Contestant, number: int) -> dict:
        draws, latencies = random.Random(number), Latencies()
        chosen = [
            (draws.randrange(self._servers), draws.randrange(len(CHECKS)), draws.randrange(self._minutes)) for _ in range(READS)
        ]
        expected = sum(min(LIMIT, HOUR, self._minutes - first) for _, _, first in chosen)

        def work() -> int:
            return sum(latencies.timed(_read, contestant.client, *each) for each in chosen)

        return checked(stretch(contestant, READS, work), expected) | latencies.fields()


class Names:
    """The stages of complaint 1: the same rows with short or long field names, without further indexes."""

    def __init__(self, long: bool, size: int) -> None:
        self.about = {"workload": "monitoring", "shape": "long field names" if long else "short field names", "size": size}
        self._table: Table = LONG_VALUES if long else VALUES
        self._renamed = lengthened if long else _as_it_is
        self._size = size

    def stages(self) -> list[Stage]:
        """The stages: an empty table, the rows, their size on disk."""
        return [
            Stage("prepare", 1, lambda contestant, _: contestant.client.create(self._table), record="prepared"),
            Stage("insert", 1, self._insert, record="inserted"),
            Stage("size", 1, self._measure, record="size"),
        ]

    def _insert(self, contestant: Contestant, _round: int) -> None:
        rows = map(self._renamed, value_rows(self._size, SERVERS))
        while batch := list(islice(rows, BATCH)):
            contestant.client.insert_many(self._table, batch)

    def _measure(self, contestant: Contestant, _round: int) -> list[dict]:
        size = sizes(contestant, self._table)
        kept = size["maintained_bytes"] if size["maintained_bytes"] is not None else size["table_bytes"]
        if kept is None:
            return [size]
        return [size, {"record": "figure", "operation": "bytes on disk a document", "value": kept / self._size, "unit": "bytes"}]


def _as_it_is(row: Row) -> Row:
    return row
