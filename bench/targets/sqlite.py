"""SQLite with documents as JSON text. It is a library inside the client, so a lower bound and not a competitor of servers."""

import json
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.data import Row, Table, plain
from bench.targets.base import RELAXED, SYNCED, Client, Target
from bench.targets.sql import Layout, SqlAdapter, Statement, to_json

KEYS = {bytes: "blob", str: "text", int: "integer"}
CONNECTIONS = 64  # most files of separate databases that a client keeps open


def _path(field: str) -> str:
    # The path is part of the text and not a parameter, because an index on an expression serves only the identical expression.
    return """'$."{}"'""".format(field.replace("'", "''"))


class JsonLayout(Layout):
    """`id` and `doc`, ordered by id."""

    mark = "?"

    def create(self, table: Table) -> list[str]:
        name = self.place(table)
        columns = f"(id {KEYS[table.key]} primary key, doc text not null)"
        return [f"drop table if exists {name}", f"create table {name} {columns} without rowid"]

    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        name = self.quoted("_".join((table.name, *fields)))
        expressions = ", ".join(self.expression(table, field) for field in fields)
        return f"create index {name} on {self.place(table)} ({expressions})"

    def insert(self, table: Table) -> str:
        return f"insert into {self.place(table)} values (?, ?)"

    def row(self, table: Table, row: Row) -> list:
        return [row[0], to_json(row[1])]

    def assignment(self, table: Table, field: str, value: object) -> Statement:
        return f"doc = json_set(doc, {_path(field)}, json(?))", [to_json(value)]

    def whole(self, table: Table) -> str:
        return "doc"

    def document(self, table: Table, columns: tuple) -> dict:
        return json.loads(columns[0])

    def expression(self, table: Table, field: str) -> str:
        return f"json_extract(doc, {_path(field)})"

    def exists(self, table: Table, field: str) -> str:
        return f"json_type(doc, {_path(field)}) is not null"

    def any(self, table: Table, field: str, values: tuple) -> Statement:
        # json_each gives one row for a string and one row per element for an array. This matches MongoDB's equality.
        marks = ", ".join("?" * len(values))
        condition = f"exists (select 1 from json_each(doc, {_path(field)}) where value in ({marks}))"
        return condition, [plain(value) for value in values]

    def value(self, table: Table, field: str, value: object) -> object:
        return plain(value)


class SQLiteAdapter(SqlAdapter):
    """One connection per file, in autocommit and WAL mode. A separate database is a separate file."""

    dialect = "sqlite"
    layout = JsonLayout()

    def __init__(self, directory: Path, durability: str) -> None:
        super().__init__()
        self._directory = directory
        self._durability = durability
        self._main = self._open("")
        self._others: dict[str, sqlite3.Connection] = {}

    def _open(self, database: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file(database), timeout=120, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {'full' if self._durability == SYNCED else 'normal'}")
        return connection

    def _file(self, database: str) -> Path:
        return self._directory / f"{database or 'bench'}.sqlite"

    def _connection(self, database: str) -> sqlite3.Connection:
        """The connection for a table with its own database. If there are too many connections, the least recently used one is closed."""
        if not database:
            return self._main
        if connection := self._others.pop(database, None):
            self._others[database] = connection
            return connection
        if len(self._others) >= CONNECTIONS:
            self._others.pop(next(iter(self._others))).close()
        return self._others.setdefault(database, self._open(database))

    def _execute(self, table: Table, text: str, values: list | tuple = ()) -> sqlite3.Cursor:
        return self._connection(table.database).execute(text, values)

    def _drop_database(self, database: str) -> None:
        if connection := self._others.pop(database, None):
            connection.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file(database)}{suffix}").unlink(missing_ok=True)

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        connection = self._connection(table.database)
        connection.execute("begin immediate")
        try:
            connection.executemany(self.layout.insert(table), (self.layout.row(table, row) for row in rows))
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")

    def maintain(self, table: Table) -> str:
        self._execute(table, "pragma wal_checkpoint(truncate)").fetchall()
        return "wal_checkpoint(truncate)"

    def table_bytes(self, table: Table) -> int | None:
        return self._file(table.database).stat().st_size

    def close(self) -> None:
        for connection in (self._main, *self._others.values()):
            connection.close()
        self._others.clear()


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
