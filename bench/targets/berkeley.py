"""Berkeley DB inside the client: one B-tree per table, documents as JSON text, in one transactional environment that processes share.

Its Python package is built against Debian's library when it is first needed. It is not among the bench's requirements, so that
other systems can be measured if the build fails.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from bench.data import Key, Query, Row, Table
from bench.targets import debian
from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target, Unsupported
from bench.targets.texts import ONLY_KEYS, found, from_key, to_json, to_key

PACKAGE = "berkeleydb==18.1.17"
CACHE = 64 << 20  # the default of 256 KB is too small for any real application
LOCKS = 100_000  # pages that one command may touch; the default is 1,000


def binding():
    """The module of the binding, which may be missing and is therefore imported only here."""
    return importlib.import_module("berkeleydb.db")


def install() -> None:
    """Builds the package."""
    debian.install("libdb5.3-dev", "python3-dev", "gcc")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise NotGiven(f"the package {PACKAGE} could not be installed: {done.stderr.strip()[-200:]}")
    importlib.invalidate_caches()


class BerkeleyAdapter(Client):
    """One handle of the environment, and one for each table. Each write is a transaction."""

    def __init__(self, home: Path, data: Path, durability: str) -> None:
        self._db = binding()
        self._data = data
        self._open: dict[Table, object] = {}
        self._environment = self._db.DBEnv()
        self._environment.set_cachesize(0, CACHE, 1)
        self._environment.set_lk_max_locks(LOCKS)
        self._environment.set_lk_max_objects(LOCKS)
        self._environment.set_lk_detect(self._db.DB_LOCK_DEFAULT)
        if durability == RELAXED:
            self._environment.set_flags(self._db.DB_TXN_WRITE_NOSYNC, 1)
        parts = self._db.DB_INIT_MPOOL | self._db.DB_INIT_TXN | self._db.DB_INIT_LOCK | self._db.DB_INIT_LOG
        self._environment.open(str(home), self._db.DB_CREATE | parts)

    @staticmethod
    def _file(table: Table) -> str:
        return f"{table.database}{'.' if table.database else ''}{table.name}.db"

    def _database(self, table: Table):
        if table not in self._open:
            database = self._db.DB(self._environment)
            database.open(self._file(table), dbtype=self._db.DB_BTREE, flags=self._db.DB_CREATE | self._db.DB_AUTO_COMMIT)
            self._open[table] = database
        return self._open[table]

    def _write(self, work: Callable[[object], None]) -> None:
        """Runs `work(transaction)`, and runs it again if its transaction was aborted to resolve a deadlock."""
        while True:
            transaction = self._environment.txn_begin()
            try:
                work(transaction)
            except self._db.DBLockDeadlockError:
                transaction.abort()
                continue
            except BaseException:
                transaction.abort()
                raise
            transaction.commit()
            return

    def create(self, table: Table) -> None:
        self.drop(table)
        self._database(table)

    def drop(self, table: Table) -> None:
        if table in self._open:
            self._open.pop(table).close()
        if (self._data / self._file(table)).exists():
            self._environment.dbremove(self._file(table), flags=self._db.DB_AUTO_COMMIT)

    def create_index(self, table: Table, *fields: str) -> None:
        raise Unsupported("its secondary databases require a key function of the application")

    def insert_one(self, table: Table, row: Row) -> None:
        self.insert_many(table, [row])

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        database = self._database(table)
        records = [(to_key(key), to_json(document)) for key, document in rows]

        def work(transaction) -> None:
            for key, value in records:
                database.put(key, value, txn=transaction, flags=self._db.DB_NOOVERWRITE)

        self._write(work)

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        database = self._database(table)

        def work(transaction) -> None:
            before = database.get(to_key(key), txn=transaction, flags=self._db.DB_RMW)
            if before is None:
                raise LookupError(f"no document {key!r} to update")
            database.put(to_key(key), to_json({**json.loads(before), field: value}), txn=transaction)

        self._write(work)

    def delete_one(self, table: Table, key: Key) -> None:
        database = self._database(table)

        def work(transaction) -> None:
            try:
                database.delete(to_key(key), txn=transaction)
            except self._db.DBNotFoundError:
                raise LookupError(f"no document {key!r} to delete") from None

        self._write(work)

    def delete_many(self, table: Table, query: Query) -> int:
        raise Unsupported(ONLY_KEYS)

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        value = self._database(table).get(to_key(key))
        return None if value is None else json.loads(value)

    def count(self, table: Table, query: Query) -> int:
        if query.conditions:
            raise Unsupported(ONLY_KEYS)
        return self._database(table).stat()["nkeys"]

    def find(self, table: Table, query: Query) -> Iterator[object]:
        if query.conditions or query.order:
            raise Unsupported(ONLY_KEYS)
        return islice(self._all(table, query.fields), query.limit)

    def _all(self, table: Table, fields: tuple[str, ...]) -> Iterator[dict]:
        for key, value in self._records(table, b""):
            yield found(from_key(table, key), json.loads(value), fields)

    def _records(self, table: Table, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Records in the order of their keys."""
        cursor = self._database(table).cursor()
        try:
            record = cursor.set_range(start)
            while record:
                yield record
                record = cursor.next()
        finally:
            cursor.close()

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        records = islice(self._records(table, to_key(start)), limit)
        return sum(isinstance(json.loads(value), dict) for _, value in records)

    def maintain(self, table: Table) -> str:
        self._database(table).compact(flags=self._db.DB_FREE_SPACE)
        self._environment.txn_checkpoint(0, 0, self._db.DB_FORCE)
        self._environment.log_archive(self._db.DB_ARCH_REMOVE)
        return "compact, txn_checkpoint, log_archive"

    def table_bytes(self, table: Table) -> int | None:
        return (self._data / self._file(table)).stat().st_size

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._environment.close()


class BerkeleyDB(Target):
    """An environment in the run's temporary directory."""

    name = "berkeleydb"
    kind = "in-process"
    durability = {
        RELAXED: "DB_TXN_WRITE_NOSYNC: the log of each command is given to the kernel, not synced",
        SYNCED: "each command is a transaction, acknowledged after the fsync of its log",
    }

    def __init__(self) -> None:
        self._home: Path | None = None

    @classmethod
    def configured(cls, options) -> "BerkeleyDB":
        return cls()

    def start(self, directory: Path) -> None:
        try:
            binding()
        except ImportError:
            install()
            binding()
        # The home directory contains the memory that processes share, as files. It does not count as data.
        self._home, self.data = directory / "home", directory / "data"
        self._home.mkdir()
        self.data.mkdir()
        (self._home / "DB_CONFIG").write_text(f"set_data_dir {self.data.absolute()}\nset_lg_dir {self.data.absolute()}\n")

    def stop(self) -> None:
        pass

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(BerkeleyAdapter, self._home, self.data, durability)

    def describe(self) -> dict:
        version = ".".join(str(number) for number in binding().version())
        return {"version": version, "settings": f"B-tree, JSON text, cache of {CACHE >> 20} MB, {LOCKS:,} locks, otherwise defaults"}
