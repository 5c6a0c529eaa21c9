"""Any server that speaks MongoDB's protocol, by URI."""

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
