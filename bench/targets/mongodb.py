"""A given server with MongoDB's protocol, by URI: MongoDB itself, or a server with another name."""

from pymongo.uri_parser import parse_uri

from bench.targets.base import RELAXED, SYNCED
from bench.targets.given import Given
from bench.targets.mongo_client import MongoAdapter


class MongoDB(Given):
    """A given MongoDB."""

    name = "mongodb"
    baseline = "null-mongo"
    durability = {
        RELAXED: "w: 1, j: false: acknowledged before fsync, journal synced within 100 ms",
        SYNCED: "w: 1, j: true: acknowledged after the journal's fsync",
    }
    option = "mongodb_uri"
    adapter = MongoAdapter

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        return parse_uri(address)["nodelist"][0]


class MongoDBLike(MongoDB):
    """Another server with this protocol. The option gives its name and URI."""

    name = "mongodb-like"
    durability = {RELAXED: "the server's meaning of w: 1, j: false", SYNCED: "the server's meaning of w: 1, j: true"}
    option = "mongodb_like"
    purpose = "NAME=URI: another running server with MongoDB's protocol, and its name in the report"

    def __init__(self, named: str | None) -> None:
        named = named or ""
        name, _, address = ("", "", named) if named.startswith("mongodb") else named.partition("=")
        super().__init__(address or None)
        self.name = name or self.name
