"""A client for every system that speaks CouchDB's protocol, by couchdb-python, which the thesis used."""

import json
import time
from collections.abc import Iterator

import couchdb
from couchdb.http import ResourceNotFound

from bench.targets.base import RELAXED, Client, Row

PREFIX = "bench_"
COMPACTION_SECONDS = 600

CONDITIONS = {
    "above": "doc[{field}] > {value}",
    "below": "doc[{field}] < {value}",
    "exists": "doc[{field}]",
    "any": "[].concat(doc[{field}]).some(function (one) {{ return {value}.indexOf(one) >= 0; }})",
}


def to_map(query, value: str = "doc") -> str:
    """The query as the map function of a temporary view; `value` is what it emits beside the id."""
    parts = [
        CONDITIONS[operator].format(field=json.dumps(field), value=json.dumps(operand))
        for operator, field, operand in query.conditions
    ]
    return f"function (doc) {{ if ({' && '.join(parts)}) emit(doc._id, {value}); }}"


class CouchAdapter(Client):
    """One connection that is kept alive. Tables are databases."""

    def __init__(self, url: str, durability: str) -> None:
        self._server = couchdb.Server(url)
        self._server.version()
        self._databases: dict[str, couchdb.Database] = {}
        # Only single documents can be acknowledged before they are on disk.
        self._options = {"batch": "ok"} if durability == RELAXED else {}

    def _table(self, table: str) -> couchdb.Database:
        if table not in self._databases:
            self._databases[table] = couchdb.Database(self._server.resource(PREFIX + table), PREFIX + table)
        return self._databases[table]

    def create(self, table: str) -> None:
        name = PREFIX + table
        try:
            self._server.delete(name)
        except ResourceNotFound:
            pass
        self._server.create(name)

    def insert_one(self, table: str, row: Row) -> None:
        self._table(table).resource.post_json(body={"_id": row[0].hex(), **row[1]}, **self._options)

    def insert_many(self, table: str, rows: list[Row]) -> None:
        outcomes = self._table(table).update([{"_id": key.hex(), **document} for key, document in rows])
        for succeeded, _, refusal in outcomes:
            if not succeeded:
                raise refusal

    def find_by_id(self, table: str, key: bytes) -> dict | None:
        document = self._table(table).get(key.hex())
        if document is not None:
            del document["_id"], document["_rev"]
        return document

    def count(self, table: str, query) -> int:
        rows = list(self._table(table).query(to_map(query, "null"), "_count"))
        return rows[0].value if rows else 0

    def find(self, table: str, query) -> Iterator[object]:
        return iter(self._table(table).query(to_map(query)))

    def maintain(self, table: str) -> str:
        database = self._table(table)
        database.commit()
        database.compact()
        end = time.monotonic() + COMPACTION_SECONDS
        while database.info()["compact_running"] and time.monotonic() < end:
            time.sleep(0.1)
        return "compact"

    def table_bytes(self, table: str) -> int | None:
        return self._table(table).info()["sizes"]["file"]

    def version(self) -> str:
        """What the server calls itself."""
        told = self._server.resource.get_json()[2]
        return f"{told.get('vendor', {}).get('name', 'CouchDB')}, interface {told['version']}"

    def reset(self) -> None:
        """Deletes the bench's databases, for a server that outlives the run."""
        for name in list(self._server):
            if name.startswith(PREFIX):
                self._server.delete(name)

    def close(self) -> None:
        self._databases.clear()
