"""A stand-in for Tokyo Tyrant: its protocol over the library's abstract database, to which the real server also passes requests."""

import ctypes
import socketserver
import struct
import threading
from ctypes import byref, c_bool, c_char_p, c_int, c_uint64, c_void_p
from pathlib import Path

from bench.targets import tokyo_library, tyrant_protocol

TYPES = {"tch": "hash", "tcb": "B+ tree", "tct": "table"}


class _Abstract:
    """The library's abstract database, and its lists."""

    def __init__(self, path: Path) -> None:
        self.kind = TYPES[path.suffix[1:]]
        self.library = tokyo_library.load()
        for name, result, arguments in (
            ("tcadbnew", c_void_p, ()),
            ("tcadbopen", c_bool, (c_void_p, c_char_p)),
            *((f"tcadb{name}", c_bool, (c_void_p, c_char_p, c_int, c_char_p, c_int)) for name in ("put", "putkeep")),
            ("tcadbout", c_bool, (c_void_p, c_char_p, c_int)),
            ("tcadbget", c_void_p, (c_void_p, c_char_p, c_int, c_void_p)),
            ("tcadbfwmkeys", c_void_p, (c_void_p, c_char_p, c_int, c_int)),
            ("tcadboptimize", c_bool, (c_void_p, c_char_p)),
            ("tcadbmisc", c_void_p, (c_void_p, c_char_p, c_void_p)),
            *((f"tcadb{name}", c_bool, (c_void_p,)) for name in ("sync", "close")),
            ("tcadbsize", c_uint64, (c_void_p,)),
            ("tclistnew", c_void_p, ()),
            ("tclistpush", None, (c_void_p, c_char_p, c_int)),
        ):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        self.database = self.library.tcadbnew()
        assert self.library.tcadbopen(self.database, bytes(path))

    def call(self, name: str, *arguments):
        return getattr(self.library, f"tcadb{name}")(self.database, *arguments)

    def get(self, key: bytes) -> bytes | None:
        size = c_int()
        pointer = self.call("get", key, len(key), ctypes.addressof(size))
        return None if pointer is None else ctypes.string_at(pointer, size.value)

    def items(self, found: int | None) -> list[bytes] | None:
        if found is None:
            return None
        size = c_int()
        value = self.library.tclistval
        return [ctypes.string_at(value(found, number, byref(size)), size.value) for number in range(self.library.tclistnum(found))]

    def misc(self, name: bytes, arguments: list[bytes]) -> list[bytes] | None:
        given = self.library.tclistnew()
        for one in arguments:
            self.library.tclistpush(given, one, len(one))
        return self.items(self.call("misc", name, given))


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while head := self.rfile.read(2):
            assert head[0] == 0xC8
            self.wfile.write(self.answer(head[1]))

    def number(self) -> int:
        return struct.unpack("!i", self.rfile.read(4))[0]

    def some(self, count: int) -> list[bytes]:
        """Byte strings, preceded by all their lengths."""
        return [self.rfile.read(length) for length in [self.number() for _ in range(count)]]

    @staticmethod
    def listed(items: list[bytes] | None) -> bytes:
        parts = b"".join(struct.pack("!i", len(item)) + item for item in items or [])
        return struct.pack("!Bi", items is None, len(items or [])) + parts

    def answer(self, command: int) -> bytes:
        database: _Abstract = self.server.database
        if command in (tyrant_protocol.PUT, tyrant_protocol.PUT_NEW):
            key, value = self.some(2)
            return bytes([not database.call("put" if command == tyrant_protocol.PUT else "putkeep", key, len(key), value, len(value))])
        if command == tyrant_protocol.OUT:
            (key,) = self.some(1)
            return bytes([not database.call("out", key, len(key))])
        if command == tyrant_protocol.GET:
            value = database.get(self.some(1)[0])
            return b"\1" if value is None else struct.pack("!Bi", 0, len(value)) + value
        if command == tyrant_protocol.GET_MANY:
            records = [(key, database.get(key)) for key in (self.some(1)[0] for _ in range(self.number()))]
            there = [struct.pack("!ii", len(key), len(value)) + key + value for key, value in records if value is not None]
            return struct.pack("!Bi", 0, len(there)) + b"".join(there)
        if command == tyrant_protocol.PREFIX_KEYS:
            length, limit = self.number(), self.number()
            return self.listed(database.items(database.call("fwmkeys", self.rfile.read(length), length, limit)))
        if command == tyrant_protocol.MISC:
            length, _, count = self.number(), self.number(), self.number()
            name = self.rfile.read(length)
            return self.listed(database.misc(name, [self.some(1)[0] for _ in range(count)]))
        if command == tyrant_protocol.STATUS:
            told = f"version\t1.1.41\ntype\t{database.kind}\n".encode()
            return struct.pack("!Bi", 0, len(told)) + told
        if command == tyrant_protocol.SIZE:
            return struct.pack("!BQ", 0, database.call("size"))
        if command == tyrant_protocol.OPTIMIZE:
            return bytes([not database.call("optimize", self.some(1)[0] or None)])
        assert command == tyrant_protocol.SYNC
        return bytes([not database.call("sync")])


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class StandIn:
    """A server for one database file, at `address`."""

    def __init__(self, path: Path) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.database = _Abstract(path)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.database.call("close")
