"""Tokyo Tyrant's binary protocol: one connection, one command at a time.

A command is the byte C8, its number, 32-bit big-endian lengths, and the bytes of these lengths. An answer is a code, 0 for success, and the
command's result. Most commands of a table database, and commands on many records, use `misc` with a function name and a list of texts.
"""

import socket
import struct

PUT, PUT_NEW, OUT, GET, GET_MANY = 0x10, 0x11, 0x20, 0x30, 0x31
PREFIX_KEYS, SYNC, OPTIMIZE = 0x58, 0x70, 0x71
SIZE, STATUS, MISC = 0x81, 0x88, 0x90
NO_UPDATE_LOG = 1  # an option of misc for commands that only read
SECONDS = 600


class TyrantError(Exception):
    """The server refused a command."""


class TyrantConnection:
    """The commands that the bench needs."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def _send(self, command: int, *parts: bytes) -> int:
        self._socket.sendall(b"".join((bytes((0xC8, command)), *parts)))
        return self._take(1)[0]

    def _take(self, length: int) -> bytes:
        taken = self._answers.read(length)
        if len(taken) != length:
            raise ConnectionError("the server closed the connection")
        return taken

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def _list(self) -> list[bytes]:
        return [self._take(self._number()) for _ in range(self._number())]

    @staticmethod
    def _succeed(code: int, what: str) -> None:
        if code:
            raise TyrantError(f"{what}: code {code}")

    def put(self, key: bytes, value: bytes) -> None:
        """Stores a record and replaces an existing one."""
        self._succeed(self._send(PUT, struct.pack("!ii", len(key), len(value)), key, value), "put")

    def put_new(self, key: bytes, value: bytes) -> None:
        """Stores a record; an existing one is an error."""
        self._succeed(self._send(PUT_NEW, struct.pack("!ii", len(key), len(value)), key, value), "putkeep (existing record?)")

    def out(self, key: bytes) -> bool:
        """Removes a record; returns whether it existed."""
        return self._send(OUT, struct.pack("!i", len(key)), key) == 0

    def get(self, key: bytes) -> bytes | None:
        """A record's value."""
        return self._take(self._number()) if self._send(GET, struct.pack("!i", len(key)), key) == 0 else None

    def get_many(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Keys and values of the existing records."""
        code = self._send(GET_MANY, struct.pack("!i", len(keys)), *(struct.pack("!i", len(key)) + key for key in keys))
        records = []
        for _ in range(self._number()):
            key, value = struct.unpack("!ii", self._take(8))
            records.append((self._take(key), self._take(value)))
        self._succeed(code, "mget")
        return records

    def prefix_keys(self, prefix: bytes, limit: int = -1) -> list[bytes]:
        """The keys with a prefix."""
        code = self._send(PREFIX_KEYS, struct.pack("!ii", len(prefix), limit), prefix)
        found = self._list()
        self._succeed(code, "fwmkeys")
        return found

    def sync(self) -> None:
        """Returns when all writes are on disk."""
        self._succeed(self._send(SYNC), "sync")

    def optimize(self) -> None:
        """Rewrites the database with its present parameters."""
        self._succeed(self._send(OPTIMIZE, struct.pack("!i", 0)), "optimize")

    def size(self) -> int:
        """The size of the database in bytes."""
        self._succeed(self._send(SIZE), "size")
        return int.from_bytes(self._take(8), "big")

    def status(self) -> dict[str, str]:
        """The server's status fields."""
        self._succeed(self._send(STATUS), "stat")
        lines = self._take(self._number()).decode().splitlines()
        return {name: value for name, _, value in (line.partition("\t") for line in lines)}

    def misc(self, name: str, arguments: list[bytes], reads: bool = False) -> list[bytes] | None:
        """Calls a function by name. Returns None if it failed, which for some functions means that there is no record."""
        head = struct.pack("!iii", len(name), NO_UPDATE_LOG if reads else 0, len(arguments)) + name.encode()
        code = self._send(MISC, head, *(struct.pack("!i", len(one)) + one for one in arguments))
        found = self._list()
        return found if code == 0 else None

    def close(self) -> None:
        """Closes the connection."""
        self._answers.close()
        self._socket.close()
