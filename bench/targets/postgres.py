"""PostgreSQL with documents as `jsonb`: Debian's package, its own cluster in a temporary directory, Debian's default settings."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from bench import process
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Row, Target
from bench.targets.server import ServerProcess

TRANSLATION = {
    # jsonb to int4 directly: no detour by text.
    "above": ("(doc->{})::int4 > {}", 1),
    "below": ("(doc->{})::int4 < {}", 1),
    "exists": ("doc ? {}", 0),
    # On a jsonb string as on an array of strings, ?| asks whether one of the given strings is there.
    "any": ("doc->{} ?| {}", 1),
}


def to_condition(query) -> sql.Composed:
    """The query as an SQL condition over `doc`."""
    parts = []
    for operator, field, value in query.conditions:
        pattern, values = TRANSLATION[operator]
        operand = list(value) if operator == "any" else value
        parts.append(sql.SQL(pattern).format(*[sql.Literal(field), sql.Literal(operand)][: 1 + values]))
    return sql.SQL(" and ").join(parts)


class PostgresAdapter(Client):
    """One psycopg connection in autocommit; statements that repeat are prepared by psycopg."""

    def __init__(self, address: str, durability: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        mode = "on" if durability == SYNCED else "off"
        self._connection.execute(f"set synchronous_commit = {mode}")
        self._cursor = self._connection.cursor()

    def create(self, table: str) -> None:
        self._cursor.execute(f"drop table if exists {table}")
        self._cursor.execute(f"create table {table} (id bytea primary key, doc jsonb not null)")

    def insert_one(self, table: str, row: Row) -> None:
        self._cursor.execute(f"insert into {table} values (%s, %s)", (row[0], Jsonb(row[1])))

    def insert_many(self, table: str, rows: list[Row]) -> None:
        keys = [key for key, _ in rows]
        documents = [Jsonb(document) for _, document in rows]
        self._cursor.execute(f"insert into {table} select * from unnest(%s::bytea[], %s::jsonb[])", (keys, documents))

    def find_by_id(self, table: str, key: bytes) -> dict | None:
        found = self._cursor.execute(f"select doc from {table} where id = %s", (key,)).fetchone()
        return found[0] if found else None

    def count(self, table: str, query) -> int:
        statement = sql.SQL("select count(*) from {} where {}").format(sql.Identifier(table), to_condition(query))
        return self._cursor.execute(statement).fetchone()[0]

    def find(self, table: str, query):
        statement = sql.SQL("select id, doc from {} where {}").format(sql.Identifier(table), to_condition(query))
        return self._cursor.execute(statement)

    def maintain(self, table: str) -> str:
        self._cursor.execute(f"vacuum analyze {table}")
        self._cursor.execute("checkpoint")
        return "vacuum analyze, checkpoint"

    def table_bytes(self, table: str) -> int | None:
        return self._cursor.execute("select pg_total_relation_size(%s::regclass)", (table,)).fetchone()[0]

    def close(self) -> None:
        self._connection.close()


class Postgres(Target):
    """A cluster of our own, never one that is there already."""

    name = "postgres"
    baseline = "null-postgres"
    durability = {
        RELAXED: "synchronous_commit = off: acknowledged before fsync, WAL synced within 600 ms",
        SYNCED: "synchronous_commit = on: acknowledged after the WAL's fsync, shared by waiting commits",
    }

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self._address = ""

    @classmethod
    def configured(cls, options) -> "Postgres":
        return cls()

    def start(self, directory: Path) -> None:
        programs = find_programs() or install()
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        user = "postgres" if os.geteuid() == 0 else None
        self.data = directory / "data"
        self.data.mkdir()
        if user:
            shutil.chown(self.data, user, user)
        made = subprocess.run(
            [programs / "initdb", "-D", self.data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync"],
            capture_output=True,
            text=True,
            user=user,
            group=user,
            extra_groups=[] if user else None,
            cwd=self.data,
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stderr.strip()[-400:]}")
        port = process.free_port()
        began = time.perf_counter()
        self._server = ServerProcess(
            [
                *(str(programs / "postgres"), "-D", str(self.data), "-p", str(port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            ],
            directory / "server.log",
            user,
        )
        self._server.wait_ready(port)
        self._address = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
        self._wait_until_accepting()
        self.ready_seconds = time.perf_counter() - began
        self.pid = self._server.pid

    def _wait_until_accepting(self) -> None:
        """The port opens before the database is ready for clients."""
        for _ in range(300):
            try:
                psycopg.connect(self._address).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise RuntimeError(f"accepts no clients: {self._server.last_words()}")

    def stop(self) -> None:
        if self._server:
            self._server.stop(signal.SIGINT)  # "fast" shutdown: does not wait for clients
        self._server = None
        self.pid = None

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(PostgresAdapter, self._address, durability)

    def describe(self) -> dict:
        with psycopg.connect(self._address) as connection:
            shown = {
                name: connection.execute(f"show {name}").fetchone()[0]
                for name in ("shared_buffers", "fsync", "max_parallel_workers_per_gather", "wal_writer_delay")
            }
            version = connection.execute("show server_version").fetchone()[0]
        return {"version": version, "settings": ", ".join(f"{key} = {value}" for key, value in shown.items())}


def find_programs() -> Path | None:
    """The directory of the newest installed PostgreSQL's programs."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def install() -> Path:
    """Installs Debian's package where we may, without the cluster that it would start."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotGiven("the package postgresql is not installed")
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "postgresql"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    programs = find_programs()
    if done.returncode or not programs:
        raise NotGiven(f"the package postgresql could not be installed: {done.stderr.strip()[-200:]}")
    return programs
