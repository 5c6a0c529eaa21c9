"""Complaint 3 of the monitoring service: a kill during writes corrupts the data, and the repair takes hours.

Writers insert one document per call and count the acknowledgements. When the first writer has reached a number, the server is killed
like with `kill -9` and started again. Then every document that was ever acknowledged is read by its id. There may be documents
without an acknowledgement (the answer was on the way), at most one for each writer and kill.
"""

import struct
import time
from functools import partial

from bench.data import ALL, INTEGER, TEXT, Row, Table
from bench.latency import Role, Station, Watch, run_clients
from bench.measure import Contestant, Stage
from bench.targets.base import Unsupported

TABLE = Table("log", (("writer", INTEGER), ("number", INTEGER), ("text", TEXT)))
DOCUMENTS, LEAST_DOCUMENTS = 100_000, 800  # approximate number of documents written before each kill
WRITERS = 4
CHECKERS = 2


def row(kill: int, writer: int, number: int) -> Row:
    """One document. Its text distinguishes it from a mixture of others."""
    text = f"{kill}.{writer}.{number}:" + "abcdefghij"[(number + writer) % 10] * (80 + number % 60)
    return struct.pack(">III", kill, writer, number), {"writer": writer, "number": number, "text": text}


def write(station: Station) -> tuple[int, float, str | None]:
    """Inserts until the server is gone. Returns the number of acknowledgements, the end time, and the error."""
    kill, acknowledged = station.argument, 0
    try:
        while station.going:
            station.client.insert_one(TABLE, row(kill, station.number, acknowledged))
            acknowledged += 1
    except Exception as failure:
        return acknowledged, time.perf_counter(), f"{type(failure).__name__}: {failure}"
    return acknowledged, time.perf_counter(), None


def look(station: Station) -> tuple[int, int]:
    """Reads the acknowledged documents. Returns how many are missing, and how many differ from what was written."""
    missing = damaged = 0
    for kill, counts in enumerate(station.argument):
        for writer, count in enumerate(counts):
            for number in range(station.number, count, station.role.processes):
                key, document = row(kill, writer, number)
                found = station.client.find_by_id(TABLE, key)
                missing += found is None
                damaged += found is not None and found != document
    return missing, damaged


class Kills:
    """The stages. Each kill adds documents to those of earlier kills, and all of them are read again."""

    def __init__(self, documents: int) -> None:
        self._size = max(LEAST_DOCUMENTS, documents)
        self._acknowledged: dict[str, list[list[int]]] = {}  # by target, kill and writer
        self.about = {"workload": "monitoring", "shape": "kills", "size": self._size}

    def stages(self, kills: int) -> list[Stage]:
        """The stages: an empty table, then the kills."""
        return [Stage("prepare", 1, self._prepare, record="prepared"), Stage("kill", kills, self._kill, record="figure")]

    def _prepare(self, contestant: Contestant, _round: int) -> None:
        contestant.client.create(TABLE)
        self._acknowledged[contestant.target.name] = []

    def _kill(self, contestant: Contestant, number: int) -> list[dict]:
        if contestant.target.kind != "server":
            raise Unsupported("runs inside its clients, so a kill ends them too")
        roles = [Role("writers", write, WRITERS, number)]
        outcome = run_clients(contestant, roles, meanwhile=partial(self._kill_amid, contestant, number))
        killed = outcome.meanwhile
        early = [failure for _, ended, failure in outcome.returned["writers"] if failure and ended < killed]
        if early:
            raise RuntimeError(f"a writer failed before the kill: {early[0]}")
        known = self._acknowledged[contestant.target.name]
        known.append([count for count, _, _ in outcome.returned["writers"]])
        serves = self._serve_again(contestant)
        found = run_clients(contestant, [Role("checkers", look, CHECKERS, known)])
        missing, damaged = (sum(counts) for counts in zip(*found.returned["checkers"]))
        total = sum(map(sum, known))
        beyond = self._held(contestant, total) - (total - missing)
        if not 0 <= beyond <= WRITERS * len(known):
            raise AssertionError(f"there are {beyond} documents in addition to the {total - missing} that were acknowledged and found")
        return [
            {"operation": "documents acknowledged until the kill", "value": sum(known[-1]), "unit": "documents"},
            {"operation": "acknowledged documents lost so far", "value": missing, "unit": "documents"},
            {"operation": "acknowledged documents damaged so far", "value": damaged, "unit": "documents"},
            {"operation": "documents kept so far that were not acknowledged", "value": beyond, "unit": "documents"},
            {"operation": "until it serves again", "value": serves, "unit": "s"},
        ]

    @staticmethod
    def _held(contestant: Contestant, expected: int) -> int:
        """The number of documents, counted by reading them, because a separately stored count may not have survived."""
        try:
            return contestant.client.read_range(TABLE, row(0, 0, 0)[0], expected + 1_000)
        except Unsupported:
            return contestant.client.count(TABLE, ALL)

    def _kill_amid(self, contestant: Contestant, number: int, watch: Watch) -> float:
        """Kills the server when the first writer has written its share of the documents. Returns the time of the kill."""
        last, _ = row(number, 0, self._size // WRITERS - 1)
        while contestant.client.find_by_id(TABLE, last) is None:
            if ended := watch.ended("writers"):
                raise RuntimeError(f"a writer failed before the kill: {ended[0][2]}")
            time.sleep(0.005)
        killed = time.perf_counter()
        contestant.target.kill()
        return killed

    @staticmethod
    def _serve_again(contestant: Contestant) -> float:
        """Starts the server again. Returns the seconds until a client has connected and read a document."""
        try:
            contestant.client.close()
        except Exception:
            pass  # its server is gone
        began = time.perf_counter()
        contestant.target.restart()
        contestant.reconnect()
        contestant.client.find_by_id(TABLE, row(0, 0, 0)[0])
        return time.perf_counter() - began
