"""MariaDB from Debian's package, with its own data directory and Debian's default settings, with columns or with a JSON column."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mysql.connector

from bench import process
from bench.data import Table
from bench.targets import debian
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.mysql_client import MySQLAdapter, MySQLJsonAdapter, database_name
from bench.targets.server import ServerProcess, fill

SERVER = Path("/usr/sbin/mariadbd")
# The settings of Debian's configuration; the machine's own configuration is not read.
DEBIAN = ("--bind-address=127.0.0.1", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci")
USER = "bench"
MAKE_USER = f"set sql_log_bin = 0; create user if not exists {USER}@'%'; grant all on *.* to {USER}@'%' with grant option;"
FLUSH = {RELAXED: 2, SYNCED: 1}
TABLE_SECONDS = 120.0


class Instance:
    """One server: its files below a directory, its port, its process."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.data = directory / "data"
        self.server: ServerProcess | None = None
        self._directory = directory
        self._settings = settings
        # MariaDB refuses to run as root; Debian's package creates a user for it.
        self._user = "mysql" if os.geteuid() == 0 else None
        self.port = process.free_port()
        self.uri = f"mysql://{USER}@127.0.0.1:{self.port}/"

    def make(self) -> None:
        """Initializes the data directory."""
        fill(self.data, "mariadb", self._install)
        first = self._directory / "users.sql"
        first.write_text(MAKE_USER.replace("; ", ";\n") + "\n")
        first.chmod(0o644)
        # From now on the files and the socket belong to the server's user.
        self._settings += (f"--init-file={first}",)

    def _install(self, data: Path) -> None:
        data.mkdir(mode=0o700)
        if self._user:
            shutil.chown(data, self._user, self._user)
        options = [f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        users = [f"--user={self._user}"] if self._user else []
        made = subprocess.run(["mariadb-install-db", "--no-defaults", *options, *users], capture_output=True, text=True, cwd="/")
        if made.returncode:
            raise RuntimeError(f"mariadb-install-db: {(made.stdout + made.stderr).strip()[-400:]}")

    def launch(self) -> float:
        """Starts the server; returns the seconds until it was ready."""
        began = time.perf_counter()
        self.server = ServerProcess(
            [
                *(str(SERVER), "--no-defaults", f"--datadir={self.data}", f"--port={self.port}"),
                *("--skip-name-resolve", "--socket=server.sock", "--pid-file=server.pid", *DEBIAN, *self._settings),
            ],
            self._directory / "server.log",
            self._user,
        )
        self.server.wait_ready(self.port)
        while True:
            try:
                self.client().close()
                return time.perf_counter() - began
            except mysql.connector.Error as failure:
                if time.perf_counter() - began > 120:
                    raise RuntimeError(f"accepts no clients: {failure}: {self.server.last_words()}") from None
                time.sleep(0.005)

    def client(self) -> MySQLAdapter:
        """A connection."""
        return MySQLAdapter(self.uri, SYNCED)

    def set_durability(self, durability: str) -> None:
        """Sets the durability, which is a setting of the server and not of the connection."""
        client = self.client()
        client.ask(f"set global innodb_flush_log_at_trx_commit = {FLUSH[durability]}")
        client.close()

    def stop(self) -> None:
        """Ends the server."""
        if self.server:
            self.server.stop()
        self.server = None


class MariaDB(Target):
    """A server started by the bench, never an existing one; one column per field."""

    name = "mariadb"
    baseline = "null-mysql"
    adapter = MySQLAdapter
    durability = {
        RELAXED: "innodb_flush_log_at_trx_commit = 2: written at commit, synced once a second",
        SYNCED: "innodb_flush_log_at_trx_commit = 1: acknowledged after the log's fsync, shared by waiting commits",
    }

    def __init__(self) -> None:
        self._primary: Instance | None = None
        self._replica: Instance | None = None
        self._mode = SYNCED

    @classmethod
    def configured(cls, options) -> "MariaDB":
        return cls()

    def start(self, directory: Path) -> None:
        if not is_installed():
            debian.install("mariadb-server")
        if not is_installed():
            raise NotGiven("the package mariadb-server contains no programs")
        # By default there is no binary log. A replica needs it from the start.
        self._primary = Instance(directory, *(["--log-bin=changes"] if self.replicated else []))
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
        for instance in (self._replica, self._primary):
            if instance:
                instance.stop()
        self._replica = self._primary = self.pid = None

    def connector(self, durability: str) -> Callable[[], Client]:
        self._mode = durability
        self._primary.set_durability(durability)
        return partial(self.adapter, self._primary.uri, durability)

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        if not self.replicated:
            raise RuntimeError("was started without the log that a replica needs")
        self._replica = Instance(directory, "--server-id=2", "--read-only")
        self._replica.make()
        self._replica.launch()
        self._replica.set_durability(self._mode)
        client = self._replica.client()
        source = f"master_host = '127.0.0.1', master_port = {self._primary.port}, master_user = '{USER}'"
        client.ask(f"change master to {source}, master_use_gtid = slave_pos")
        client.ask("start slave")
        for table in tables:
            self._await_table(client, table)
        client.close()

    @staticmethod
    def _await_table(client: MySQLAdapter, table: Table) -> None:
        """Returns when the replica has the table, which it needs to answer a query."""
        end = time.monotonic() + TABLE_SECONDS
        there = "select count(*) from information_schema.tables where table_schema = %s and table_name = %s"
        while client.ask(there, (database_name(table), table.name)) != [(1,)]:
            if time.monotonic() > end:
                raise TimeoutError(f"the replica has no table {table.name} after {TABLE_SECONDS:.0f} s: {client.ask('show all slaves status')}"[:2000])
            time.sleep(0.005)

    def replica_connector(self) -> Callable[[], Client]:
        return partial(self.adapter, self._replica.uri, RELAXED)

    def await_replica(self, limit: float = 600.0) -> None:
        primary, replica = self._primary.client(), self._replica.client()
        try:
            reached = replica.ask("select master_gtid_wait(%s, %s)", (primary.variables("gtid_binlog_pos")["gtid_binlog_pos"], limit))
            if reached != [(0,)]:
                status = replica.ask("show all slaves status")
                raise TimeoutError(f"after {limit:.0f} s the replica is still behind: {status}"[:2000])
        finally:
            primary.close()
            replica.close()

    def describe(self) -> dict:
        client = self._primary.client()
        try:
            names = ("innodb_buffer_pool_size", "innodb_log_file_size", "log_bin", "sync_binlog", "character_set_server")
            shown = ", ".join(f"{name} = {value}" for name, value in client.variables(*names).items())
            return {"version": client.version(), "settings": f"{shown}, tables compared by code point"}
        finally:
            client.close()


class MariaDBJson(MariaDB):
    """The same with a JSON column."""

    name = "mariadb-json"
    baseline = "null-mysql-json"
    adapter = MySQLJsonAdapter


def is_installed() -> bool:
    """Whether all programs that `Instance` runs are installed."""
    return SERVER.exists() and all(map(shutil.which, ("mariadb-install-db", "my_print_defaults")))
