"""Tokyo Tyrant, the server of Tokyo Cabinet's databases, by address, because Debian no longer packages it.

A server has one database, so tables share it and differ by the prefix of their keys. The kind of database is chosen when a server is
started. So there is one address for a server with a hash or a B+ tree, and another for a server with a table database.
"""

import json
from collections.abc import Iterator
from itertools import islice

from bench.data import Key, Query, Row, Table
from bench.targets.base import RELAXED, SYNCED, Client, Unsupported
from bench.targets.given import Given
from bench.targets.texts import ONLY_KEYS, found, from_key, kind_of, to_json, to_key
from bench.targets.tokyo_query import INDEX_NUMBER, TEXT_BEGINS, from_columns, to_column, to_columns, to_conditions, to_index, to_order
from bench.targets.tyrant_protocol import TyrantConnection, TyrantError

PREFIX = "diwan_bench"
BATCH = 1000
TREE, TABLE = "B+ tree", "table"


def listens(address: str) -> tuple[str, int]:
    """Host and port of an address."""
    host, _, port = address.rpartition(":")
    return (host, int(port)) if host else (address, 1978)


class TyrantAdapter(Client):
    """A hash or a B+ tree with documents as JSON text. If writes are synced, a `sync` follows each of them."""

    def __init__(self, address: str, durability: str) -> None:
        self._server = TyrantConnection(*listens(address))
        self._synced = durability == SYNCED
        self._told = self._server.status()
        if (self._told["type"] == TABLE) != isinstance(self, TyrantTableAdapter):
            self.close()
            raise ValueError(f"the server at {address} has a database of type {self._told['type']}")

    @staticmethod
    def _prefix(table: Table) -> bytes:
        return f"{PREFIX}/{table.database}/{table.name}:".encode()

    def _key(self, table: Table, key: Key) -> bytes:
        return self._prefix(table) + to_key(key)

    def _written(self) -> None:
        if self._synced:
            self._server.sync()

    def _done(self, name: str, arguments: list[bytes]) -> list[bytes]:
        """Calls a function that writes."""
        found = self._server.misc(name, arguments)
        if found is None:
            raise TyrantError(f"{name} failed (existing record?)")
        self._written()
        return found

    def create(self, table: Table) -> None:
        self.drop(table)

    def drop(self, table: Table) -> None:
        self._remove(self._prefix(table))

    def _remove(self, prefix: bytes) -> None:
        while keys := self._server.prefix_keys(prefix, BATCH):
            self._done("outlist", keys)

    def create_index(self, table: Table, *fields: str) -> None:
        raise Unsupported(ONLY_KEYS)

    def insert_one(self, table: Table, row: Row) -> None:
        self._server.put_new(self._key(table, row[0]), to_json(row[1]))
        self._written()

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        self._done("putlist", [part for key, document in rows for part in (self._key(table, key), to_json(document))])

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        document = self.find_by_id(table, key)
        if document is None:
            raise LookupError(f"no document {key!r} to update")
        self._server.put(self._key(table, key), to_json({**document, field: value}))
        self._written()

    def delete_one(self, table: Table, key: Key) -> None:
        if not self._server.out(self._key(table, key)):
            raise LookupError(f"no document {key!r} to delete")
        self._written()

    def delete_many(self, table: Table, query: Query) -> int:
        raise Unsupported(ONLY_KEYS)

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        value = self._server.get(self._key(table, key))
        return None if value is None else json.loads(value)

    def count(self, table: Table, query: Query) -> int:
        if query.conditions:
            raise Unsupported(ONLY_KEYS)
        return len(self._server.prefix_keys(self._prefix(table)))

    def find(self, table: Table, query: Query) -> Iterator[object]:
        if query.conditions or query.order:
            raise Unsupported(ONLY_KEYS)
        return islice(self._all(table, query.fields), query.limit)

    def _all(self, table: Table, fields: tuple[str, ...]) -> Iterator[dict]:
        prefix = self._prefix(table)
        keys = self._server.prefix_keys(prefix)
        for start in range(0, len(keys), BATCH):
            for key, value in self._server.get_many(keys[start : start + BATCH]):
                yield found(from_key(table, key[len(prefix) :]), json.loads(value), fields)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        if self._told["type"] != TREE:
            raise Unsupported("keeps its records in no order")
        prefix = self._prefix(table)
        records = self._server.misc("range", [self._key(table, start), str(limit).encode()], reads=True)
        if records is None:
            raise TyrantError("range failed")
        return sum(isinstance(json.loads(value), dict) for key, value in zip(records[::2], records[1::2]) if key.startswith(prefix))

    def maintain(self, table: Table) -> str:
        self._server.optimize()
        self._server.sync()
        return "optimize, sync"

    def table_bytes(self, table: Table) -> int | None:
        return self._server.size()

    def version(self) -> str:
        """The server's name and version."""
        return f"{self._told['version']}, {self._told['type']}"

    def reset(self) -> None:
        """Removes the bench's records from a server that continues after the run."""
        self._remove(PREFIX.encode())

    def close(self) -> None:
        self._server.close()


class TyrantTableAdapter(TyrantAdapter):
    """A table database: documents as text columns, with conditions, orders, and single-column indexes that all tables share."""

    def _key(self, table: Table, key: Key) -> bytes:
        # Ids are texts, because answers have zero bytes between a key and the columns.
        return self._prefix(table) + (key.hex() if isinstance(key, bytes) else str(key)).encode()

    def create_index(self, table: Table, *fields: str) -> None:
        for field in fields:
            kind = b"DECIMAL" if to_index(table, field) == INDEX_NUMBER else b"LEXICAL"
            self._done("setindex", [field.encode(), kind])

    def insert_one(self, table: Table, row: Row) -> None:
        self._done("putkeep", [self._key(table, row[0]), *to_columns(table, row[1])])

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        records = ((self._key(table, key), b"\0".join(to_columns(table, document))) for key, document in rows)
        self._done("putlist", [part for record in records for part in record])

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        columns = self._server.misc("get", [self._key(table, key)], reads=True)
        if columns is None:
            raise LookupError(f"no document {key!r} to update")
        whole = dict(zip(columns[::2], columns[1::2]))
        whole[field.encode()] = to_column(kind_of(table, field), value).encode()
        self._done("put", [self._key(table, key), *(part for column in whole.items() for part in column)])

    def delete_many(self, table: Table, query: Query) -> int:
        return int(self._done("search", [*self._conditions(table, query), b"out", b"count"])[0])

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        columns = self._server.misc("get", [self._key(table, key)], reads=True)
        return None if columns is None else from_columns(table, columns)

    def _conditions(self, table: Table, query: Query) -> list[bytes]:
        # The column with the empty name is the key.
        conditions = [*to_conditions(table, query), ("", TEXT_BEGINS, self._prefix(table).decode())]
        return [b"\0".join((b"addcond", *(str(part).encode() for part in condition))) for condition in conditions]

    def _search(self, table: Table, query: Query, *what: bytes) -> list[bytes]:
        found = self._server.misc("search", [*self._conditions(table, query), *what], reads=True)
        if found is None:
            raise TyrantError("search failed")
        return found

    def count(self, table: Table, query: Query) -> int:
        return int(self._search(table, query, b"count")[0])

    def find(self, table: Table, query: Query) -> Iterator[object]:
        # The key is the column with the empty name.
        what = [b"\0".join((b"get", b"", *(field.encode() for field in query.fields))) if query.fields else b"get"]
        if query.order:
            what.append(b"setorder\0%s\0%d" % (query.order.encode(), to_order(table, query.order)))
        if query.limit:
            what.append(b"setlimit\0%d\0%d" % (query.limit, 0))
        start = len(self._prefix(table))
        for record in self._search(table, query, *what):
            _, key, *columns = record.split(b"\0")
            yield {"_id": self._named(table, key[start:]), **from_columns(table, columns)}

    @staticmethod
    def _named(table: Table, text: bytes) -> Key:
        return bytes.fromhex(text.decode()) if table.key is bytes else table.key(text.decode())

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        raise Unsupported("keeps its records in no order")


class Tyrant(Given):
    """A server with a hash or a B+ tree, as in the post on short reads: `ttserver 'reads.tcb#opts=ld'`."""

    name = "tyrant"
    durability = {
        RELAXED: "as configured; without an update log, data is in the kernel's cache or the server's own",
        SYNCED: "each command is followed by `sync`, which writes the database file to disk",
    }
    option = "tyrant_address"
    adapter = TyrantAdapter
    listens = staticmethod(listens)


class TyrantTable(Tyrant):
    """A server with a table database, as in the post on five million records: `ttserver 'records.tct'`."""

    name = "tyrant-table"
    option = "tyrant_table_address"
    adapter = TyrantTableAdapter
