"""A client for Redis. It uses redis-py with hiredis. A document is a hash with texts as fields, so that one command can set one field."""

import time
from collections.abc import Iterator
from itertools import islice

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.data import Key, Query, Row, Table
from bench.targets.base import SYNCED, Client, Unsupported
from bench.targets.texts import ONLY_KEYS, found, from_key, from_texts, kind_of, to_key, to_text, to_texts

REWRITE_SECONDS = 600
BATCH = 1000


class RedisAdapter(Client):
    """One connection. A table is the set of keys that begin with its name.

    Redis' commands set fields whether or not the document exists. The number of new fields in the reply shows whether it was an insert or
    an update.
    """

    def __init__(self, port: int, durability: str | None) -> None:
        # No retries, so that a failure is visible and no request is sent twice.
        self._redis = redis.Redis("127.0.0.1", port, single_connection_client=True, socket_timeout=600, retry=Retry(NoBackoff(), 0))
        if durability:
            # A setting of the server for all its connections.
            self._redis.config_set("appendfsync", "always" if durability == SYNCED else "everysec")
        self._prefixes: dict[Table, bytes] = {}

    def _key(self, table: Table, key: bytes) -> bytes:
        if table not in self._prefixes:
            self._prefixes[table] = f"{table.database}{'/' if table.database else ''}{table.name}:".encode()
        return self._prefixes[table] + key

    def _keys(self, table: Table) -> Iterator[bytes]:
        """A table's keys. The server scans all its keys, and may return a key twice if its table is resized meanwhile."""
        return self._redis.scan_iter(match=self._key(table, b"*"), count=BATCH)

    def create(self, table: Table) -> None:
        self.drop(table)

    def drop(self, table: Table) -> None:
        for keys in _batches(self._keys(table)):
            self._redis.unlink(*keys)

    def create_index(self, table: Table, *fields: str) -> None:
        raise Unsupported(ONLY_KEYS)

    def insert_one(self, table: Table, row: Row) -> None:
        self._check(row, self._redis.hset(self._key(table, to_key(row[0])), mapping=to_texts(table, row[1])))

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for key, document in rows:
            pipeline.hset(self._key(table, to_key(key)), mapping=to_texts(table, document))
        for row, added in zip(rows, pipeline.execute(), strict=True):
            self._check(row, added)

    @staticmethod
    def _check(row: Row, added: int) -> None:
        if added != len(row[1]):
            raise ValueError(f"a document {row[0]!r} already existed")

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        name = self._key(table, to_key(key))
        if self._redis.hset(name, field, to_text(kind_of(table, field), value)) and self._is_only_field(name):
            self._redis.delete(name)
            raise LookupError(f"no document {key!r} to update")

    def _is_only_field(self, name: bytes) -> bool:
        return self._redis.hlen(name) == 1

    def delete_one(self, table: Table, key: Key) -> None:
        if self._redis.delete(self._key(table, to_key(key))) != 1:
            raise LookupError(f"no document {key!r} to delete")

    def delete_many(self, table: Table, query: Query) -> int:
        raise Unsupported(ONLY_KEYS)

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        texts = self._redis.hgetall(self._key(table, to_key(key)))
        return _decoded(table, texts) if texts else None

    def count(self, table: Table, query: Query) -> int:
        if query.conditions:
            raise Unsupported(ONLY_KEYS)
        return len(set(self._keys(table)))

    def find(self, table: Table, query: Query) -> Iterator[object]:
        if query.conditions or query.order:
            raise Unsupported(ONLY_KEYS)
        return islice(self._all(table, query.fields), query.limit)

    def _all(self, table: Table, fields: tuple[str, ...]) -> Iterator[dict]:
        start = len(self._key(table, b""))
        for keys in _batches(iter(set(self._keys(table)))):
            pipeline = self._redis.pipeline(transaction=False)
            for key in keys:
                pipeline.hgetall(key)
            for key, texts in zip(keys, pipeline.execute(), strict=True):
                yield found(from_key(table, key[start:]), _decoded(table, texts), fields)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        raise Unsupported("has no key order")

    def maintain(self, table: Table) -> str:
        self._redis.bgrewriteaof()
        end = time.monotonic() + REWRITE_SECONDS
        while time.monotonic() < end:
            status = self._redis.info("persistence")
            if not status["aof_rewrite_in_progress"] and not status["aof_rewrite_scheduled"]:
                return f"BGREWRITEAOF ({status['aof_last_bgrewrite_status']})"
            time.sleep(0.05)
        return "BGREWRITEAOF, not finished in time"

    def table_bytes(self, table: Table) -> int | None:
        return None

    def close(self) -> None:
        self._redis.close()


def _batches(keys: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(keys, BATCH)):
        yield batch


def _decoded(table: Table, texts: dict[bytes, bytes]) -> dict:
    return from_texts(table, {name.decode(): text.decode() for name, text in texts.items()})
