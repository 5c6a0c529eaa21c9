"""The tables and the transaction of the commit path on a real PostgreSQL, with a network that is made longer by sleeping."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.targets.postgres import Cluster, find_programs

ROWS = 5
"""Rows that one write changes: a record, two entries, a change and a state."""
KEY, VALUE = 24, 200
"""Bytes of a key and of a value."""
CHANNEL = "groups"

SCHEMA = """
    CREATE TABLE head (stripe integer PRIMARY KEY, number bigint NOT NULL, process integer NOT NULL);
    CREATE TABLE journal (stripe integer, number bigint, process integer NOT NULL, keys bytea NOT NULL, PRIMARY KEY (stripe, number));
    CREATE TABLE pairs (head bytea PRIMARY KEY, value bytea NOT NULL);
    INSERT INTO head SELECT stripe, 0, 0 FROM generate_series(0, 63) stripe;
"""


@contextmanager
def postgres(directory: Path | None = None) -> Iterator[Cluster]:
    """A new PostgreSQL below a directory, with the tables. It is stopped at the end."""
    programs = find_programs()
    if not programs:
        raise RuntimeError("no PostgreSQL: install Debian's package postgresql")
    with tempfile.TemporaryDirectory(prefix="diwan-scale-", dir=directory) as made:
        # The server may run as another user.
        Path(made).chmod(0o755)
        cluster = Cluster(Path(made), programs)
        cluster.make()
        try:
            cluster.launch()
            with psycopg.connect(cluster.address, autocommit=True) as connection:
                connection.execute(SCHEMA)
            yield cluster
        finally:
            cluster.stop()


class Committer:
    """What a process's committer does, with full groups: one transaction after another over one connection."""

    def __init__(self, address: str, number: int, *, rtt: float = 0.0, writes: int = 1, stripe: int = 0, notifies: bool = True, syncs: bool = True):
        self.stale = self.commits = self.all_commits = 0
        self.slept = self.messages = 0.0
        """Seconds slept for the network, and messages sent."""
        self.first = self.last = 0.0
        """Seconds in the first message of a transaction, and in the last one; without the network."""
        self._number = number
        self._rtt = rtt
        self._writes = writes
        self._stripe = stripe
        self._notifies = notifies
        self._known = -1
        self._connection = psycopg.connect(address, autocommit=True)
        self._connection.execute(f"SET synchronous_commit = {'on' if syncs else 'off'}")

    def close(self) -> None:
        """Ends the session."""
        self._connection.close()

    def commit(self) -> None:
        """Commits a group; catches up first if another process has committed since the last one. The lock is kept meanwhile."""
        keys = [self._key(row) for row in range(self._writes * ROWS)]
        wanted = ",".join(f"'\\x{key.hex()}'" for key in keys)
        conditions = f"SELECT head, value FROM pairs WHERE head IN ({wanted})"
        lock = f"SELECT number FROM head WHERE stripe = {self._stripe} FOR UPDATE"
        journal = f"SELECT number, keys FROM journal WHERE stripe = {self._stripe} AND number > {self._known} AND number <= {self._known} + 1000"
        began, slept = time.perf_counter(), self.slept
        number = self._send(f"BEGIN; {lock}; {journal}; {conditions}")[1][0][0]
        self.first += time.perf_counter() - began - (self.slept - slept)
        if number != self._known and self._known >= 0:
            self.stale += 1
            self._send(f"SELECT value FROM pairs WHERE head = '\\x{keys[0].hex()}'")
            self._send(conditions)
        self._known = number + 1
        value = (self._known * 1_000_003).to_bytes(8, "big").hex() * (VALUE // 8)
        pairs = ",".join(f"('\\x{key.hex()}', '\\x{value}')" for key in keys)
        written = b"".join(keys).hex()
        began, slept = time.perf_counter(), self.slept
        self._send(
            f"INSERT INTO pairs VALUES {pairs} ON CONFLICT (head) DO UPDATE SET value = excluded.value;"
            f"INSERT INTO journal VALUES ({self._stripe}, {self._known}, {self._number}, '\\x{written}');"
            f"UPDATE head SET number = {self._known}, process = {self._number} WHERE stripe = {self._stripe};"
            + (f"NOTIFY {CHANNEL}, '{self._known}';" if self._notifies else "")
            + "COMMIT"
        )
        self.last += time.perf_counter() - began - (self.slept - slept)
        self.commits += 1
        self.all_commits += 1

    def _key(self, row: int) -> bytes:
        # Old keys are written again, so that the table stays small.
        return f"{self._number:04}-{(self._known * 7 + row) % 5000:06}".encode().ljust(KEY, b".")

    def _send(self, sql: str) -> list[list[tuple]]:
        self._sleep()
        cursor = self._connection.execute(sql)
        results = []
        while True:
            results.append(cursor.fetchall() if cursor.description else [])
            if not cursor.nextset():
                break
        self._sleep()
        self.messages += 1
        return results

    def _sleep(self) -> None:
        if self._rtt:
            began = time.perf_counter()
            time.sleep(self._rtt / 2)
            self.slept += time.perf_counter() - began
