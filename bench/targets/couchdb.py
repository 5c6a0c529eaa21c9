"""A given server with CouchDB's protocol, by URL, and optionally a second one as its replica."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.data import Table
from bench.targets.base import RELAXED, SYNCED, Client, Unsupported
from bench.targets.couch_client import CouchAdapter, database_name
from bench.targets.couch_replication import Following
from bench.targets.given import Given


class CouchDB(Given):
    """A given CouchDB."""

    name = "couchdb"
    baseline = "null-http"
    # The durability that couchdb-python can request from any such server.
    durability = {
        RELAXED: "batch=ok for single new documents: acknowledged before fsync; updates, deletes and _bulk_docs always synced",
        SYNCED: "acknowledged after an fsync",
    }
    option = "couchdb_url"
    further = {"couchdb_replica_url": "a second running CouchDB, which will replicate from the first and must reach it by its URL"}
    adapter = CouchAdapter

    def __init__(self, address: str | None, replica: str | None = None) -> None:
        super().__init__(address)
        self._replica = replica
        self._following: Following | None = None

    @classmethod
    def configured(cls, options) -> "CouchDB":
        return cls(options.couchdb_url, options.couchdb_replica_url)

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = urlsplit(address)
        return parts.hostname, parts.port or 5984

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        self._reset(self._second())
        self._following = Following(self._address, self._second())
        for table in tables:
            self._following.follow(database_name(table))

    def _second(self) -> str:
        if not self._replica:
            raise Unsupported("no --couchdb-replica-url")
        return self._replica

    def replica_connector(self) -> Callable[[], Client]:
        return partial(self.adapter, self._second(), RELAXED)

    def await_replica(self, limit: float = 600.0) -> None:
        if not self._following:
            raise Unsupported("has no replica yet")
        self._following.wait(limit)

    def stop(self) -> None:
        if self._following:
            self._following.end()
            self._reset(self._second())
        self._following = None
        super().stop()
