"""Any server that speaks MongoDB's protocol, by URI. It is neither started nor stopped here; only the bench's database is touched."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pymongo.uri_parser import parse_uri

from bench import process
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.mongo_client import MongoAdapter


class MongoDB(Target):
    """A MongoDB that somebody else runs."""

    name = "mongodb"
    baseline = "null-mongo"
    durability = {
        RELAXED: "w: 1, j: false: acknowledged before fsync, journal synced within 100 ms",
        SYNCED: "w: 1, j: true: acknowledged after the journal's fsync",
    }

    def __init__(self, uri: str | None) -> None:
        self._uri = uri

    @classmethod
    def configured(cls, options) -> "MongoDB":
        return cls(options.mongodb_uri)

    def start(self, directory: Path) -> None:
        if not self._uri:
            raise NotGiven("no --mongodb-uri")
        self._reset()
        host, port = parse_uri(self._uri)["nodelist"][0]
        self.pid = process.listener(host, port)

    def stop(self) -> None:
        if self.pid is not None:
            self._reset()
            self.pid = None

    def _reset(self) -> None:
        client = MongoAdapter(self._uri, RELAXED)
        client.reset()
        client.close()

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(MongoAdapter, self._uri, durability)

    def describe(self) -> dict:
        client = MongoAdapter(self._uri, RELAXED)
        try:
            return {"version": client.version(), "settings": "as given by URI"}
        finally:
            client.close()
