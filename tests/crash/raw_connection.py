"""A connection that sends commands unchanged. Drivers would add sessions and retries of their own."""

import socket
import struct

import bson
from bson.codec_options import CodecOptions

OP_MSG = 2013
HEADER = struct.Struct("<iiii")
CODEC = CodecOptions(tz_aware=False)


class Lost(Exception):
    """The connection broke. The command may or may not have been done."""


class Connection:
    def __init__(self, port: int, timeout: float = 30):
        self.requests = 0
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Lost from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def command(self, database: str, command: dict) -> dict:
        """Runs a command and returns its reply, also if it failed."""
        self.send(database, command)
        try:
            length, _, answered, code = HEADER.unpack(self._read(16))
            reply = self._read(length - 16)
        except OSError as error:
            raise Lost from error
        assert (answered, code) == (self.requests, OP_MSG)
        return bson.decode(reply[5:], CODEC)

    def send(self, database: str, command: dict) -> None:
        """Sends a command without waiting for its reply."""
        body = bson.encode({**command, "$db": database})
        self.requests += 1
        message = HEADER.pack(16 + 5 + len(body), self.requests, 0, OP_MSG) + struct.pack("<IB", 0, 0) + body
        try:
            self.socket.sendall(message)
        except OSError as error:
            raise Lost from error

    def run(self, database: str, command: dict) -> dict:
        """Runs a command that must succeed, and returns its reply."""
        reply = self.command(database, command)
        assert reply["ok"] == 1 and not reply.get("writeErrors") and not reply.get("writeConcernError"), (command, reply)
        return reply

    def find(self, database: str, collection: str, **options) -> list[dict]:
        """All documents that a find with these options returns."""
        cursor = self.run(database, {"find": collection, "batchSize": 10_000, **options})["cursor"]
        found = cursor["firstBatch"]
        while cursor["id"]:
            more = {"getMore": cursor["id"], "collection": collection, "batchSize": 10_000}
            cursor = self.run(database, more)["cursor"]
            found += cursor["nextBatch"]
        return found

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Lost
            data += part
        return bytes(data)
