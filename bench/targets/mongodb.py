"""Any server that speaks MongoDB's protocol, by URI: MongoDB itself, and one of any other name."""

from pymongo.uri_parser import parse_uri

from bench.targets.base import RELAXED, SYNCED
from bench.targets.given import Given
from bench.targets.mongo_client import MongoAdapter


class MongoDB(Given):
    """A MongoDB that somebody else runs."""

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
    """Another server of that protocol, shown by the name that is given with its URI."""

    name = "mongodb-like"
    durability = {RELAXED: "what w: 1, j: false means there", SYNCED: "what w: 1, j: true means there"}
    option = "mongodb_like"
    purpose = "NAME=URI: any other running server of MongoDB's protocol, shown by that name"

    def __init__(self, named: str | None) -> None:
        named = named or ""
        name, _, address = ("", "", named) if named.startswith("mongodb") else named.partition("=")
        super().__init__(address or None)
        self.name = name or self.name
