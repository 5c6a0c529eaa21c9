"""Experiment D, five million records with three indexes: two insert programs at once, then select programs, then both together.

Published in 2009 for MySQL 5.4 (MyISAM), MongoDB 0.9.1 and a Tokyo Tyrant table database. Tokyo Tyrant locked its file and stopped
answering as soon as selects ran beside inserts: 661 inserts and 270 selects took 77 minutes. So the mix is measured over time,
where a stall appears as slots without an answer and as one very long request.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial

from bench.data import DATE, INTEGER, TEXT, Query, Row, Table
from bench.exhibits import SIZE, OverTime, Published
from bench.latency import ClientResults, Role, Station, run_clients
from bench.measure import Contestant, DataSet, Experiment, Stage, sizes
from bench.targets.base import RELAXED
from bench.workloads.checks import await_count

RECORDS = 5_000_000
TABLE = Table("records", (("field1", TEXT), ("field2", TEXT), ("date", DATE), ("n", INTEGER)), key=int)
INDEXED = ("field1", "field2", "n")
BEGAN = datetime(2009, 7, 1)
MIX_SECONDS = 60.0
SELECTED = 10  # one of this many records is selected
INSERTS, SELECTS = "insert, 2 programs", "select, 2 programs"
MIXED_INSERTS, MIXED_SELECTS = "insert beside selects", "select beside inserts"
MYSQL, MONGODB, TYRANT = "MySQL 5.4 (MyISAM)", "MongoDB 0.9.1", "Tokyo Tyrant (table)"
TODAY = {MYSQL: "mariadb", MONGODB: "mongodb", TYRANT: "tyrant-table"}


def field1(number: int) -> str:
    """A unique text in scattered order: multiplication by an odd factor permutes the 32-bit numbers."""
    return f"{number * 2_654_435_761 % 2**32:08x}"


def field2(number: int) -> str:
    """A unique text in the order of the numbers."""
    return f"r{number + 10_000_000:08d}"


def record(number: int) -> Row:
    """The record with a number. The mix uses numbers of 0 and below."""
    date = BEGAN + timedelta(seconds=number)
    return number, {"field1": field1(number), "field2": field2(number), "date": date, "n": number}


def _insert(station: Station, operation: str, numbers: range) -> int:
    insert, done = station.client.insert_one, 0
    for number in numbers:
        if not station.going:
            break
        station.timed(operation, insert, TABLE, record(number))
        done += 1
    return done


def insert_program(station: Station) -> int:
    """Inserts one half of the records, upward or downward."""
    return _insert(station, INSERTS, station.argument)


def _select(station: Station, operation: str, number: int) -> None:
    for name, value in (("field1", field1(number)), ("field2", field2(number))):
        query = Query(name, (("equals", name, value),))
        found = station.timed(operation, lambda: sum(1 for _ in station.client.find(TABLE, query)))
        if found != 1:
            raise AssertionError(f"{found} records have {name} = {value!r}, expected 1")


def select_program(station: Station) -> int:
    """Runs both queries for records spread over a half."""
    for number in station.argument:
        _select(station, SELECTS, number)
    return 2 * len(station.argument)


def inserts_of_the_mix(station: Station) -> int:
    """Inserts further records until stopped."""
    return _insert(station, MIXED_INSERTS, station.argument)


def selects_of_the_mix(station: Station) -> int:
    """Selects the records of a half repeatedly until stopped."""
    done = 0
    while station.going:
        _select(station, MIXED_SELECTS, station.argument[done % len(station.argument)])
        done += 1
    return 2 * done


def _records(outcome: ClientResults, operation: str) -> Iterator[dict]:
    """The records of an operation: a sample with its latencies, and a timeline."""
    yield {"operation": operation} | asdict(outcome.sample(operation)) | outcome.latencies(operation).fields()
    if operation in outcome.timelines:
        yield {"record": "timeline", "operation": operation} | outcome.timelines[operation].fields()


class Programs:
    """The stages for a number of records."""

    def __init__(self, size: int, mix_seconds: float) -> None:
        self.about = {"workload": "records", "shape": "three indexes", "size": size}
        middle = size // 2
        self._up, self._down = range(1, middle + 1), range(size, middle, -1)
        self._beyond, self._below = range(size + 1, size + RECORDS), range(0, -RECORDS, -1)
        self._size = size
        self._mix_seconds = mix_seconds
        self._slot = 1.0 if mix_seconds > 20 else 0.1

    def stages(self) -> list[Stage]:
        """The stages: inserts, selects, then both together."""
        return [
            Stage("prepare", 1, self._prepare, record="prepared"),
            Stage(INSERTS, 1, self._inserts, founding=True),
            Stage("size", 1, lambda contestant, _: sizes(contestant, TABLE), record="size"),
            Stage(SELECTS, 1, self._selects),
            Stage("inserts and selects together", 1, self._mix),
        ]

    def _prepare(self, contestant: Contestant, _round: int) -> None:
        contestant.client.create(TABLE)
        for field in INDEXED:
            contestant.client.create_index(TABLE, field)

    def _inserts(self, contestant: Contestant, _round: int) -> list[dict]:
        roles = [Role("upward", insert_program, argument=self._up), Role("downward", insert_program, argument=self._down)]
        outcome = run_clients(contestant, roles, slot_seconds=self._slot)
        await_count(contestant.client, TABLE, self._size)
        return list(_records(outcome, INSERTS))

    def _selects(self, contestant: Contestant, _round: int) -> list[dict]:
        halves = (self._up[::SELECTED], self._down[::SELECTED])
        roles = [Role(f"half {number}", select_program, argument=half) for number, half in enumerate(halves)]
        return list(_records(run_clients(contestant, roles, slot_seconds=self._slot), SELECTS))

    def _mix(self, contestant: Contestant, _round: int) -> list[dict]:
        roles = [
            Role("upward", inserts_of_the_mix, argument=self._beyond),
            Role("downward", inserts_of_the_mix, argument=self._below),
            Role("first half", selects_of_the_mix, argument=self._up),
            Role("second half", selects_of_the_mix, argument=self._down),
        ]
        outcome = run_clients(contestant, roles, seconds=self._mix_seconds, slot_seconds=self._slot)
        inserted = sum(outcome.returned["upward"] + outcome.returned["downward"])
        await_count(contestant.client, TABLE, self._size + inserted)
        return [*_records(outcome, MIXED_INSERTS), *_records(outcome, MIXED_SELECTS)]


class Records(Experiment):
    """The experiment, configured by the command line."""

    name = "records"
    title = "D. Five million records, by several programs at once"
    about = (
        "Records with two indexed texts, a date and an indexed number. Two programs insert one document per call, one upward and one "
        "downward. Then two programs look up one of ten records by each of its texts. Then two of each run together, measured over time."
    )
    notes = (
        "The published select figure of MongoDB is for one program, that of Tokyo Tyrant for two at once (counted together here), that of "
        "MySQL for a run that ended early. The published programs selected every record; here it is one in ten, so compare the time per query. The "
        "published programs also read each record from a source database in MySQL; here it is computed."
    )
    published = (
        Published(
            source="time of the slower of two insert programs, 2.5 million records each",
            unit="s",
            figures={MYSQL: {RECORDS: 19_682.67}, MONGODB: {RECORDS: 1_435.05}, TYRANT: {RECORDS: 65_671.22}},
            operation=INSERTS,
            reference=MONGODB,
            today=TODAY,
        ),
        Published(
            source="time of the select programs, by queries",
            unit="s",
            figures={MYSQL: {8_099_782: 20_465.38}, MONGODB: {9_999_914: 2_942.25}, TYRANT: {19_999_828: 20_269.34}},
            operation=SELECTS,
            reference=MONGODB,
            today=TODAY,
        ),
        Published(
            source="size with indexes",
            unit="MB",
            figures={MYSQL: {RECORDS: 419}, MONGODB: {RECORDS: 4_000}, TYRANT: {RECORDS: 1_095}},
            operation=SIZE,
            reference=MONGODB,
            today=TODAY,
        ),
    )
    charts = (
        OverTime("Inserts over time, two programs", operation=INSERTS, measure="count"),
        OverTime("Inserts beside selects, over time", operation=MIXED_INSERTS, measure="count"),
        OverTime("Selects beside inserts, over time", operation=MIXED_SELECTS, measure="count"),
        OverTime("The longest select beside inserts, over time", operation=MIXED_SELECTS, measure="max_us"),
    )

    def _make(self, size: int) -> tuple[dict, list[Stage]]:
        programs = Programs(size, min(2 * MIX_SECONDS, max(2.0, MIX_SECONDS * self.options.scale)))
        return programs.about, programs.stages()

    def data_sets(self) -> list[DataSet]:
        size = self.singly(RECORDS, least=1_000)
        return [DataSet(f"{size:,}", RELAXED, partial(self._make, size))]
