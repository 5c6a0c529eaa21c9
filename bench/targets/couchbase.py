"""Couchbase, by connection string: `couchbase://user:password@host/bucket`, which must have the bucket."""

from urllib.parse import urlsplit

from bench.targets.base import RELAXED, SYNCED, Client
from bench.targets.given import Given


def connect(address: str, durability: str) -> Client:
    """A client. Its library is loaded only if a Couchbase is given."""
    from bench.targets.couchbase_client import CouchbaseAdapter

    return CouchbaseAdapter(address, durability)


class Couchbase(Given):
    """A given Couchbase."""

    name = "couchbase"
    durability = {
        RELAXED: "no durability requirement: acknowledged from memory, written to disk in the background",
        SYNCED: "persist to majority: acknowledged after it is on disk",
    }
    option = "couchbase_url"
    purpose = "a running Couchbase: couchbase://user:password@host/bucket"
    adapter = staticmethod(connect)

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = urlsplit(address)
        return parts.hostname, parts.port or 11210
