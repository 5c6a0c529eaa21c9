"""Couchbase, by connection string: `couchbase://user:password@host/bucket`, the bucket made by whoever runs it."""

from urllib.parse import urlsplit

from bench.targets.base import RELAXED, SYNCED, Client
from bench.targets.given import Given


def connect(address: str, durability: str) -> Client:
    """A client; its library is loaded only where there is a Couchbase to talk to."""
    from bench.targets.couchbase_client import CouchbaseAdapter

    return CouchbaseAdapter(address, durability)


class Couchbase(Given):
    """A Couchbase that somebody else runs."""

    name = "couchbase"
    durability = {
        RELAXED: "no durability requirement: acknowledged from memory, written to disk in the background",
        SYNCED: "persist to majority: acknowledged after it is on disk",
    }
    option = "couchbase_url"
    purpose = "a running one, as couchbase://user:password@host/bucket"
    adapter = staticmethod(connect)

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = urlsplit(address)
        return parts.hostname, parts.port or 11210
