"""Any server that speaks CouchDB's protocol, by URL. It is neither started nor stopped here; only the bench's databases are touched."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench import process
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.couch_client import CouchAdapter

# What couchdb-python can ask of any such server.
DURABILITY = {
    RELAXED: "batch=ok for single documents: acknowledged before fsync; _bulk_docs always synced",
    SYNCED: "acknowledged after an fsync",
}


class CouchDB(Target):
    """A CouchDB that somebody else runs."""

    name = "couchdb"
    baseline = "null-http"
    durability = DURABILITY

    def __init__(self, url: str | None) -> None:
        self._url = url

    @classmethod
    def configured(cls, options) -> "CouchDB":
        return cls(options.couchdb_url)

    def start(self, directory: Path) -> None:
        if not self._url:
            raise NotGiven("no --couchdb-url")
        self._reset()
        address = urlsplit(self._url)
        self.pid = process.listener(address.hostname, address.port or 5984)

    def stop(self) -> None:
        if self.pid is not None:
            self._reset()
            self.pid = None

    def _reset(self) -> None:
        client = CouchAdapter(self._url, RELAXED)
        client.reset()
        client.close()

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(CouchAdapter, self._url, durability)

    def describe(self) -> dict:
        client = CouchAdapter(self._url, RELAXED)
        try:
            return {"version": client.version(), "settings": "as given by URL"}
        finally:
            client.close()
