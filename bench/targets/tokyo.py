"""Tokyo Cabinet inside the client: its hash and B+ tree with documents as JSON text, and its table database with columns and queries.

It is a library and therefore a lower bound: there is no server, and only one process at a time has a file open.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from bench.data import Key, Query, Row, Table
from bench.targets import debian, tokyo_library
from bench.targets.base import RELAXED, SYNCED, Client, Target, Unsupported
from bench.targets.texts import ONLY_KEYS, found, from_key, to_json, to_key
from bench.targets.tokyo_library import HASH, SETTINGS, TABLE, TREE, Database
from bench.targets.tokyo_query import from_columns, to_columns, to_conditions, to_index, to_order

ENDINGS = {HASH: "tch", TREE: "tcb", TABLE: "tct"}


class TokyoAdapter(Client):
    """One file per table. If writes are synced, each write is a transaction."""

    def __init__(self, kind: str, directory: Path, durability: str) -> None:
        self._kind = kind
        self._directory = directory
        self._synced = durability == SYNCED
        self._open: dict[Table, Database] = {}

    def _path(self, table: Table) -> Path:
        return self._directory / f"{table.database}{'.' if table.database else ''}{table.name}.{ENDINGS[self._kind]}"

    def _database(self, table: Table) -> Database:
        if table not in self._open:
            self._open[table] = Database(self._kind, self._path(table), self._synced)
        return self._open[table]

    def _encoded(self, table: Table, document: dict) -> bytes:
        return to_json(document)

    def _decoded(self, table: Table, value: bytes) -> dict:
        return json.loads(value)

    def create(self, table: Table) -> None:
        self.drop(table)
        self._database(table)

    def drop(self, table: Table) -> None:
        if table in self._open:
            self._open.pop(table).close()
        path = self._path(table)
        for file in (path, *path.parent.glob(f"{path.name}.*")):
            file.unlink(missing_ok=True)

    def create_index(self, table: Table, *fields: str) -> None:
        raise Unsupported(ONLY_KEYS)

    def insert_one(self, table: Table, row: Row) -> None:
        database = self._database(table)
        with database.transaction():
            database.add(to_key(row[0]), self._encoded(table, row[1]))

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        database = self._database(table)
        with database.transaction():
            for key, document in rows:
                database.add(to_key(key), self._encoded(table, document))

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        database = self._database(table)
        with database.transaction():
            document = self.find_by_id(table, key)
            if document is None:
                raise LookupError(f"no document {key!r} to update")
            database.put(to_key(key), self._encoded(table, {**document, field: value}))

    def delete_one(self, table: Table, key: Key) -> None:
        database = self._database(table)
        with database.transaction():
            database.delete(to_key(key))

    def delete_many(self, table: Table, query: Query) -> int:
        raise Unsupported(ONLY_KEYS)

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        value = self._database(table).get(to_key(key))
        return None if value is None else self._decoded(table, value)

    def count(self, table: Table, query: Query) -> int:
        if query.conditions:
            raise Unsupported(ONLY_KEYS)
        return self._database(table).size()

    def find(self, table: Table, query: Query) -> Iterator[object]:
        if query.conditions or query.order:
            raise Unsupported(ONLY_KEYS)
        return islice(self._all(table, query.fields), query.limit)

    def _all(self, table: Table, fields: tuple[str, ...]) -> Iterator[dict]:
        database = self._database(table)
        for key, value in database.records_from(b"") if self._kind == TREE else database.records():
            yield found(from_key(table, key), self._decoded(table, value), fields)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        if self._kind != TREE:
            raise Unsupported("has no record order")
        records = islice(self._database(table).records_from(to_key(start)), limit)
        return sum(isinstance(self._decoded(table, value), dict) for _, value in records)

    def maintain(self, table: Table) -> str:
        self._database(table).optimize()
        return "optimize, sync"

    def table_bytes(self, table: Table) -> int | None:
        path = self._path(table)
        return sum(file.stat().st_size for file in (path, *path.parent.glob(f"{path.name}.idx.*")))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class TokyoTableAdapter(TokyoAdapter):
    """Documents as text columns, with the library's conditions, orders and single-column indexes."""

    def _encoded(self, table: Table, document: dict) -> bytes:
        return b"\0".join(to_columns(table, document))

    def _decoded(self, table: Table, value: bytes) -> dict:
        return from_columns(table, value.split(b"\0")) if value else {}

    def create_index(self, table: Table, *fields: str) -> None:
        for field in fields:
            self._database(table).call("setindex", field.encode(), to_index(table, field))

    def delete_many(self, table: Table, query: Query) -> int:
        database = self._database(table)
        with database.transaction(), database.query(to_conditions(table, query)) as prepared:
            return database.delete_found(prepared)

    def count(self, table: Table, query: Query) -> int:
        database = self._database(table)
        with database.query(to_conditions(table, query)) as prepared:
            return database.count(prepared)

    def find(self, table: Table, query: Query) -> Iterator[object]:
        database = self._database(table)
        order = (query.order, to_order(table, query.order)) if query.order else None
        with database.query(to_conditions(table, query), order, query.limit) as prepared:
            for key in database.search(prepared):
                yield found(from_key(table, key), self._decoded(table, database.get(key)), query.fields)


class _Tokyo(Target):
    kind = "in-process"
    file: str  # the kind of database in the library
    adapter: type[TokyoAdapter] = TokyoAdapter
    durability = {
        RELAXED: "no transactions: in the kernel's cache at once (a tree's pages when they leave its own), on disk when closed",
        SYNCED: "each command is a transaction with TSYNC: its log and the file are synced",
    }

    @classmethod
    def configured(cls, options) -> "_Tokyo":
        return cls()

    def start(self, directory: Path) -> None:
        try:
            tokyo_library.load()
        except OSError:
            debian.install("libtokyocabinet9")
            tokyo_library.load()
        self.data = directory / "data"
        self.data.mkdir()

    def stop(self) -> None:
        pass

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, self.file, self.data, durability)

    def describe(self) -> dict:
        return {"version": tokyo_library.version(), "settings": SETTINGS[self.file]}


class TokyoHash(_Tokyo):
    """The hash database: key and value, no order."""

    name = "tokyo-hash"
    file = HASH


class TokyoTree(_Tokyo):
    """The compressed B+ tree database, published as "Tokyo Cabinet/Tyrant" in the post on short reads."""

    name = "tokyo-tree"
    file = TREE


class TokyoTable(_Tokyo):
    """The table database, published in the post on five million records."""

    name = "tokyo-table"
    file = TABLE
    adapter = TokyoTableAdapter
