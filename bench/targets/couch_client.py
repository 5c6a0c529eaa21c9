"""A client for every system with CouchDB's protocol. It uses couchdb-python, like the thesis.

The table decides how a search is sent. A table without indexes is searched with temporary views, as in the published experiments. CouchDB
removed these in 2.0; for a server that refuses them the client uses `_find`, as CouchDB's documentation recommends. A table with an index, and
a query with fields, an order or a limit, always uses `_find`.
"""

import json
import time
from collections.abc import Iterator
from hashlib import sha256

import couchdb
from couchdb.http import ResourceConflict, ResourceNotFound, ServerError

from bench.data import ALL, Key, Query, Row, Table, plain
from bench.targets.base import RELAXED, Client, Unsupported

PREFIX = "bench_"
COMPACTION_SECONDS = 600
# Without a limit `_find` returns 25 documents.
EVERY = 1_000_000_000
FIRST_NUMBER = 1_000_000_000
REFUSALS_OF_VIEWS = (404, 405, 410, 501)

CONDITIONS = {
    "equals": "doc[{field}] === {value}",
    "above": "doc[{field}] > {value}",
    "below": "doc[{field}] < {value}",
    "at least": "doc[{field}] >= {value}",
    "at most": "doc[{field}] <= {value}",
    "exists": "doc[{field}] !== undefined",
    "any": "[].concat(doc[{field}]).some(function (one) {{ return {value}.indexOf(one) >= 0; }})",
}
SELECTORS = {
    "equals": lambda value: {"$eq": value},
    "above": lambda value: {"$gt": value},
    "below": lambda value: {"$lt": value},
    "at least": lambda value: {"$gte": value},
    "at most": lambda value: {"$lte": value},
    "exists": lambda _: {"$exists": True},
    "any": lambda values: {"$in": list(values)},
}


def to_map(query: Query, value: str = "doc") -> str:
    """The query as the map function of a temporary view, which emits the id and `value`."""
    parts = [
        CONDITIONS[operator].format(field=json.dumps(field), value=json.dumps(plain(operand)))
        for operator, field, operand in query.conditions
    ]
    return f"function (doc) {{ if ({' && '.join(parts)}) emit(doc._id, {value}); }}"


def to_mango(query: Query, fields: tuple[str, ...] = ()) -> dict:
    """The query as a `_find` body; `fields`, if given, replace the fields of the query."""
    selector: dict = {}
    for operator, field, operand in query.conditions:
        selector.setdefault(field, {}).update(SELECTORS[operator](plain(operand)))
    asked = {"selector": selector or {"_id": {"$gt": None}}, "limit": query.limit or EVERY}
    if wanted := fields or query.fields:
        asked["fields"] = list(wanted)
    if query.order:
        asked["sort"] = [{query.order: "asc"}]
    return asked


def to_id(key: Key) -> str:
    """An id as stored: a text. Numbers get a fixed width and no sign, so that they sort as numbers."""
    return key.hex() if isinstance(key, bytes) else f"{key + FIRST_NUMBER:010d}" if isinstance(key, int) else key


def database_name(table: Table) -> str:
    """The database name of a table. A slash separates database and table for servers that have both."""
    return f"{PREFIX}{table.database}/{table.name}" if table.database else PREFIX + table.name


def to_document(row: Row) -> dict:
    """A row as a CouchDB document."""
    return {"_id": to_id(row[0]), **plain(row[1])}


class CouchAdapter(Client):
    """One persistent connection. Tables are databases. Dates are texts, because JSON has no dates."""

    dialect = "couchdb"

    def __init__(self, url: str, durability: str) -> None:
        self._server = couchdb.Server(url)
        self._server.version()
        self._databases: dict[Table, couchdb.Database] = {}
        self._indexed: dict[Table, bool] = {}
        self._views_refused = False
        # Only single new documents can be acknowledged before they are on disk: the acknowledgement of an update must report conflicts.
        self._options = {"batch": "ok"} if durability == RELAXED else {}

    def _table(self, table: Table) -> couchdb.Database:
        if table not in self._databases:
            name = database_name(table)
            self._databases[table] = couchdb.Database(self._server.resource(name), name)
        return self._databases[table]

    def create(self, table: Table) -> None:
        self._forget(table)
        try:
            self._server.delete(database_name(table))
        except ResourceNotFound:
            pass
        self._server.create(database_name(table))

    def drop(self, table: Table) -> None:
        self._forget(table)
        self._server.delete(database_name(table))

    def _forget(self, table: Table) -> None:
        self._databases.pop(table, None)
        self._indexed.pop(table, None)

    def create_index(self, table: Table, *fields: str) -> None:
        resource = self._table(table).resource
        _, _, made = resource.post_json("_index", body={"index": {"fields": list(fields)}, "type": "json"})
        self._indexed[table] = True
        # An index is complete after the first query that uses it.
        first = {"selector": {field: {"$gt": None} for field in fields}, "use_index": [made["id"], made["name"]], "limit": 1}
        resource.post_json("_find", body=first)

    def insert_one(self, table: Table, row: Row) -> None:
        self._table(table).resource.post_json(body=to_document(row), **self._options)

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        self._write(table, [to_document(row) for row in rows])

    def _write(self, table: Table, documents: list[dict]) -> None:
        for succeeded, _, refusal in self._table(table).update(documents):
            if not succeeded:
                raise refusal

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        database = self._table(table)
        while True:
            document = database[to_id(key)]
            document[field] = plain(value)
            try:
                database.save(document)
                return
            except ResourceConflict:
                continue  # another client was faster; one of the concurrent clients always succeeds

    def delete_one(self, table: Table, key: Key) -> None:
        del self._table(table)[to_id(key)]  # HEAD for the revision, then DELETE

    def delete_many(self, table: Table, query: Query) -> int:
        if query == ALL:
            rows = self._documents(table, {})
            revisions = [(row["id"], row["value"]["rev"]) for row in rows]
        else:
            found = self._find(table, to_mango(query, ("_id", "_rev")))
            revisions = [(document["_id"], document["_rev"]) for document in found]
        self._write(table, [{"_id": id, "_rev": revision, "_deleted": True} for id, revision in revisions])
        return len(revisions)

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        document = self._table(table).get(to_id(key))
        if document is not None:
            del document["_id"], document["_rev"]
        return document

    def _documents(self, table: Table, options: dict) -> list[dict]:
        """The rows of `_all_docs` without design documents, which contain the indexes."""
        _, _, found = self._table(table).resource.get_json("_all_docs", **options)
        return [row for row in found["rows"] if not row["id"].startswith("_design/")]

    def _find(self, table: Table, asked: dict) -> list[dict]:
        try:
            return self._table(table).resource.post_json("_find", body=asked)[2]["docs"]
        except ServerError as refusal:
            if "no_usable_index" in str(refusal):
                raise Unsupported("sorts only by an index") from refusal
            raise

    def _has_index(self, table: Table) -> bool:
        if table not in self._indexed:
            _, _, listed = self._table(table).resource.get_json("_index")
            self._indexed[table] = any(index["type"] == "json" for index in listed["indexes"])
        return self._indexed[table]

    def _view(self, table: Table, query: Query, value: str, reduction: str | None = None) -> list | None:
        """The rows of a temporary view; None if the query or the server requires `_find`."""
        plainly = query.conditions and not (query.fields or query.order or query.limit)
        if not plainly or self._views_refused or self._has_index(table):
            return None
        try:
            return self._table(table).query(to_map(query, value), reduction).rows
        except ResourceNotFound:
            self._views_refused = True
        except ServerError as refusal:
            if refusal.args[0][0] not in REFUSALS_OF_VIEWS:
                raise
            self._views_refused = True
        return None

    def count(self, table: Table, query: Query) -> int:
        """Counts with a view's reduction, with the database's own count, or by the ids that `_find` returns, because `_find` cannot count."""
        if query == ALL:
            # CouchDB's count includes design documents.
            bounds = {"startkey": '"_design/"', "endkey": '"_design0"'}
            _, _, own = self._table(table).resource.get_json("_all_docs", **bounds)
            return self._table(table).info()["doc_count"] - len(own["rows"])
        rows = self._view(table, query, "null", "_count")
        if rows is None:
            return len(self._find(table, to_mango(query, ("_id",))))
        return rows[0].value if rows else 0

    def find(self, table: Table, query: Query) -> Iterator[object]:
        if query == ALL:
            return (row["doc"] for row in self._documents(table, {"include_docs": "true"}))
        rows = self._view(table, query, "doc")
        return iter(self._find(table, to_mango(query)) if rows is None else rows)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        options = {"startkey": json.dumps(to_id(start)), "limit": str(limit), "include_docs": "true"}
        return len(self._documents(table, options))

    def native(self, table: Table, statements: dict[str, object]) -> list:
        """Queries a view. The statement contains `map`, optionally `reduce`, and `options` for the view's URL. It is stored as a design document."""
        if self.dialect not in statements:
            raise Unsupported("the workload has no view")
        view = dict(statements[self.dialect])
        options = view.pop("options", {})
        name = sha256(json.dumps(view, sort_keys=True).encode()).hexdigest()[:16]
        database = self._table(table)
        try:
            return database.view(f"{name}/all", **options).rows
        except ResourceNotFound:
            database.save({"_id": f"_design/{name}", "language": "javascript", "views": {"all": view}})
            return database.view(f"{name}/all", **options).rows

    def maintain(self, table: Table) -> str:
        database = self._table(table)
        database.commit()
        database.compact()
        end = time.monotonic() + COMPACTION_SECONDS
        while database.info()["compact_running"] and time.monotonic() < end:
            time.sleep(0.1)
        return "compact"

    def table_bytes(self, table: Table) -> int | None:
        return self._table(table).info().get("sizes", {}).get("file")

    def version(self) -> str:
        """The server's name and version."""
        greeting = self._server.resource.get_json()[2]
        return f"{greeting.get('vendor', {}).get('name', 'CouchDB')}, interface {greeting['version']}"

    def reset(self) -> None:
        """Deletes the bench's databases on a server that continues after the run."""
        for name in list(self._server):
            if name.startswith(PREFIX):
                self._server.delete(name)

    def close(self) -> None:
        self._databases.clear()
