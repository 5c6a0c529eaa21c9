"""A connection that sends commands exactly as given: drivers put their own session and transaction number on them."""

import itertools
import socket
import struct

import bson
from pymongo.errors import OperationFailure

OP_MSG = 2013


class WireConnection:
    """One socket on which OP_MSG messages go out and come back."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.requests = itertools.count(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def command(self, database: str, command: dict) -> dict:
        """The reply; an exception as pymongo's if it is a failure."""
        self.send(database, command)
        return self.receive()

    def send(self, database: str, command: dict):
        body = struct.pack("<IB", 0, 0) + bson.encode({**command, "$db": database})
        self.socket.sendall(struct.pack("<iiii", 16 + len(body), next(self.requests), 0, OP_MSG) + body)

    def receive(self) -> dict:
        length, _, _, _ = struct.unpack("<iiii", self._read(16))
        reply = bson.decode(self._read(length - 16)[5:])
        if not reply["ok"]:
            raise OperationFailure(reply["errmsg"], reply["code"], reply)
        return reply

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return data
