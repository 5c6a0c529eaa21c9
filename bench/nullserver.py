"""A null server: it answers every request at once and does nothing. A client loop with it measures the client's own cost.

It has one thread and one poll loop, like the cheapest path of a real server. It supports MongoDB's wire protocol (OP_MSG, and the
OP_QUERY greeting), CouchDB's and PostgreSQL's, as far as the bench's clients need them.
"""

import os
import selectors
import socket
import struct
import sys

import bson

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
ORPHANED_SECONDS = 5.0
PERSON = {"_id": bson.ObjectId(b"\0" * 12), "name": "abcdefghij", "salary": 20000, "age": 40, "telephone": "0123456789"}


class MongoProtocol:
    """Answers writes and counts with n: 1, find and aggregate with one person, and other commands with a primary's greeting."""

    def __init__(self, port: int) -> None:
        address = f"127.0.0.1:{port}"
        greeting = {
            "helloOk": True,
            "isWritablePrimary": True,
            "ismaster": True,
            "setName": "null",
            "hosts": [address],
            "me": address,
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30,
            "minWireVersion": 0,
            "maxWireVersion": 25,
            "version": "8.0.0",
            "ok": 1.0,
        }
        self._greeting = bson.encode(greeting)
        one = bson.encode({"n": 1, "ok": 1.0})
        found = bson.encode({"cursor": {"id": 0, "ns": "a.b", "firstBatch": [PERSON]}, "ok": 1.0})
        self._answers = {
            **dict.fromkeys((b"insert", b"delete", b"count"), one),
            b"update": bson.encode({"n": 1, "nModified": 1, "ok": 1.0}),
            **dict.fromkeys((b"find", b"aggregate"), found),
        }

    def answer(self, buffer: bytearray) -> bytes:
        """Removes complete messages from the front of the buffer; returns the replies."""
        replies = b""
        while len(buffer) >= 16:
            length, request, _, code = struct.unpack_from("<iiii", buffer)
            if len(buffer) < length:
                break
            replies += self._reply(buffer, request, code)
            del buffer[:length]
        return replies

    def _reply(self, message: bytearray, request: int, code: int) -> bytes:
        if code == OP_QUERY:
            head, body = struct.pack("<iqii", 8, 0, 0, 1), self._greeting
        else:
            # The command's name follows header, flags, section kind, document length and the type of the first element.
            name = bytes(message[26 : message.index(0, 26)])
            head, body = b"\0\0\0\0\0", self._answers.get(name, self._greeting)
        answer_code = OP_REPLY if code == OP_QUERY else OP_MSG
        return struct.pack("<iiii", 16 + len(head) + len(body), 0, request, answer_code) + head + body


def _packet(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", 4 + len(body)) + body


class PostgresProtocol:
    """Answers selects with one jsonb row, and other statements as a write of one row."""

    READY = _packet(b"Z", b"I")
    COLUMN = _packet(b"T", struct.pack("!h", 1) + b"doc\0" + struct.pack("!ihihih", 0, 0, 3802, -1, -1, 0))
    DOCUMENT = b'{"name":"abcdefghij","salary":20000,"age":40,"telephone":"0123456789"}'
    ROW = _packet(b"D", struct.pack("!hi", 1, len(DOCUMENT)) + DOCUMENT)
    GREETING = (
        _packet(b"R", struct.pack("!i", 0))
        + b"".join(
            _packet(b"S", key + b"\0" + value + b"\0")
            for key, value in ((b"server_version", b"15.0"), (b"client_encoding", b"UTF8"), (b"DateStyle", b"ISO"))
        )
        + _packet(b"K", struct.pack("!ii", 1, 1))
        + READY
    )

    # The command tag that ends the reply, by the first word of the statement.
    TAGS = {b"select": b"SELECT 1\0", b"insert": b"INSERT 0 1\0", b"update": b"UPDATE 1\0", b"delete": b"DELETE 1\0"}

    def __init__(self, _port: int) -> None:
        self._prepared: dict[bytes, bytes] = {}
        self._verb = b""

    def answer(self, buffer: bytearray) -> bytes:
        """Removes complete messages from the front of the buffer; returns the replies."""
        replies = b""
        while len(buffer) >= 5:
            startup = buffer[0] == 0  # the first message has no type byte and is shorter than 2^24
            length = struct.unpack_from("!i", buffer, 0 if startup else 1)[0] + (0 if startup else 1)
            if len(buffer) < length:
                break
            replies += self.GREETING if startup else self._reply(bytes(buffer[:1]), bytes(buffer[5:length]))
            del buffer[:length]
        return replies

    def _reply(self, kind: bytes, body: bytes) -> bytes:
        if kind == b"P":
            name, statement = body.split(b"\0")[:2]
            self._prepared[name] = statement[:6].lower()
            return _packet(b"1")
        if kind == b"B":
            self._verb = self._prepared.get(body.split(b"\0", 2)[1], b"")
            return _packet(b"2")
        if kind == b"D":
            return self.COLUMN if self._verb == b"select" else _packet(b"n")
        if kind == b"E":
            end = _packet(b"C", self.TAGS.get(self._verb, b"SET\0"))
            return self.ROW + end if self._verb == b"select" else end
        if kind == b"Q":
            return _packet(b"C", b"SET\0") + self.READY
        if kind == b"S":
            return self.READY
        return b""


class HttpProtocol:
    """Answers GET and searches with one person, `_bulk_docs` with success, and other requests as a write of one document."""

    REVISION = b"1-00000000000000000000000000000000"
    WRITTEN = b'{"ok":true,"id":"0","rev":"' + REVISION + b'"}'
    PERSON = (
        b'{"_id":"0","_rev":"' + REVISION + b'","name":"abcdefghij","salary":20000,"age":40,'
        b'"telephone":"0123456789","version":"0","couchdb":"Welcome"}'
    )
    ROWS = b'{"total_rows":1,"offset":0,"rows":[{"id":"0","key":"0","value":{"rev":"' + REVISION + b'"},"doc":' + PERSON + b"}]}"
    # Replies for paths with these endings, by method.
    ANSWERS = {
        (b"GET", b"_all_docs"): ROWS,
        (b"GET", b"_index"): b'{"total_rows":0,"indexes":[]}',
        (b"POST", b"_bulk_docs"): b"[]",
        (b"POST", b"_find"): b'{"docs":[' + PERSON + b'],"bookmark":"nil"}',
        (b"POST", b"_index"): b'{"result":"created","id":"_design/0","name":"0"}',
        (b"POST", b"_temp_view"): ROWS,
    }

    def __init__(self, _port: int) -> None:
        self._heads = {
            status: b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: "
            for status in (b"200 OK", b"201 Created")
        }
        self._present = b'HTTP/1.1 200 OK\r\nETag: "' + self.REVISION + b'"\r\nContent-Length: 0\r\n\r\n'

    def answer(self, buffer: bytearray) -> bytes:
        """Removes complete requests from the front of the buffer; returns the responses."""
        replies = b""
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(buffer[:end])
            start = head.lower().find(b"content-length:")
            length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if b"chunked" in head.lower():
                if not buffer.endswith(b"0\r\n\r\n"):
                    break
                length = len(buffer) - end - 4
            if len(buffer) < end + 4 + length:
                break
            replies += self._reply(head)
            del buffer[: end + 4 + length]
        return replies

    def _reply(self, head: bytes) -> bytes:
        method, target = head.split(b" ", 2)[:2]
        if method == b"HEAD":
            return self._present
        name = target.partition(b"?")[0].rpartition(b"/")[2]
        body = self.ANSWERS.get((method, name), self.PERSON if method == b"GET" else self.WRITTEN)
        return self._heads[b"201 Created" if method in (b"POST", b"PUT") else b"200 OK"] + str(len(body)).encode() + b"\r\n\r\n" + body


PROTOCOLS = {"http": HttpProtocol, "mongo": MongoProtocol, "postgres": PostgresProtocol}


def serve(protocol: type, port: int) -> None:
    """Serves connections until this process or its parent ends."""
    parent = os.getppid()
    selector = selectors.DefaultSelector()
    listening = socket.create_server(("127.0.0.1", port), backlog=128)
    selector.register(listening, selectors.EVENT_READ)
    while True:
        ready = selector.select(ORPHANED_SECONDS)
        if not ready and os.getppid() != parent:
            return
        for key, _ in ready:
            if key.fileobj is listening:
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ, (protocol(port), bytearray()))
                connection.sendall(getattr(protocol, "WELCOME", b""))  # for protocols in which the server speaks first
                continue
            connection, (state, buffer) = key.fileobj, key.data
            try:
                received = connection.recv(1 << 20)
                buffer += received
                if received:
                    replies = state.answer(buffer)
                    if replies:
                        connection.sendall(replies)
                    continue
            except OSError:
                pass  # the client closed the connection; close this side too
            selector.unregister(connection)
            connection.close()


def main() -> None:
    """Runs `nullserver PROTOCOL PORT`."""
    serve(PROTOCOLS[sys.argv[1]], int(sys.argv[2]))


if __name__ == "__main__":
    main()
