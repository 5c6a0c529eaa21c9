"""A null server with MySQL's protocol, which answers every statement at once; see `nullserver`."""

import struct
import sys

from bench.nullserver import serve

OK, EOF, HANDSHAKE = 0x00, 0xFE, 10
QUIT = 0x01
LONGLONG, VAR_STRING = 8, 253
UTF8MB4 = 45
LONGEST = 0xFFFFFF  # a packet of this length continues in the next one
# Capabilities: long passwords and columns, a database name at connect, protocol 4.1, transactions, 4.1 passwords, authentication plugins.
CAPABILITIES = 0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000
AUTOCOMMIT = 2


def _packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def _counted(text: bytes) -> bytes:
    """A text of fewer than 251 bytes, with a length prefix."""
    return bytes([len(text)]) + text


def _ok(number: int, rows: int) -> bytes:
    return _packet(number, struct.pack("<BBBHH", OK, rows, 0, AUTOCOMMIT, 0))


class MySQLProtocol:
    """Answers a select of `doc` with one document, a count with 1, other selects with texts, and the rest as a write of one row."""

    WELCOME = _packet(
        0,
        struct.pack("<B", HANDSHAKE)
        + b"8.0.0-null\0"
        + struct.pack("<I", 1)
        + b"8 random\0"
        + struct.pack("<HBHHB", CAPABILITIES & 0xFFFF, UTF8MB4, AUTOCOMMIT, CAPABILITIES >> 16, 21)
        + bytes(10)
        + b"12 of random\0"
        + b"mysql_native_password\0",
    )
    DOCUMENT = b'{"name":"abcdefghij","salary":20000,"age":40,"telephone":"0123456789"}'
    TEXT = b"1234567890"  # valid JSON too, for JSON columns

    def __init__(self, _port: int) -> None:
        self._greeted = False
        self._results: dict[bytes, bytes] = {}

    def answer(self, buffer: bytearray) -> bytes:
        """Removes complete packets from the front of the buffer; returns the replies."""
        replies = b""
        while len(buffer) >= 4:
            length = int.from_bytes(buffer[:3], "little")
            if len(buffer) < 4 + length:
                break
            number = buffer[3] + 1
            if not self._greeted:
                self._greeted = True
                replies += _ok(number, 0)
            elif length < LONGEST and buffer[4] != QUIT:
                replies += self._reply(bytes(buffer[5 : min(4 + length, 1000)]), number)
            del buffer[: 4 + length]
        return replies

    def _reply(self, statement: bytes, number: int) -> bytes:
        if not statement.startswith(b"select "):
            return _ok(number, 1)
        wanted = statement[7 : statement.find(b" from ")]
        if wanted not in self._results:
            self._results[wanted] = self._result([column.strip() for column in wanted.split(b",")], number)
        return self._results[wanted]

    def _result(self, columns: list[bytes], number: int) -> bytes:
        """A result set of one row."""
        end = struct.pack("<BHH", EOF, 0, AUTOCOMMIT)
        values = [{b"doc": self.DOCUMENT, b"count(*)": b"1"}.get(column, self.TEXT) for column in columns]
        definitions = [self._definition(LONGLONG if column == b"count(*)" else VAR_STRING) for column in columns]
        bodies = [bytes([len(columns)]), *definitions, end, b"".join(map(_counted, values)), end]
        return b"".join(_packet(number + place, body) for place, body in enumerate(bodies))

    @staticmethod
    def _definition(kind: int) -> bytes:
        names = b"".join(map(_counted, (b"def", b"", b"", b"", b"column", b"column")))
        return names + b"\x0c" + struct.pack("<HIBHBH", UTF8MB4, 255, kind, 0, 0, 0)


def main() -> None:
    """Runs `nullmysql PROTOCOL PORT`, like the other null servers."""
    serve(MySQLProtocol, int(sys.argv[2]))


if __name__ == "__main__":
    main()
