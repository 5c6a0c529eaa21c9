"""Diwan by either face: the built program on free ports and an empty directory, or a running server by URI."""

import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pymongo.uri_parser import parse_uri

from bench import process
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.couch_client import CouchAdapter
from bench.targets.couchdb import CouchDB
from bench.targets.mongo_client import MongoAdapter
from bench.targets.server import ServerProcess


class Diwan(Target):
    """The system under test, by its MongoDB face."""

    name = "diwan"
    baseline = "null-mongo"
    durability = {
        RELAXED: "w: 1, j: false: acknowledged before fsync, synced within 100 ms",
        SYNCED: "w: 1, j: true: acknowledged after an fsync shared by waiting commits",
    }

    def __init__(self, program: Path, uri: str | None = None) -> None:
        self._program = program.absolute()
        self._given = uri
        self._uri = uri
        self._url = ""
        self._server: ServerProcess | None = None

    @classmethod
    def configured(cls, options) -> "Diwan":
        return cls(options.diwan_program, options.diwan_uri)

    def start(self, directory: Path) -> None:
        if self._given:
            self._connect_to_given()
            return
        if not self._program.is_file():
            raise NotGiven(f"{self._program.name} is not built (cargo build --release) and no --diwan-uri is given")
        self.data = directory / "data"
        port, http = process.free_port(), process.free_port()
        began = time.perf_counter()
        self._server = ServerProcess(
            [
                *(str(self._program), "serve", "--data", str(self.data)),
                *("--listen", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{http}"),
            ],
            directory / "server.log",
        )
        self._server.wait_ready(port)
        self.ready_seconds = time.perf_counter() - began
        self.pid = self._server.pid
        self._uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        self._url = f"http://127.0.0.1:{http}/"

    def _connect_to_given(self) -> None:
        client = MongoAdapter(self._given, RELAXED)
        client.reset()
        client.close()
        host, port = parse_uri(self._given)["nodelist"][0]
        self.pid = process.listener(host, port)

    def stop(self) -> None:
        if self._server:
            self._server.stop()
        self._server = None
        self.pid = None

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(MongoAdapter, self._uri, durability)

    def describe(self) -> dict:
        if self._given:
            client = MongoAdapter(self._given, RELAXED)
            try:
                return {"version": f"speaks as MongoDB {client.version()}", "settings": "as given by URI"}
            finally:
                client.close()
        told = subprocess.run([self._program, "--version"], capture_output=True, text=True, timeout=10)
        return {"version": told.stdout.strip() or "unknown", "settings": "defaults"}


class DiwanHttp(Diwan):
    """The same by its CouchDB face. A server that runs already is measured as `couchdb`, by its URL."""

    name = "diwan-http"
    baseline = CouchDB.baseline
    durability = CouchDB.durability

    @classmethod
    def configured(cls, options) -> "DiwanHttp":
        return cls(options.diwan_program)

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(CouchAdapter, self._url, durability)
