"""SQLite with documents as JSON text: a library inside the client, so the floor that a server cannot be measured by."""

import json
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.targets.base import RELAXED, SYNCED, Client, Row, Target


def _exists(field: str, _) -> tuple[str, list]:
    return "json_type(doc, ?) is not null", [_path(field)]


def _any(field: str, values: tuple) -> tuple[str, list]:
    # json_each gives one row for a string and a row an element for an array: MongoDB's meaning of equality.
    marks = ", ".join("?" * len(values))
    return f"exists (select 1 from json_each(doc, ?) where value in ({marks}))", [_path(field), *values]


TRANSLATION = {
    "above": lambda field, value: ("json_extract(doc, ?) > ?", [_path(field), value]),
    "below": lambda field, value: ("json_extract(doc, ?) < ?", [_path(field), value]),
    "exists": _exists,
    "any": _any,
}


def _path(field: str) -> str:
    return f'$."{field}"'


def to_condition(query) -> tuple[str, list]:
    """The query as an SQL condition over `doc`, and its parameters."""
    parts = [TRANSLATION[operator](field, value) for operator, field, value in query.conditions]
    return " and ".join(part for part, _ in parts), [value for _, values in parts for value in values]


class SQLiteAdapter(Client):
    """One connection in autocommit and WAL mode."""

    def __init__(self, file: Path, durability: str) -> None:
        self._connection = sqlite3.connect(file, timeout=120, isolation_level=None)
        self._file = file
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(f"pragma synchronous = {'full' if durability == SYNCED else 'normal'}")

    def create(self, table: str) -> None:
        self._connection.execute(f"drop table if exists {table}")
        self._connection.execute(f"create table {table} (id blob primary key, doc text not null) without rowid")

    def insert_one(self, table: str, row: Row) -> None:
        self._connection.execute(f"insert into {table} values (?, ?)", self._encoded(row))

    def insert_many(self, table: str, rows: list[Row]) -> None:
        self._connection.execute("begin immediate")
        self._connection.executemany(f"insert into {table} values (?, ?)", map(self._encoded, rows))
        self._connection.execute("commit")

    @staticmethod
    def _encoded(row: Row) -> tuple[bytes, str]:
        return row[0], json.dumps(row[1], separators=(",", ":"))

    def find_by_id(self, table: str, key: bytes) -> dict | None:
        found = self._connection.execute(f"select doc from {table} where id = ?", (key,)).fetchone()
        return json.loads(found[0]) if found else None

    def count(self, table: str, query) -> int:
        condition, values = to_condition(query)
        return self._connection.execute(f"select count(*) from {table} where {condition}", values).fetchone()[0]

    def find(self, table: str, query):
        condition, values = to_condition(query)
        for key, document in self._connection.execute(f"select id, doc from {table} where {condition}", values):
            yield key, json.loads(document)

    def maintain(self, table: str) -> str:
        self._connection.execute("pragma wal_checkpoint(truncate)")
        return "wal_checkpoint(truncate)"

    def table_bytes(self, table: str) -> int | None:
        return self._file.stat().st_size

    def close(self) -> None:
        self._connection.close()


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
        return partial(SQLiteAdapter, self.data / "bench.sqlite", durability)

    def describe(self) -> dict:
        return {"version": sqlite3.sqlite_version, "settings": "JSON text, without rowid, default page size and cache"}
