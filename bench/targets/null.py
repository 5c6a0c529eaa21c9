"""Null servers, which do nothing. The same client loop with them measures the cost of the client."""

import atexit
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.process import free_port
from bench.targets.base import RELAXED, SYNCED, Client, Target
from bench.targets.couch_client import CouchAdapter
from bench.targets.mongo_client import MongoAdapter
from bench.targets.postgres import PostgresAdapter
from bench.targets.server import ServerProcess

ROOT = Path(__file__).resolve().parents[2]


class Null(Target):
    """A subclass defines the server's protocol and the client class."""

    kind = "null"
    module = "bench.nullserver"
    protocol: str
    durability = dict.fromkeys((RELAXED, SYNCED), "keeps nothing")

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self.port = 0

    @classmethod
    def configured(cls, options) -> "Null":
        return cls()

    def start(self, directory: Path) -> None:
        """Starts the server once per run. It stores nothing, so data sets cannot affect each other."""
        if self._server and self._server.running:
            return
        self.port = free_port()
        start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {self.module} import main; main()"
        command = [sys.executable, "-c", start, self.protocol, str(self.port)]
        self._server = ServerProcess(command, directory / "server.log")
        atexit.register(self._server.stop)
        self._server.wait_ready(self.port)
        self.pid = self._server.pid

    def stop(self) -> None:
        """Does nothing: the server runs until the end of the run."""

    def describe(self) -> dict:
        return {"version": self.protocol, "settings": "answers every request in the same way"}


class NullMongo(Null):
    """What pymongo costs."""

    name = "null-mongo"
    protocol = "mongo"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(MongoAdapter, f"mongodb://127.0.0.1:{self.port}/?directConnection=true", durability)


class NullHttp(Null):
    """The cost of couchdb-python."""

    name = "null-http"
    protocol = "http"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(CouchAdapter, f"http://127.0.0.1:{self.port}/", durability)


class NullPostgres(Null):
    """What psycopg costs."""

    name = "null-postgres"
    protocol = "postgres"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(PostgresAdapter, f"host=127.0.0.1 port={self.port} user=bench dbname=bench sslmode=disable", durability)
