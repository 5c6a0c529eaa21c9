"""Stalled clients: they do not read their answers, send incomplete requests, or are idle. Other clients must not wait.

DIWAN_STALLED_CLIENTS sets the number of stalled clients for every case; without it the numbers are small. The latencies of
the other clients are printed (`pytest -s`). Their bounds are generous, because they depend on the machine.
"""

import contextlib
import json
import os
import resource
import socket
import struct
import threading
import time

import bson
import pytest
from http_client import Http
from server_process import ServerProcess
from wire import WireConnection

ASKED = os.environ.get("DIWAN_STALLED_CLIENTS")
MANY = int(ASKED or 1200)
FEW = int(ASKED or 200)
DOCUMENTS = 3000
LOCAL_DOCUMENTS = 500
SECONDS = 30.0
BYTES_FOR_EACH = 256 << 10
BYTES_AT_LEAST = 300 << 20
KINDS = (
    "http quick",
    "http document",
    "http view",
    "http, new connection",
    "mongo ping",
    "mongo find",
    "mongo, new connection",
)

DESIGN = {
    "views": {
        "text": {"map": "function (doc) { emit(doc.n, doc.text); }"},
        "count": {"map": "function (doc) { emit(doc.text + doc.n, 1); }", "reduce": "_count"},
    },
    "lists": {"rows": "function () { var row; while (row = getRow()) send(toJSON(row) + '\\n'); }"},
    "filters": {"all": "function (doc) { return true; }"},
}


def raise_limit():
    """Raises the limit of open files to the maximum for this process and the server that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@pytest.fixture(scope="module")
def stalled_server(tmp_path_factory):
    """A server with the data for the long answers."""
    files = raise_limit()
    if files != resource.RLIM_INFINITY and files < MANY + 600:
        pytest.skip(f"{files} files are too few for {MANY} connections")
    process = ServerProcess(tmp_path_factory.mktemp("stalled"), arguments=("--max-connections", "8192")).start()
    http = Http(process.url)
    text = "x" * 2000
    for name, query in [("plain", ""), ("parts", "?partitioned=true")]:
        database = http.database(name)
        assert database.put(query).status_code in (201, 202)
        prefix = "p:" if query else ""
        docs = [{"_id": f"{prefix}{n:06}", "n": n, "text": text} for n in range(DOCUMENTS)]
        assert database.post("_bulk_docs", json={"docs": docs}).status_code == 201
        assert database.put("_design/d", json=DESIGN).status_code == 201
        path = "_partition/p/_design/d/_view/text" if query else "_design/d/_view/text"
        assert database.get(path, params={"limit": 1}).status_code == 200
    plain = http.database("plain")
    for n in range(LOCAL_DOCUMENTS):
        assert plain.put(f"_local/{n:04}", json={"text": text * 3}).status_code == 201
    assert plain.put("file/a", data=b"7" * (8 << 20), headers={"Content-Type": "image/png"}).status_code == 201
    yield process
    process.end()


def resident(process):
    """The server's resident memory in bytes."""
    with open(f"/proc/{process.process.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def connect(port):
    """A connection with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(30)
    client.connect(("127.0.0.1", port))
    return client


def ask(port, message):
    client = connect(port)
    client.sendall(message)
    return client


class Others:
    """Active clients of both faces, which send small requests on open and on new connections."""

    def __init__(self, process):
        self.process = process
        self.times = {}
        self.failures = []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(work,)) for work in (self.http, self.mongo)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(4 * SECONDS)
            assert kind or not thread.is_alive(), "other clients get no answers"
        assert kind or not self.failures, self.failures

    def run(self, work):
        try:
            with contextlib.closing(work()) as steps:
                while not self.ended.is_set():
                    begun = time.monotonic()
                    name = next(steps)
                    self.times.setdefault(name, []).append(time.monotonic() - begun)
                    time.sleep(0.005)
        except Exception as error:  # raised by the main thread
            self.failures.append(repr(error))

    def http(self):
        kept = Http(self.process.url)
        while True:
            assert kept.get("_up", timeout=SECONDS).status_code == 200
            yield "http quick"
            assert kept.get("plain/000001", timeout=SECONDS).status_code == 200
            yield "http document"
            view = kept.get("plain/_design/d/_view/text", params={"limit": 1}, timeout=SECONDS)
            assert view.status_code == 200
            yield "http view"
            new = Http(self.process.url)
            assert new.get("plain/_all_docs", params={"limit": 1}, timeout=SECONDS).status_code == 200
            new.session.close()
            yield "http, new connection"

    def mongo(self):
        with WireConnection(self.process.port) as kept:
            while True:
                kept.command("admin", {"ping": 1})
                yield "mongo ping"
                kept.command("test", {"find": "plain", "filter": {"_id": "000001"}})
                yield "mongo find"
                with WireConnection(self.process.port) as new:
                    new.command("admin", {"hello": 1})
                yield "mongo, new connection"

    def check(self, what):
        """Checks that every kind of request was answered in time, and prints the latencies."""
        worst = []
        for name, times in sorted(self.times.items()):
            times = sorted(times)
            worst.append(f"{name} {times[int(len(times) * 0.99)] * 1000:.1f}")
            assert times[-1] < SECONDS, (what, name, times[-1])
        print(f"\n{what}: p99 in ms: {', '.join(worst)}", end="")


def hold(process, count, client, bytes_for_each=BYTES_FOR_EACH):
    """Holds `count` stalled clients while active clients work. Checks the active clients and the growth of memory."""
    before = resident(process)
    with contextlib.ExitStack() as clients, Others(process) as others:
        begun = time.monotonic()
        for number in range(count):
            clients.enter_context(contextlib.closing(client(number)))
        if ASKED:
            # The latencies are measured when all stalled clients have stalled.
            time.sleep(3.0)
            others.times.clear()
        # Ends when the stalled clients have received what they accept, and active clients were served meanwhile.
        end = time.monotonic() + (3.0 if ASKED else 1.0)
        seen = {name: len(others.times.get(name, ())) for name in KINDS}
        while time.monotonic() < end or any(len(others.times.get(name, ())) < seen[name] + 5 for name in KINDS):
            assert not others.failures, others.failures
            assert time.monotonic() < begun + 20 * SECONDS, "other clients get no answers"
            time.sleep(0.05)
        grown = resident(process) - before
    assert grown < max(BYTES_AT_LEAST, count * bytes_for_each), f"{grown >> 20} MB for {count} clients"
    return others, grown


def get(path, *headers):
    return "\r\n".join([f"GET /{path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def post(path, body):
    text = json.dumps(body)
    head = ["Host: localhost", "Content-Type: application/json", f"Content-Length: {len(text)}"]
    return "\r\n".join([f"POST /{path} HTTP/1.1", *head, "", text]).encode()


def op_msg(command):
    body = struct.pack("<IB", 0, 0) + bson.encode(command)
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


IDS = [f"{n:06}" for n in range(DOCUMENTS)]
LONG = {
    "_all_docs": get("plain/_all_docs?include_docs=true"),
    "view": get("plain/_design/d/_view/text"),
    "_changes": get("plain/_changes?include_docs=true"),
    "_find": post("plain/_find", {"selector": {}, "limit": DOCUMENTS}),
    "attachment": get("plain/file/a"),
}
OTHER = {
    "_all_docs, keys": post("plain/_all_docs?include_docs=true", {"keys": IDS}),
    "_all_docs/queries": post("plain/_all_docs/queries", {"queries": [{"include_docs": True}, {}]}),
    "_local_docs": get("plain/_local_docs?include_docs=true"),
    "_local_docs/queries": post("plain/_local_docs/queries", {"queries": [{"include_docs": True}]}),
    "view, keys": post("plain/_design/d/_view/text", {"keys": list(range(DOCUMENTS))}),
    "view, documents": get("plain/_design/d/_view/text?include_docs=true"),
    "view, grouped": get("plain/_design/d/_view/count?group=true"),
    "view/queries": post("plain/_design/d/_view/text/queries", {"queries": [{}, {}]}),
    "_list": get("plain/_design/d/_list/rows/text"),
    "_changes, longpoll": get("plain/_changes?include_docs=true&feed=longpoll"),
    "_changes, continuous": get("plain/_changes?include_docs=true&feed=continuous&heartbeat=1000"),
    "_changes, eventsource": get("plain/_changes?include_docs=true&feed=eventsource"),
    "_changes, descending": get("plain/_changes?include_docs=true&descending=true"),
    "_changes, by ids": post("plain/_changes?include_docs=true&filter=_doc_ids", {"doc_ids": IDS}),
    "_changes, selector": post("plain/_changes?include_docs=true&filter=_selector", {"selector": {}}),
    "_bulk_get": post("plain/_bulk_get", {"docs": [{"id": name} for name in IDS]}),
    "_aggregate": post("plain/_aggregate", [{"$match": {}}]),
    "_aggregate, sorted": post("plain/_aggregate", [{"$sort": {"n": -1}}]),
    "document with attachments": get("plain/file?attachments=true"),
    "document in parts": get("plain/file?attachments=true", "Accept: multipart/related"),
    "open_revs": get("plain/file?open_revs=all&attachments=true", "Accept: multipart/mixed"),
    "attachment, range": get("plain/file/a", "Range: bytes=1-8000000"),
    "attachment, ranges": get("plain/file/a", "Range: bytes=1-4000000,4000002-8000000"),
    "partition, _all_docs": get("parts/_partition/p/_all_docs?include_docs=true"),
    "partition, view": get("parts/_partition/p/_design/d/_view/text"),
    "partition, _find": post("parts/_partition/p/_find", {"selector": {}, "limit": DOCUMENTS}),
}
MAPPED = {
    "_temp_view": post("plain/_temp_view", {"map": "function (doc) { emit(doc.n, doc.text); }"}),
    "_list of all documents": get("plain/_design/d/_list/rows/_all_docs"),
    "_changes, function": get("plain/_changes?include_docs=true&filter=d/all"),
}


@pytest.mark.parametrize("name", [*LONG, *OTHER, *MAPPED])
def test_unread_http_answers_do_not_block_others(stalled_server, name):
    message = LONG.get(name) or OTHER.get(name) or MAPPED.get(name)
    count = MANY if name in LONG else FEW
    # Sorted results and results made for one request stay in memory until the client has read them.
    bytes_for_each = 8 << 20 if name in (*MAPPED, "_aggregate, sorted") else BYTES_FOR_EACH
    if str(IDS[-1]).encode() in message or name == "view, keys":
        bytes_for_each += 1 << 20  # the keys of the request
    others, grown = hold(stalled_server, count, lambda _: ask(stalled_server.http_port, message), bytes_for_each)
    others.check(f"{count} x {name}, {grown >> 20} MB")


def test_unread_http2_streams_do_not_block_others(stalled_server):
    """Opens 64 streams with a request on each. The flow-control window of 64 KB holds the answers back."""

    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def text(value):
        return bytes([len(value)]) + value.encode()

    head = b"\x82\x86\x01" + text("localhost") + b"\x04" + text("/plain/_all_docs?include_docs=true")
    message = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    message += b"".join(frame(1, 5, 1 + 2 * stream, head) for stream in range(64))
    count = max(FEW // 64, 2)
    others, grown = hold(stalled_server, count, lambda _: ask(stalled_server.http_port, message))
    others.check(f"{count} x 64 streams, {grown >> 20} MB")


def test_unread_mongodb_replies_do_not_block_others(stalled_server):
    """A MongoDB reply is complete before it is sent, so each client costs the unsent part of its reply."""
    megabyte = 1 << 20
    find = op_msg({"find": "plain", "batchSize": 300, "$db": "test"})
    others, grown = hold(stalled_server, MANY, lambda _: ask(stalled_server.port, find), megabyte)
    others.check(f"{MANY} x find, {grown >> 20} MB")
    pipeline = [{"$sort": {"n": 1}}]
    aggregate = op_msg({"aggregate": "plain", "pipeline": pipeline, "cursor": {"batchSize": 300}, "$db": "test"})
    # The sorted documents stay in memory for the next batches.
    others, grown = hold(stalled_server, FEW, lambda _: ask(stalled_server.port, aggregate), 8 * megabyte)
    others.check(f"{FEW} x aggregate, {grown >> 20} MB")


def test_incomplete_messages_and_bodies_do_not_block_others(stalled_server):
    body = b'{"docs":[' + b" " * 1000
    head = "POST /plain/_bulk_docs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    cases = {
        "long body": (stalled_server.http_port, f"{head}Content-Length: 1000000\r\n\r\n".encode() + body),
        "short body": (stalled_server.http_port, f"{head}Content-Length: 5000\r\n\r\n".encode() + body),
        "chunked body": (stalled_server.http_port, f"{head}Transfer-Encoding: chunked\r\n\r\n3e8\r\n".encode() + body),
        "attachment": (
            stalled_server.http_port,
            b"PUT /plain/slow/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + b"7" * 1000,
        ),
        "head": (stalled_server.http_port, b"GET /plain HTTP/1.1\r\nHost: loc"),
        "message": (stalled_server.port, struct.pack("<iiii", 40_000_000, 1, 0, 2013) + b"\0" * 1000),
    }
    for name, (port, message) in cases.items():
        others, grown = hold(stalled_server, MANY, lambda _, port=port, message=message: ask(port, message))
        others.check(f"{MANY} x {name}, {grown >> 20} MB")


def test_messages_sent_byte_by_byte_are_answered(stalled_server):
    ping = op_msg({"ping": 1, "$db": "admin"})
    clients = [ask(stalled_server.port, ping[:1]) for _ in range(FEW)]
    with Others(stalled_server) as others:
        for at in range(1, len(ping)):
            for client in clients:
                client.sendall(ping[at : at + 1])
        for client in clients:
            assert client.recv(16)
            client.close()
    others.check(f"{FEW} x byte by byte")


def test_idle_connections_do_not_block_others(stalled_server):
    def silent(number):
        return connect(stalled_server.http_port if number % 2 else stalled_server.port)

    others, grown = hold(stalled_server, 2 * MANY, silent)
    others.check(f"{2 * MANY} silent, {grown >> 20} MB")
