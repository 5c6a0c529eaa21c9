"""Tokyo Cabinet through ctypes: one open database file.

The three kinds of databases have the same functions with different prefixes: hash (`tchdb…`), B+ tree (`tcbdb…`) and table (`tctdb…`). Only one
process can open a file for writing, and it can open each file only once.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int8, c_int32, c_int64, c_uint8, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from bench.targets.base import Unsupported

LIBRARY = "libtokyocabinet.so.9"
HASH, TREE, TABLE = "h", "b", "t"

WRITER, CREATE, LOCK_OR_FAIL, SYNCED_TRANSACTIONS = 1 << 1, 1 << 2, 1 << 5, 1 << 6
LARGE, DEFLATE = 1 << 0, 1 << 1
KEEP_OPTIONS = 0xFF

OPEN_HERE, LOCKED, ABSENT = 1, 16, 22  # error codes that are normal answers

LEAVES = 10_000
# Without `l` a file is limited to 2 GB. The tree has the settings of the post on short reads, except its million buckets, which
# would take 8 MB even in a small file.
SETTINGS = {
    HASH: "defaults, opts = l",
    TREE: f"defaults, opts = ld (Deflate), lcnum = {LEAVES:,}",
    TABLE: "defaults, opts = l",
}


class TokyoError(Exception):
    """An error of the library."""


# Functions by name without prefix: the return type and the arguments after the database.
_RECORD = (c_char_p, c_int, c_char_p, c_int)
_COMMON = {
    "ecode": (c_int,),
    "open": (c_bool, c_char_p, c_int),
    "close": (c_bool,),
    "del": (None,),
    "out": (c_bool, c_char_p, c_int),
    "sync": (c_bool,),
    "tranbegin": (c_bool,),
    "trancommit": (c_bool,),
    "tranabort": (c_bool,),
    "rnum": (c_uint64,),
    "fsiz": (c_uint64,),
}
_TUNING = (c_int64, c_int8, c_int8, c_uint8)
_ITERATION = {"iterinit": (c_bool,), "iternext": (c_void_p, POINTER(c_int))}
_OWN = {
    HASH: {
        **{"put": (c_bool, *_RECORD), "putkeep": (c_bool, *_RECORD), "get": (c_void_p, c_char_p, c_int, POINTER(c_int))},
        **{"tune": (c_bool, *_TUNING), "optimize": (c_bool, *_TUNING), **_ITERATION},
    },
    TREE: {
        **{"put": (c_bool, *_RECORD), "putkeep": (c_bool, *_RECORD), "get": (c_void_p, c_char_p, c_int, POINTER(c_int))},
        **{"tune": (c_bool, c_int32, c_int32, *_TUNING), "optimize": (c_bool, c_int32, c_int32, *_TUNING)},
        **{"setcache": (c_bool, c_int32, c_int32), "curnew": (c_void_p,)},
        **{"curdel": (None,), "curfirst": (c_bool,), "curjump": (c_bool, c_char_p, c_int), "curnext": (c_bool,)},
        **{"curkey": (c_void_p, POINTER(c_int)), "curval": (c_void_p, POINTER(c_int))},
    },
    TABLE: {
        **{"put2": (c_bool, *_RECORD), "putkeep2": (c_bool, *_RECORD), "get2": (c_void_p, c_char_p, c_int, POINTER(c_int))},
        **{"tune": (c_bool, *_TUNING), "optimize": (c_bool, *_TUNING), **_ITERATION},
        **{"setindex": (c_bool, c_char_p, c_int), "qrynew": (c_void_p,), "qrydel": (None,), "qrycount": (c_int,)},
        **{"qryaddcond": (None, c_char_p, c_int, c_char_p), "qrysetorder": (None, c_char_p, c_int)},
        **{"qrysetlimit": (None, c_int, c_int), "qrysearch": (c_void_p,), "qrysearchout": (c_bool,)},
    },
}


@cache
def load() -> ctypes.CDLL:
    """The library with declared functions. Raises OSError if it is not installed."""
    library = ctypes.CDLL(LIBRARY)
    for kind, own in _OWN.items():
        for name, (result, *arguments) in {**_COMMON, **own}.items():
            function = library[f"tc{kind}db{name}"]
            function.restype, function.argtypes = result, [c_void_p, *arguments]
            setattr(library, f"tc{kind}db{name}", function)
        getattr(library, f"tc{kind}dbnew").restype = c_void_p
        getattr(library, f"tc{kind}dberrmsg").restype = c_char_p
    library.tcfree.restype, library.tcfree.argtypes = None, [c_void_p]
    library.tclistnum.argtypes = [c_void_p]
    library.tclistval.restype, library.tclistval.argtypes = c_void_p, [c_void_p, c_int, POINTER(c_int)]
    library.tclistdel.restype, library.tclistdel.argtypes = None, [c_void_p]
    return library


def version() -> str:
    """The library's version."""
    return c_char_p.in_dll(load(), "tcversion").value.decode()


class Database:
    """One open file. With `synced`, the writes of a `transaction` are on disk when it ends. Without it, `transaction` has no effect."""

    def __init__(self, kind: str, path: Path, synced: bool) -> None:
        self._library = load()
        self._kind = kind
        self._synced = synced
        self._path = path
        self._handle = c_void_p(getattr(self._library, f"tc{kind}dbnew")())
        self._size = c_int()
        ending = "2" if kind == TABLE else ""
        self._put, self._add, self._get = (self.function(name + ending) for name in ("put", "putkeep", "get"))
        self._free = self._library.tcfree
        if kind == TREE:
            self.call("tune", -1, -1, -1, -1, -1, LARGE | DEFLATE)
            self.call("setcache", LEAVES, -1)
        else:
            self.call("tune", -1, -1, -1, LARGE)
        mode = WRITER | CREATE | LOCK_OR_FAIL | (SYNCED_TRANSACTIONS if synced else 0)
        if not self.function("open")(self._handle, bytes(path), mode):
            taken = self.error() in (OPEN_HERE, LOCKED)
            failure = TokyoError(self._told())
            self.function("del")(self._handle)
            if taken:
                raise Unsupported("only one client at a time can open a file")
            raise failure

    def function(self, name: str):
        """The library's function with this name for this kind of database."""
        return getattr(self._library, f"tc{self._kind}db{name}")

    def call(self, name: str, *arguments) -> None:
        """Calls a function that returns success or failure."""
        if not self.function(name)(self._handle, *arguments):
            raise TokyoError(f"{name}: {self._told()}")

    def error(self) -> int:
        """The code of the last error."""
        return self.function("ecode")(self._handle)

    def _told(self) -> str:
        return f"{self._path.name}: {self.function('errmsg')(self.error()).decode()}"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that is atomic and on disk at its end, if the database is synced."""
        if not self._synced:
            yield
            return
        self.call("tranbegin")
        try:
            yield
        except BaseException:
            self.call("tranabort")
            raise
        self.call("trancommit")

    def add(self, key: bytes, value: bytes) -> None:
        """Stores a new record."""
        if not self._add(self._handle, key, len(key), value, len(value)):
            raise TokyoError(f"put {key!r}: {self._told()}")

    def put(self, key: bytes, value: bytes) -> None:
        """Stores a record and replaces an existing one."""
        if not self._put(self._handle, key, len(key), value, len(value)):
            raise TokyoError(f"put {key!r}: {self._told()}")

    def get(self, key: bytes) -> bytes | None:
        """A record's value."""
        return self._taken(self._get(self._handle, key, len(key), byref(self._size)))

    def _taken(self, pointer: int | None) -> bytes | None:
        """The bytes at a pointer that a function returned with their size. Frees the memory."""
        if pointer is None:
            return None
        value = ctypes.string_at(pointer, self._size.value)
        self._free(pointer)
        return value

    def delete(self, key: bytes) -> None:
        """Removes a record."""
        if not self.function("out")(self._handle, key, len(key)):
            if self.error() == ABSENT:
                raise LookupError(f"no record {key!r} to delete")
            raise TokyoError(f"out: {self._told()}")

    def size(self) -> int:
        """The number of records."""
        return self.function("rnum")(self._handle)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """All records, unordered. A file allows one such iteration at a time."""
        self.call("iterinit")
        following = self.function("iternext")
        while (key := self._taken(following(self._handle, byref(self._size)))) is not None:
            value = self.get(key)
            if value is not None:
                yield key, value

    def records_from(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A tree's records in key order."""
        cursor = c_void_p(self.function("curnew")(self._handle))
        key, value, following = self.function("curkey"), self.function("curval"), self.function("curnext")
        try:
            there = self.function("curjump")(cursor, start, len(start)) if start else self.function("curfirst")(cursor)
            while there:
                yield self._taken(key(cursor, byref(self._size))), self._taken(value(cursor, byref(self._size)))
                there = following(cursor)
        finally:
            self.function("curdel")(cursor)

    @contextmanager
    def query(self, conditions: list, order: tuple[str, int] | None = None, limit: int | None = None) -> Iterator[c_void_p]:
        """A table's query."""
        query = c_void_p(self.function("qrynew")(self._handle))
        try:
            for column, operator, operand in conditions:
                self.function("qryaddcond")(query, column.encode(), operator, operand.encode())
            if order:
                self.function("qrysetorder")(query, order[0].encode(), order[1])
            if limit:
                self.function("qrysetlimit")(query, limit, 0)
            yield query
        finally:
            self.function("qrydel")(query)

    def search(self, query: c_void_p) -> Iterator[bytes]:
        """The keys that a query finds."""
        found = c_void_p(self.function("qrysearch")(query))
        try:
            value = self._library.tclistval
            for number in range(self._library.tclistnum(found)):
                yield ctypes.string_at(value(found, number, byref(self._size)), self._size.value)
        finally:
            self._library.tclistdel(found)

    def count(self, query: c_void_p) -> int:
        """The number of records that a query finds."""
        self._library.tclistdel(self.function("qrysearch")(query))
        return self.function("qrycount")(query)

    def delete_found(self, query: c_void_p) -> int:
        """Removes the records that a query finds; returns their number."""
        if not self.function("qrysearchout")(query):
            raise TokyoError(f"search out: {self._told()}")
        return self.function("qrycount")(query)

    def optimize(self) -> None:
        """Rewrites the file without holes. The library chooses the number of buckets."""
        self.call("optimize", *((-1, -1) if self._kind == TREE else ()), -1, -1, -1, KEEP_OPTIONS)
        self.call("sync")

    def close(self) -> None:
        """Writes cached data and closes the file."""
        try:
            self.call("close")
        finally:
            self.function("del")(self._handle)
