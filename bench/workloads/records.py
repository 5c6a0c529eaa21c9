"""Experiment D, five million records with three indexes: two insert programs at once, then select programs, then both together.

Published in 2009 of MySQL 5.4 (MyISAM), MongoDB 0.9.1 and a Tokyo Tyrant table database, which locked its file and stopped
answering as soon as selects ran beside inserts: 661 inserts and 270 selects took it 77 minutes. So the mix is measured over time,
where a stall shows as slots without an answer and as one very long request.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial

from bench.data import DATE, INTEGER, TEXT, Query, Row, Table
from bench.exhibits import SIZE, OverTime, Published
from bench.latency import Role, Station, Told, run_clients
from bench.measure import Contestant, DataSet, Experiment, Stage, sizes
from bench.targets.base import RELAXED
from bench.workloads.checks import await_count

RECORDS = 5_000_000
TABLE = Table("records", (("field1", TEXT), ("field2", TEXT), ("date", DATE), ("n", INTEGER)), key=int)
INDEXED = ("field1", "field2", "n")
BEGAN = datetime(2009, 7, 1)
MIX_SECONDS = 60.0
SELECTED = 10  # one record in so many is selected
INSERTS, SELECTS = "insert, 2 programs", "select, 2 programs"
MIXED_INSERTS, MIXED_SELECTS = "insert beside selects", "select beside inserts"
MYSQL, MONGODB, TYRANT = "MySQL 5.4 (MyISAM)", "MongoDB 0.9.1", "Tokyo Tyrant (table)"
TODAY = {MYSQL: "mariadb", MONGODB: "mongodb", TYRANT: "tyrant-table"}


def field1(number: int) -> str:
    """A text that no other record has, in no order: an odd factor permutes the numbers of 32 bits."""
    return f"{number * 2_654_435_761 % 2**32:08x}"


def field2(number: int) -> str:
    """A text that no other record has, in the order of the numbers."""
    return f"r{number + 10_000_000:08d}"


def record(number: int) -> Row:
    """One record; the mix has numbers of 0 and below."""
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
    """One of the two programs, upward or downward through its half."""
    return _insert(station, INSERTS, station.argument)


def _select(station: Station, operation: str, number: int) -> None:
    for name, value in (("field1", field1(number)), ("field2", field2(number))):
        query = Query(name, (("equals", name, value),))
        found = station.timed(operation, lambda: sum(1 for _ in station.client.find(TABLE, query)))
        if found != 1:
            raise AssertionError(f"{found} records have {name} = {value!r} where 1 has")


def select_program(station: Station) -> int:
    """Both queries for records from all over a half."""
    for number in station.argument:
        _select(station, SELECTS, number)
    return 2 * len(station.argument)


def inserts_of_the_mix(station: Station) -> int:
    """Further records until told to stop."""
    return _insert(station, MIXED_INSERTS, station.argument)


def selects_of_the_mix(station: Station) -> int:
    """The records of a half over and over until told to stop."""
    done = 0
    while station.going:
        _select(station, MIXED_SELECTS, station.argument[done % len(station.argument)])
        done += 1
    return 2 * done


def _records(told: Told, operation: str) -> Iterator[dict]:
    """An operation's records: the stretch with its distribution, and the same over time."""
    yield {"operation": operation} | asdict(told.sample(operation)) | told.latencies(operation).fields()
    if operation in told.timelines:
        yield {"record": "timeline", "operation": operation} | told.timelines[operation].fields()


class Programs:
    """The stages over a number of records."""

    def __init__(self, size: int, mix_seconds: float) -> None:
        self.about = {"workload": "records", "shape": "three indexes", "size": size}
        middle = size // 2
        self._up, self._down = range(1, middle + 1), range(size, middle, -1)
        self._beyond, self._below = range(size + 1, size + RECORDS), range(0, -RECORDS, -1)
        self._size = size
        self._mix_seconds = mix_seconds
        self._slot = 1.0 if mix_seconds > 20 else 0.1

    def stages(self) -> list[Stage]:
        """The whole order of things."""
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
        told = run_clients(contestant, roles, slot_seconds=self._slot)
        await_count(contestant.client, TABLE, self._size)
        return list(_records(told, INSERTS))

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
        told = run_clients(contestant, roles, seconds=self._mix_seconds, slot_seconds=self._slot)
        inserted = sum(told.returned["upward"] + told.returned["downward"])
        await_count(contestant.client, TABLE, self._size + inserted)
        return [*_records(told, MIXED_INSERTS), *_records(told, MIXED_SELECTS)]


class Records(Experiment):
    """The whole experiment, as the command line wants it."""

    name = "records"
    title = "D. Five million records, by several programs at once"
    about = (
        "Records of two indexed texts, a date and an indexed number. Two programs insert one document a call, one upward and one "
        "downward; then two programs look up one record in ten by each of its texts; then two of each run together, over time."
    )
    notes = (
        "The published MongoDB select figure is of one program, Tokyo Tyrant's of two at once (counted together here), MySQL's of a run "
        "that was ended early. There every record was selected, here one in ten from all over: what is compared is what a query takes. The "
        "published programs also read each record from the MySQL that it came from; here it is computed."
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
