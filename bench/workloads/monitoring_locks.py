"""Complaint 2 of the monitoring service: deleting rows and building an index block the whole database.

Small clients send single reads, inserts and updates at a steady rate, to the affected table and to another table of the same
database: first alone, then while the index for the range reads is built, then while the older half of the rows is
deleted in one command. They do not touch deleted rows. The percentiles include requests that a stall kept from being sent.
The maximum is the longest single request; the goal is at most 100 ms.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

from bench.data import Query, Row, Table
from bench.latency import ClientResults, Role, Station, Watch, run_clients
from bench.measure import Contestant, Stage
from bench.workloads.checks import await_count
from bench.workloads.monitoring_data import BEGAN, CHECKS, INDEX, VALUES, range_query, value_row, value_rows

ROWS, LEAST_ROWS = 1_000_000, 4_000
# The clients' minimum time, so that each sends requests even if the concurrent work ends early.
LEAST_SECONDS = 0.5
SERVERS = 100
A_MINUTE = SERVERS * len(CHECKS)
PLACES = {"same table": VALUES, "other table": replace(VALUES, name="other_values")}
A_SECOND = 200  # for each of the four clients; a writer alternates between inserts and updates
GOAL_SECONDS = 0.1
QUIET_SECONDS = 10.0
BATCH = 1000
QUIET, INDEXING, DELETING = "quiet", "while an index is built", "while half is deleted"
LATER = 1_000_000  # minutes: rows of the clients are later than all loaded rows, and rows of a phase are later than those of the phase before
READ, INSERT, UPDATE = "read", "insert", "update"
RATES = {READ: A_SECOND, INSERT: A_SECOND / 2, UPDATE: A_SECOND / 2}


@dataclass(frozen=True)
class Scope:
    """The rows of a small client: those from `first` to `last` are never deleted; `phase` numbers the rows that it inserts."""

    place: str
    first: int
    last: int
    phase: int

    @property
    def table(self) -> Table:
        """The table for `place`."""
        return PLACES[self.place]

    def row(self, number: int) -> Row:
        """One of the permanent rows, a different one for each of the first numbers, in a scattered order."""
        chosen = self.first + number * 7_919 % (self.last - self.first)
        rest, check = divmod(chosen, len(CHECKS))
        minute, server = divmod(rest, SERVERS)
        return value_row(server, minute, check)

    def fresh(self, number: int) -> Row:
        """A row that no client has written yet."""
        minute, server = divmod(number, SERVERS)
        return value_row(server, LATER * (1 + self.phase) + minute, 0)


def read_points(station: Station) -> None:
    """Single reads by id."""
    scope = station.argument
    for number in station.paced(A_SECOND):
        key, document = scope.row(number)
        found = station.timed(f"{READ}, {scope.place}", station.client.find_by_id, scope.table, key)
        if found is None or found["vU"] != document["vU"]:
            raise AssertionError(f"read {found}, expected {document}")


def write_points(station: Station) -> int:
    """Alternates single inserts and updates; returns the number of inserts."""
    scope, inserted = station.argument, 0
    for number in station.paced(A_SECOND):
        if number % 2:
            station.timed(f"{UPDATE}, {scope.place}", station.client.update_field, scope.table, scope.row(number)[0], "vC", number)
        else:
            station.timed(f"{INSERT}, {scope.place}", station.client.insert_one, scope.table, scope.fresh(inserted))
            inserted += 1
    return inserted


class Locks:
    """The stages. Both tables contain the same rows."""

    def __init__(self, rows: int, quiet_seconds: float) -> None:
        self._minutes = max(LEAST_ROWS, rows) // A_MINUTE
        self._size = self._minutes * A_MINUTE
        self._middle = self._minutes // 2
        self._quiet_seconds = quiet_seconds
        self._inserted: dict[tuple[str, str], int] = {}  # by target and place
        self.about = {"workload": "monitoring", "shape": "locks", "size": self._size}

    def stages(self) -> list[Stage]:
        """The stages: the tables, then the three phases."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared"),
            Stage(QUIET, 1, partial(self._phase, 0, QUIET, None)),
            Stage(INDEXING, 1, partial(self._phase, 1, INDEXING, self._build)),
            Stage(DELETING, 1, partial(self._phase, 2, DELETING, self._delete)),
        ]

    def _prepare(self, contestant: Contestant, _round: int) -> None:
        for place, table in PLACES.items():
            contestant.client.create(table)
            rows = value_rows(self._size, SERVERS)
            while batch := list(islice(rows, BATCH)):
                contestant.client.insert_many(table, batch)
            self._inserted[contestant.target.name, place] = self._size

    def _phase(
        self, number: int, name: str, work: Callable[[Contestant], None] | None, contestant: Contestant, _round: int
    ) -> list[dict]:
        roles = []
        for place in PLACES:
            scope = Scope(place, self._middle * A_MINUTE, self._size, number)
            roles += [Role(f"reader, {place}", read_points, argument=scope), Role(place, write_points, argument=scope)]
        if work:
            outcome = run_clients(contestant, roles, LEAST_SECONDS, partial(self._timed, work, contestant), slot_seconds=0.1)
        else:
            outcome = run_clients(contestant, roles, seconds=self._quiet_seconds, slot_seconds=0.1)
        for place, table in PLACES.items():
            self._inserted[contestant.target.name, place] += outcome.returned[place][0]
            await_count(contestant.client, table, self._inserted[contestant.target.name, place])
        return self._records(outcome, name)

    @staticmethod
    def _timed(work: Callable[[Contestant], None], contestant: Contestant, _watch: Watch) -> float:
        began = time.perf_counter()
        work(contestant)
        return time.perf_counter() - began

    def _build(self, contestant: Contestant) -> None:
        contestant.client.create_index(VALUES, *INDEX)
        found = sum(1 for _ in contestant.client.find(VALUES, range_query(1, 1, 0, self._minutes, self._minutes)))
        if found != self._minutes:
            raise AssertionError(f"the new index finds {found} rows, expected {self._minutes}")

    def _delete(self, contestant: Contestant) -> None:
        older = Query("older half", (("below", "tA", BEGAN + timedelta(minutes=self._middle)),))
        deleted, expected = contestant.client.delete_many(VALUES, older), self._middle * A_MINUTE
        if deleted != expected:
            raise AssertionError(f"deleted {deleted} rows, expected {expected}")
        self._inserted[contestant.target.name, "same table"] -= deleted

    @staticmethod
    def _records(outcome: ClientResults, phase: str) -> list[dict]:
        records = []
        if outcome.meanwhile is not None:
            records.append({"record": "figure", "operation": f"the work itself, {phase}", "value": outcome.meanwhile, "unit": "s"})
        for operation, timeline in sorted(outcome.timelines.items()):
            whole = timeline.whole()
            fields = whole.corrected(1 / RATES[operation.partition(",")[0]]).fields()
            name = {"operation": f"{operation}, {phase}"}
            records.append({"record": "latency", "above_goal": whole.above(GOAL_SECONDS)} | name | fields)
            records.append({"record": "timeline"} | name | timeline.fields())
        longest = max((timeline.whole() for timeline in outcome.timelines.values()), key=lambda whole: whole.microseconds(100)[0])
        milliseconds = longest.microseconds(100)[0] / 1000
        records.append({"record": "figure", "operation": f"longest request, {phase}", "value": milliseconds, "unit": "ms"})
        return records
