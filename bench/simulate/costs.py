"""What single parts of the design cost in a real PostgreSQL: the head row beside a held snapshot, notifications, listeners, connections."""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.process import cpu_seconds
from bench.simulate.measure import measured
from bench.simulate.store import CHANNEL, ROWS, VALUE, postgres
from bench.simulate.tables import Row, Table, rounded
from bench.targets.postgres import Cluster

SAMPLE = 500
HELD = (0, 5_000, 20_000, 50_000)
"""After how many commits under a held snapshot the duration of one is measured."""

ADVANCE = {
    "a head row, `FOR UPDATE` and `UPDATE`": (
        "BEGIN; SELECT number FROM head WHERE stripe = 0 FOR UPDATE; UPDATE head SET number = number + 1 WHERE stripe = 0; COMMIT"
    ),
    "an advisory lock, the greatest number of the journal": (
        "BEGIN; SELECT pg_advisory_xact_lock(1); INSERT INTO journal SELECT 0, number + 1, 0, '' "
        "FROM (SELECT number FROM journal WHERE stripe = 0 ORDER BY stripe DESC, number DESC LIMIT 1) newest; COMMIT"
    ),
}
"""Two ways to take the lock and to move the head on. They are not synced here, because the disk is not the question."""


def costs(seconds: float, directory: Path | None) -> str:
    """Measures all of it; tables in Markdown."""
    with postgres(directory) as cluster:
        tables: list[tuple[Row, Iterator[Row]]] = [
            (("head rows", "commits/s", "with `NOTIFY`"), _notified(cluster, seconds)),
            (("listeners", "server's CPU for a commit, µs"), _listeners(cluster, seconds)),
            (("a message", "server's CPU, µs"), _messages(cluster, seconds)),
            (("a session of PostgreSQL", "memory of its own, MB"), _sessions(cluster)),
            # The last one, because autovacuum follows it.
            (("held snapshot: µs of a commit after", *(f"{commits:,} commits" for commits in HELD), "snapshot ended, vacuumed"), _held(cluster)),
        ]
        return "\n".join(Table(columns, lambda _, rows=rows: rows).markdown() for columns, rows in tables)


def _connected(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(cluster.address, autocommit=True)


def _held(cluster: Cluster) -> Iterator[Row]:
    for title, sql in ADVANCE.items():
        with _connected(cluster) as writer, _connected(cluster) as holder:
            writer.execute("SET synchronous_commit = off")
            writer.execute("TRUNCATE journal")
            writer.execute("INSERT INTO journal VALUES (0, 0, 0, '')")
            writer.execute("VACUUM FULL head")
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT number FROM head")
            durations, done = [], 0
            for commits in HELD:
                for _ in range(commits - done):
                    writer.execute(sql)
                durations.append(_duration(writer, sql))
                done = commits + SAMPLE
            holder.execute("COMMIT")
            writer.execute("VACUUM head")
            yield title, *(f"{duration * 1e6:,.0f}" for duration in (*durations, _duration(writer, sql)))


def _duration(writer: psycopg.Connection, sql: str) -> float:
    durations = []
    for _ in range(SAMPLE):
        began = time.perf_counter()
        writer.execute(sql)
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


def _notified(cluster: Cluster, seconds: float) -> Iterator[Row]:
    for stripes in (1, 4, 16):
        without, with_notify = (measured(cluster.address, seconds, stripes, striped=True, notifies=notifies)[0] for notifies in (False, True))
        yield f"{stripes}", rounded(without), rounded(with_notify)


def _listeners(cluster: Cluster, seconds: float) -> Iterator[Row]:
    for count in (0, 10, 50):
        with ExitStack() as sessions:
            for _ in range(count):
                sessions.enter_context(_connected(cluster)).execute(f"LISTEN {CHANNEL}")
            yield f"{count}", _cpu(cluster, seconds, 1)


def _messages(cluster: Cluster, seconds: float) -> Iterator[Row]:
    with _connected(cluster) as session:
        session.execute("SET synchronous_commit = off")
        key = session.execute("SELECT head FROM pairs LIMIT 1").fetchone()[0]
        yield "the head's number", _session_cpu(session, seconds, "SELECT number FROM head WHERE stripe = %s", [0])
        yield "the value of a key", _session_cpu(session, seconds, "SELECT value FROM pairs WHERE head = %s", [key])
        for rows in (ROWS, 16 * ROWS, 128 * ROWS):
            heads, values = [f"{row:024}".encode() for row in range(rows)], [bytes(VALUE)] * rows
            yield f"the values of {rows} keys", _session_cpu(session, seconds, "SELECT head, value FROM pairs WHERE head = ANY(%s)", [heads])
            put = (
                "INSERT INTO pairs SELECT * FROM unnest(%s::bytea[], %s::bytea[]) AS k (head, value) "
                "ON CONFLICT (head) DO UPDATE SET value = excluded.value"
            )
            yield f"writing {rows} rows", _session_cpu(session, seconds, put, [heads, values])
    for writes in (1, 16):
        yield f"a transaction of {writes * ROWS} rows, SQL as text", _cpu(cluster, seconds, writes)


def _session_cpu(session: psycopg.Connection, seconds: float, sql: str, parameters: list) -> str:
    done, end, used = 0, time.perf_counter() + seconds, cpu_seconds(session.info.backend_pid)
    while time.perf_counter() < end:
        session.execute(sql, parameters, prepare=True, binary=True)
        done += 1
    return f"{(cpu_seconds(session.info.backend_pid) - used) / done * 1e6:,.0f}"


def _cpu(cluster: Cluster, seconds: float, writes: int) -> str:
    used = cpu_seconds(cluster.server.pid)
    _, (committer,) = measured(cluster.address, seconds, 1, writes=writes)
    return f"{(cpu_seconds(cluster.server.pid) - used) / committer.all_commits * 1e6:,.0f}"


def _sessions(cluster: Cluster) -> Iterator[Row]:
    with _connected(cluster) as session:
        yield "new", _private(session)
        for count in range(200):
            session.execute("SELECT head, value FROM pairs WHERE head > %s ORDER BY head LIMIT 100", [bytes([count])], prepare=True)
            session.execute("SELECT number FROM head WHERE stripe = %s", [count % 64], prepare=True)
        yield "with prepared statements, after 400 of them", _private(session)


def _private(session: psycopg.Connection) -> str:
    # What it shares with the others, such as the buffers, does not grow with their number.
    fields = Path(f"/proc/{session.info.backend_pid}/smaps_rollup").read_text().split("\n")
    private = sum(int(line.split()[1]) for line in fields if line.startswith("Private_"))
    return f"{private / 1024:.1f}"
