"""A client of Couchbase by its Python SDK: single documents by the key-value service, searches by SQL++.

A table is a collection in the bench's scope, so that all of them can be found again. A table with its own database uses another scope.
"""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import unquote, urlsplit

from couchbase import subdocument
from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.collection import Collection
from couchbase.durability import Durability, ServerDurability
from couchbase.exceptions import CollectionNotFoundException, DocumentNotFoundException, KeyspaceNotFoundException
from couchbase.exceptions import ScopeAlreadyExistsException, ScopeNotFoundException
from couchbase.n1ql import QueryScanConsistency
from couchbase.options import ClusterOptions, InsertMultiOptions, InsertOptions, MutateInOptions, QueryOptions, RemoveOptions
from couchbase.result import QueryResult
from couchbase.scope import Scope

from bench.data import Key, Query, Row, Table, plain
from bench.targets.base import SYNCED, Client, Unsupported
from bench.targets.couch_client import to_id

SCOPE = "bench"
BUCKET = "bench"
KNOWN_SECONDS = 30.0

TRANSLATION = {
    "equals": "doc.{field} = {value}",
    "above": "doc.{field} > {value}",
    "below": "doc.{field} < {value}",
    "at least": "doc.{field} >= {value}",
    "at most": "doc.{field} <= {value}",
    "exists": "doc.{field} is not missing",
    "any": "(doc.{field} in {value} or any one in doc.{field} satisfies one in {value} end)",
}


def quoted(name: str) -> str:
    """A name quoted for SQL++."""
    return f"`{name}`"


def to_condition(query: Query) -> tuple[str, dict]:
    """The query as an SQL++ condition over `doc`, and its named parameters."""
    parts, values = [], {}
    for number, (operator, field, operand) in enumerate(query.conditions):
        parts.append(TRANSLATION[operator].format(field=quoted(field), value=f"$v{number}"))
        if operator != "exists":
            values[f"v{number}"] = plain(list(operand) if isinstance(operand, tuple) else operand)
    return " and ".join(parts) or "true", values


def to_select(table: Table, query: Query) -> tuple[str, dict]:
    """The query as a statement, and its named parameters."""
    wanted = ", ".join(f"doc.{quoted(field)}" for field in query.fields) or "doc.*"
    condition, values = to_condition(query)
    order = f" order by doc.{quoted(query.order)}" if query.order else ""
    limit = f" limit {query.limit}" if query.limit else ""
    return f"select meta(doc).id, {wanted} from {quoted(table.name)} as doc where {condition}{order}{limit}", values


def scope_name(table: Table) -> str:
    """The scope of a table."""
    return f"{SCOPE}_{table.database}" if table.database else SCOPE


class CouchbaseAdapter(Client):
    """One cluster connection. Dates are texts, because JSON has no dates."""

    dialect = "sql++"

    def __init__(self, address: str, durability: str) -> None:
        parts = urlsplit(address)
        host = parts.hostname + (f":{parts.port}" if parts.port else "")
        user, password = (unquote(text or "") for text in (parts.username, parts.password))
        self._cluster = Cluster(f"{parts.scheme}://{host}", ClusterOptions(PasswordAuthenticator(user, password)))
        self._cluster.wait_until_ready(timedelta(seconds=10))
        self._bucket = self._cluster.bucket(parts.path.strip("/") or BUCKET)
        self._durability = {"durability": ServerDurability(Durability.PERSIST_TO_MAJORITY)} if durability == SYNCED else {}
        self._collections: dict[Table, Collection] = {}
        self._searchable: set[Table] = set()

    def _scope(self, table: Table) -> Scope:
        return self._bucket.scope(scope_name(table))

    def _collection(self, table: Table) -> Collection:
        if table not in self._collections:
            self._collections[table] = self._scope(table).collection(table.name)
        return self._collections[table]

    def create(self, table: Table) -> None:
        manager = self._bucket.collections()
        try:
            manager.create_scope(scope_name(table))
        except ScopeAlreadyExistsException:
            pass
        try:
            manager.drop_collection(scope_name(table), table.name)
        except CollectionNotFoundException:
            pass
        self._searchable.discard(table)
        manager.create_collection(scope_name(table), table.name)
        # The collection becomes visible to all services after a short time.
        self._until_known(lambda: self.find_by_id(table, "absent"))

    @staticmethod
    def _until_known(ask: Callable[[], object]) -> None:
        end = time.monotonic() + KNOWN_SECONDS
        while True:
            try:
                ask()
                return
            except (CollectionNotFoundException, KeyspaceNotFoundException, ScopeNotFoundException):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def drop(self, table: Table) -> None:
        manager = self._bucket.collections()
        if table.database:
            manager.drop_scope(scope_name(table))
        else:
            manager.drop_collection(scope_name(table), table.name)
        self._collections.pop(table, None)
        self._searchable.discard(table)

    def _query(self, table: Table, statement: str, values: dict, **options) -> QueryResult:
        asked = QueryOptions(named_parameters=values, scan_consistency=QueryScanConsistency.REQUEST_PLUS, adhoc=False, **options)
        return self._scope(table).query(statement, asked)

    def _search(self, table: Table, statement: str, values: dict, **options) -> QueryResult:
        """Runs a statement on a table. SQL++ requires a primary index to scan it."""
        if table not in self._searchable:
            self._index(table, f"create primary index if not exists on {quoted(table.name)}")
            self._searchable.add(table)
        return self._query(table, statement, values, **options)

    def _index(self, table: Table, statement: str) -> None:
        self._until_known(lambda: self._scope(table).query(statement).execute())

    def create_index(self, table: Table, *fields: str) -> None:
        columns = ", ".join(map(quoted, fields))
        self._index(table, f"create index {quoted('by_' + '_'.join(fields))} on {quoted(table.name)}({columns})")

    def insert_one(self, table: Table, row: Row) -> None:
        self._collection(table).insert(to_id(row[0]), plain(row[1]), InsertOptions(**self._durability))

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        """Inserts with one call, which sends one request per document without waiting for the previous one."""
        documents = {to_id(key): plain(document) for key, document in rows}
        self._collection(table).insert_multi(documents, InsertMultiOptions(return_exceptions=False, **self._durability))

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        change = [subdocument.upsert(field, plain(value))]
        self._collection(table).mutate_in(to_id(key), change, MutateInOptions(**self._durability))

    def delete_one(self, table: Table, key: Key) -> None:
        self._collection(table).remove(to_id(key), RemoveOptions(**self._durability))

    def delete_many(self, table: Table, query: Query) -> int:
        condition, values = to_condition(query)
        result = self._search(table, f"delete from {quoted(table.name)} as doc where {condition}", values, metrics=True)
        result.execute()
        return result.metadata().metrics().mutation_count()

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        try:
            return self._collection(table).get(to_id(key)).content_as[dict]
        except DocumentNotFoundException:
            return None

    def count(self, table: Table, query: Query) -> int:
        condition, values = to_condition(query)
        (found,) = self._search(table, f"select raw count(*) from {quoted(table.name)} as doc where {condition}", values).execute()
        return found

    def find(self, table: Table, query: Query) -> Iterator[object]:
        return iter(self._search(table, *to_select(table, query)).rows())

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        statement = (
            f"select meta(doc).id, doc.* from {quoted(table.name)} as doc "
            f"where meta(doc).id >= $start order by meta(doc).id limit {limit}"
        )
        return len(self._search(table, statement, {"start": to_id(start)}).execute())

    def native(self, table: Table, statements: dict[str, object]) -> list:
        if self.dialect not in statements:
            raise Unsupported("the workload has no SQL++ statement")
        return self._search(table, statements[self.dialect], {}).execute()

    def maintain(self, table: Table) -> str:
        return "none: it compacts automatically"

    def table_bytes(self, table: Table) -> int | None:
        return None

    def version(self) -> str:
        """The name and version of the servers."""
        return self._cluster.cluster_info().server_version

    def reset(self) -> None:
        """Drops the bench's scopes on a server that continues after the run."""
        manager = self._bucket.collections()
        for scope in manager.get_all_scopes():
            if scope.name == SCOPE or scope.name.startswith(SCOPE + "_"):
                manager.drop_scope(scope.name)

    def close(self) -> None:
        self._cluster.close()
