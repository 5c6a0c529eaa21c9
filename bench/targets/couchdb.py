"""Any server that speaks CouchDB's protocol, by URL."""

from urllib.parse import urlsplit

from bench.targets.base import RELAXED, SYNCED
from bench.targets.couch_client import CouchAdapter
from bench.targets.given import Given


class CouchDB(Given):
    """A CouchDB that somebody else runs."""

    name = "couchdb"
    baseline = "null-http"
    # What couchdb-python can ask of any such server.
    durability = {
        RELAXED: "batch=ok for single new documents: acknowledged before fsync; updates, deletes and _bulk_docs always synced",
        SYNCED: "acknowledged after an fsync",
    }
    option = "couchdb_url"
    adapter = CouchAdapter

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = urlsplit(address)
        return parts.hostname, parts.port or 5984
