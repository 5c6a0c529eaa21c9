"""PostgreSQL from Debian's package, with its own cluster in a temporary directory and Debian's default settings, with `jsonb` or with columns."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from bench import process
from bench.data import Table
from bench.targets import debian
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.postgres_client import PostgresAdapter, RelationalAdapter
from bench.targets.server import ServerProcess, fill

PAGE = 8192
LONGEST_PAGE_HEADER = 40


class Cluster:
    """One instance: its files below a directory, its port, its process."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.data = directory / "data"
        self.server: ServerProcess | None = None
        self._directory = directory
        self._programs = programs
        # PostgreSQL refuses to run as root; Debian's package creates a user for it.
        self._user = "postgres" if os.geteuid() == 0 else None
        self.port = process.free_port()
        self.address = f"host=127.0.0.1 port={self.port} user=bench dbname=postgres"
        self.uri = f"postgres://bench@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Creates a new, empty cluster. Texts are compared by code point, as in all systems of the bench."""
        options = ("-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        fill(self.data, "postgres", lambda data: self._by("initdb", data, *options))

    def copy(self, port: int) -> None:
        """Copies a running instance as its standby. The slot retains the log for it; -R writes its configuration."""
        source = ("-h", "127.0.0.1", "-p", str(port), "-U", "bench")
        self._by("pg_basebackup", self.data, *source, "-X", "stream", "-c", "fast", "-C", "-S", "bench", "-R", "--no-sync")

    def _by(self, program: str, data: Path, *arguments: str) -> None:
        data.mkdir(mode=0o700)
        if self._user:
            shutil.chown(data, self._user, self._user)
        made = subprocess.run(
            [self._programs / program, "-D", data, *arguments],
            capture_output=True,
            text=True,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            cwd=data,
        )
        if made.returncode:
            raise RuntimeError(f"{program}: {made.stderr.strip()[-400:]}")

    def launch(self) -> float:
        """Starts the server; returns the seconds until it was ready."""
        began = time.perf_counter()
        self.server = ServerProcess(
            [
                *(str(self._programs / "postgres"), "-D", str(self.data), "-p", str(self.port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            ],
            self._directory / "server.log",
            self._user,
        )
        self.server.wait_ready(self.port)
        # The port opens before the database is ready for clients.
        while True:
            try:
                psycopg.connect(self.address).close()
                return time.perf_counter() - began
            except psycopg.OperationalError:
                if time.perf_counter() - began > 120:
                    raise RuntimeError(f"accepts no clients: {self.server.last_words()}") from None
                time.sleep(0.005)

    def version(self) -> str:
        """The version of the running server."""
        with psycopg.connect(self.address) as connection:
            return connection.execute("show server_version").fetchone()[0]

    def stop(self) -> None:
        """Stops the server with a "fast" shutdown, which does not wait for clients."""
        if self.server:
            self.server.stop(signal.SIGINT)
        self.server = None


class Postgres(Target):
    """A cluster started by the bench, never an existing one; documents as `jsonb`."""

    name = "postgres"
    baseline = "null-postgres"
    adapter = PostgresAdapter
    durability = {
        RELAXED: "synchronous_commit = off: acknowledged before fsync, WAL synced within 600 ms",
        SYNCED: "synchronous_commit = on: acknowledged after the WAL's fsync, shared by waiting commits",
    }

    def __init__(self) -> None:
        self._primary: Cluster | None = None
        self._standby: Cluster | None = None

    @classmethod
    def configured(cls, options) -> "Postgres":
        return cls()

    def start(self, directory: Path) -> None:
        self._primary = Cluster(directory, find_or_install())
        self.data = self._primary.data
        self._primary.make()
        self.restart()

    def restart(self) -> None:
        self.ready_seconds = self._primary.launch()
        self.pid = self._primary.server.pid

    def kill(self) -> None:
        self._primary.server.kill()
        self.pid = None

    def stop(self) -> None:
        for cluster in (self._standby, self._primary):
            if cluster:
                cluster.stop()
        self._standby = self._primary = self.pid = None

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, self._primary.address, durability)

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        self._standby = Cluster(directory, find_programs())
        self._standby.copy(self._primary.port)
        self._standby.launch()

    def replica_connector(self) -> Callable[[], Client]:
        return partial(self.adapter, self._standby.address, RELAXED)

    def await_replica(self, limit: float = 600.0) -> None:
        end = time.monotonic() + limit
        with psycopg.connect(self._primary.address, autocommit=True) as primary:
            # Not the written position: unsynced commits are acknowledged before they are written.
            wanted = _position(primary.execute("select pg_current_wal_insert_lsn()").fetchone()[0])
        with psycopg.connect(self._standby.address, autocommit=True) as standby:
            while _position(standby.execute("select pg_last_wal_replay_lsn()").fetchone()[0]) < wanted:
                if time.monotonic() > end:
                    raise TimeoutError(f"after {limit:.0f} s the standby is still behind")
                time.sleep(0.001)

    def describe(self) -> dict:
        with psycopg.connect(self._primary.address) as connection:
            shown = {
                name: connection.execute(f"show {name}").fetchone()[0]
                for name in ("shared_buffers", "fsync", "max_parallel_workers_per_gather", "wal_writer_delay", "lc_collate")
            }
        return {"version": self._primary.version(), "settings": ", ".join(f"{key} = {value}" for key, value in shown.items())}


class PostgresRelational(Postgres):
    """The same with one column per field."""

    name = "postgres-relational"
    baseline = "null-postgres-relational"
    adapter = RelationalAdapter


def _position(text: str | None) -> int:
    """A log position as a number. A position just behind a page header becomes the start of the page, where a reader reports to be."""
    if text is None:
        return 0
    high, low = re.fullmatch(r"([0-9A-F]+)/([0-9A-F]+)", text).groups()
    place = int(high, 16) << 32 | int(low, 16)
    return place - place % PAGE if place % PAGE <= LONGEST_PAGE_HEADER else place


def find_programs() -> Path | None:
    """The directory with the programs of the newest installed PostgreSQL."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def find_or_install() -> Path:
    """The directory with PostgreSQL's programs. Raises NotGiven if there are none and they cannot be installed."""
    return find_programs() or _install()


def _install() -> Path:
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if os.geteuid() == 0 and not settings.exists():
        # Without this setting the package would create a cluster.
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("create_main_cluster = false\n")
    debian.install("postgresql")
    if programs := find_programs():
        return programs
    raise NotGiven("the package postgresql contains no programs")
