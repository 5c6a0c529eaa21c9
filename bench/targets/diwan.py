"""Diwan through either face: the built program on free ports and an empty directory, or a running server by URI.

Its replica is a second instance that pulls every table from the first by continuous replication, for both faces.
"""

import subprocess
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from pymongo.uri_parser import parse_uri

from bench import process
from bench.data import Table
from bench.targets import couch_client, mongo_client
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target, Unsupported
from bench.targets.couch_client import CouchAdapter
from bench.targets.couch_replication import Following
from bench.targets.couchdb import CouchDB
from bench.targets.mongo_client import MongoAdapter
from bench.targets.server import ServerProcess

READY_SECONDS = 120.0


class Instance:
    """One server process, its directory and its ports. A restart uses the same ports.

    Its documents are below the directory, or `store` says where, as the program's own options do.
    """

    def __init__(self, program: Path, directory: Path, *store: str) -> None:
        self.data = directory / "data"
        self._log = directory / "server.log"
        self._ports = process.free_port(), process.free_port()
        self.port = self._ports[0]
        self.uri = f"mongodb://127.0.0.1:{self._ports[0]}/?directConnection=true"
        self.url = f"http://127.0.0.1:{self._ports[1]}/"
        listen, http = (f"127.0.0.1:{port}" for port in self._ports)
        self._command = [str(program), "serve", *(store or ("--data", str(self.data))), "--listen", listen, "--http", http]
        self._server: ServerProcess | None = None

    def start(self) -> tuple[int, float]:
        """Starts the server; returns its pid and the seconds until it was ready."""
        began = time.perf_counter()
        self._server = ServerProcess(self._command, self._log)
        for port in self._ports:
            self._server.wait_ready(port)
        self._await_health(began + READY_SECONDS)
        return self._server.pid, time.perf_counter() - began

    def _await_health(self, end: float) -> None:
        while True:
            connection = HTTPConnection("127.0.0.1", self._ports[1], timeout=10)
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
            connection.close()
            if status == 200:
                return
            if time.perf_counter() > end:
                raise RuntimeError(f"not ready within {READY_SECONDS:.0f} s: {self._server.last_words()}")
            time.sleep(0.001)

    def kill(self) -> None:
        """Kills the server without any shutdown."""
        if self._server:
            self._server.kill()
        self._server = None

    def stop(self) -> None:
        """Stops the server; may be called twice."""
        if self._server:
            self._server.stop()
        self._server = None


def version(program: Path) -> str:
    """What the program says of itself."""
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10)
    return shown.stdout.strip() or "unknown"


class Diwan(Target):
    """Diwan through its MongoDB face."""

    name = "diwan"
    baseline = "null-mongo"
    durability = {
        RELAXED: "w: 1, j: false: acknowledged before fsync, synced within 100 ms",
        SYNCED: "w: 1, j: true: acknowledged after an fsync shared by waiting commits",
    }

    def __init__(self, program: Path, uri: str | None = None) -> None:
        self._program = program.absolute()
        self._given = uri
        self._instance: Instance | None = None
        self._replica: Instance | None = None
        self._following: Following | None = None

    @classmethod
    def configured(cls, options) -> "Diwan":
        return cls(options.diwan_program, options.diwan_uri)

    def start(self, directory: Path) -> None:
        if self._given:
            self._connect_to_given()
            return
        if not self._program.is_file():
            raise NotGiven(f"{self._program.name} is not built (cargo build --release) and no --diwan-uri is given")
        self._instance = Instance(self._program, directory)
        self.data = self._instance.data
        self.restart()

    def _connect_to_given(self) -> None:
        client = MongoAdapter(self._given, RELAXED)
        client.reset()
        client.close()
        host, port = parse_uri(self._given)["nodelist"][0]
        self.pid = process.listener(host, port)

    def stop(self) -> None:
        for instance in (self._replica, self._instance):
            if instance:
                instance.stop()
        self._instance = self._replica = self._following = self.pid = None

    def kill(self) -> None:
        self._own().kill()
        self.pid = None

    def restart(self) -> None:
        self.pid, self.ready_seconds = self._own().start()

    def _own(self) -> Instance:
        if not self._instance:
            raise Unsupported("is not a server that the bench started")
        return self._instance

    def connector(self, durability: str) -> Callable[[], Client]:
        return self._connector(self._given or self._own(), durability)

    def _connector(self, instance: Instance | str, durability: str) -> Callable[[], Client]:
        return partial(MongoAdapter, instance if isinstance(instance, str) else instance.uri, durability)

    @staticmethod
    def _database(table: Table) -> str:
        """The HTTP name of a table."""
        return f"{mongo_client.database_name(table)}/{table.name}"

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        source = self._own().url
        self._replica = Instance(self._program, directory)
        self._replica.start()
        self._following = Following(source, self._replica.url)
        for name in map(self._database, tables):
            self._following.follow(name, name)

    def replica_connector(self) -> Callable[[], Client]:
        if not self._replica:
            raise Unsupported("has no replica yet")
        return self._connector(self._replica, RELAXED)

    def await_replica(self, limit: float = 600.0) -> None:
        if not self._following:
            raise Unsupported("has no replica yet")
        self._following.wait(limit)

    def describe(self) -> dict:
        if self._given:
            client = MongoAdapter(self._given, RELAXED)
            try:
                return {"version": f"speaks as MongoDB {client.version()}", "settings": "as given by URI"}
            finally:
                client.close()
        return {"version": version(self._program), "settings": "defaults"}


class DiwanHttp(Diwan):
    """Diwan through its CouchDB face. A running server is measured as `couchdb`, by its URL."""

    name = "diwan-http"
    baseline = CouchDB.baseline
    durability = CouchDB.durability

    @classmethod
    def configured(cls, options) -> "DiwanHttp":
        return cls(options.diwan_program)

    def _connector(self, instance: Instance | str, durability: str) -> Callable[[], Client]:
        return partial(CouchAdapter, instance if isinstance(instance, str) else instance.url, durability)

    @staticmethod
    def _database(table: Table) -> str:
        return couch_client.database_name(table)
