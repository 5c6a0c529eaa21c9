"""SQLite with documents as JSON text: a library inside the client, so the floor that a server cannot be measured by."""

import json
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.data import Key, Query, Row, Table, plain
from bench.targets.base import RELAXED, SYNCED, Client, Target, Unsupported


def _comparison(operator: str):
    return lambda field, value: (f"json_extract(doc, {_path(field)}) {operator} ?", [plain(value)])


def _exists(field: str, _) -> tuple[str, list]:
    return f"json_type(doc, {_path(field)}) is not null", []


def _any(field: str, values: tuple) -> tuple[str, list]:
    # json_each gives one row for a string and a row an element for an array: MongoDB's meaning of equality.
    marks = ", ".join("?" * len(values))
    return f"exists (select 1 from json_each(doc, {_path(field)}) where value in ({marks}))", [*values]


TRANSLATION = {
    "equals": _comparison("="),
    "above": _comparison(">"),
    "below": _comparison("<"),
    "at least": _comparison(">="),
    "at most": _comparison("<="),
    "exists": _exists,
    "any": _any,
}


def _path(field: str) -> str:
    # In the text, not a parameter: an index on an expression serves only the same expression.
    return f"""'$."{field}"'"""


def to_condition(query: Query) -> tuple[str, list]:
    """The query as an SQL condition over `doc`, and its parameters."""
    parts = [TRANSLATION[operator](field, value) for operator, field, value in query.conditions]
    return " and ".join(part for part, _ in parts) or "true", [value for _, values in parts for value in values]


def to_select(table: str, query: Query) -> tuple[str, list]:
    """The query as a statement whose rows are id and document, or id and the wanted fields."""
    wanted = ", ".join(f"json_extract(doc, {_path(field)})" for field in query.fields) or "doc"
    condition, values = to_condition(query)
    order = f" order by json_extract(doc, {_path(query.order)})" if query.order else ""
    limit = f" limit {query.limit}" if query.limit else ""
    return f"select id, {wanted} from {table} where {condition}{order}{limit}", values


class SQLiteAdapter(Client):
    """One connection a file in autocommit and WAL mode; a database of a table's own is a file of its own."""

    dialect = "sqlite"

    def __init__(self, directory: Path, durability: str) -> None:
        self._directory = directory
        self._durability = durability
        self._connections: dict[str, sqlite3.Connection] = {}
        self._open("")

    def _open(self, database: str) -> sqlite3.Connection:
        if database not in self._connections:
            connection = sqlite3.connect(self._file(database), timeout=120, isolation_level=None)
            connection.execute("pragma journal_mode = wal")
            connection.execute(f"pragma synchronous = {'full' if self._durability == SYNCED else 'normal'}")
            self._connections[database] = connection
        return self._connections[database]

    def _file(self, database: str) -> Path:
        return self._directory / f"{database or 'bench'}.sqlite"

    def create(self, table: Table) -> None:
        connection = self._open(table.database)
        kind = {bytes: "blob", str: "text", int: "integer"}[table.key]
        connection.execute(f"drop table if exists {table.name}")
        connection.execute(f"create table {table.name} (id {kind} primary key, doc text not null) without rowid")

    def drop(self, table: Table) -> None:
        if not table.database:
            self._open("").execute(f"drop table {table.name}")
            return
        self._connections.pop(table.database).close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file(table.database)}{suffix}").unlink(missing_ok=True)

    def create_index(self, table: Table, *fields: str) -> None:
        name = f"{table.name}_{'_'.join(fields)}"
        expressions = ", ".join(f"json_extract(doc, {_path(field)})" for field in fields)
        self._open(table.database).execute(f"create index {name} on {table.name} ({expressions})")

    def insert_one(self, table: Table, row: Row) -> None:
        self._open(table.database).execute(f"insert into {table.name} values (?, ?)", self._encoded(row))

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        connection = self._open(table.database)
        connection.execute("begin immediate")
        connection.executemany(f"insert into {table.name} values (?, ?)", map(self._encoded, rows))
        connection.execute("commit")

    @staticmethod
    def _encoded(row: Row) -> tuple[Key, str]:
        return row[0], json.dumps(plain(row[1]), separators=(",", ":"))

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        statement = f"update {table.name} set doc = json_set(doc, {_path(field)}, ?) where id = ?"
        if self._open(table.database).execute(statement, (plain(value), key)).rowcount != 1:
            raise LookupError(f"no document {key!r} to update")

    def delete_one(self, table: Table, key: Key) -> None:
        if self._open(table.database).execute(f"delete from {table.name} where id = ?", (key,)).rowcount != 1:
            raise LookupError(f"no document {key!r} to delete")

    def delete_many(self, table: Table, query: Query) -> int:
        condition, values = to_condition(query)
        return self._open(table.database).execute(f"delete from {table.name} where {condition}", values).rowcount

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        found = self._open(table.database).execute(f"select doc from {table.name} where id = ?", (key,)).fetchone()
        return json.loads(found[0]) if found else None

    def count(self, table: Table, query: Query) -> int:
        condition, values = to_condition(query)
        statement = f"select count(*) from {table.name} where {condition}"
        return self._open(table.database).execute(statement, values).fetchone()[0]

    def find(self, table: Table, query: Query):
        found = self._open(table.database).execute(*to_select(table.name, query))
        if query.fields:
            yield from found
            return
        for key, document in found:
            yield key, json.loads(document)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        statement = f"select id, doc from {table.name} where id >= ? order by id limit ?"
        return sum(bool(json.loads(document)) for _, document in self._open(table.database).execute(statement, (start, limit)))

    def native(self, table: Table, statements: dict[str, object]) -> list:
        if self.dialect not in statements:
            raise Unsupported("the workload has no statement in its SQL")
        return self._open(table.database).execute(statements[self.dialect]).fetchall()

    def maintain(self, table: Table) -> str:
        self._open(table.database).execute("pragma wal_checkpoint(truncate)")
        return "wal_checkpoint(truncate)"

    def table_bytes(self, table: Table) -> int | None:
        return self._file(table.database).stat().st_size

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class SQLite(Target):
    """A file in the run's temporary directory."""

    name = "sqlite"
    kind = "in-process"
    durability = {
        RELAXED: "WAL, synchronous = normal: synced at checkpoints only",
        SYNCED: "WAL, synchronous = full: every commit fsyncs",
    }

    @classmethod
    def configured(cls, options) -> "SQLite":
        return cls()

    def start(self, directory: Path) -> None:
        self.data = directory / "data"
        self.data.mkdir()

    def stop(self) -> None:
        pass

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(SQLiteAdapter, self.data, durability)

    def describe(self) -> dict:
        return {"version": sqlite3.sqlite_version, "settings": "JSON text, without rowid, default page size and cache"}
