"""How much memory the server holds during many large requests at once, and afterwards.

The bounds are far above the measured values (docs/performance.md, "Memory"). The tests do not depend on the speed of the
machine: they wait until memory is released.
"""

import socket
import struct
import threading
import time

import bson
import pytest
from http_client import Http
from pymongo import MongoClient, WriteConcern
from server_process import ServerProcess
from wire import WireConnection

MEGABYTE = 1 << 20
CACHE = 64 * MEGABYTE
DURING = CACHE + 900 * MEGABYTE
AFTERWARDS = CACHE + 200 * MEGABYTE
CLIENTS = 8
LARGE = 16 * MEGABYTE - 1024
SECONDS = 300.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("memory"), arguments=("--cache-size", "64MiB")).start()
    documents = collection(process, "large")
    for number in range(CLIENTS):
        documents.insert_one({"_id": f"{number}", "text": "x" * LARGE})
    small = [{"_id": f"{number:06}", "n": number, "text": "x" * 2000} for number in range(3000)]
    collection(process, "small").insert_many(small)
    yield process
    process.end()


def collection(server, name):
    return MongoClient(server.uri)["test"].get_collection(name, write_concern=WriteConcern(w=1))


def resident(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


class Watch:
    """Fails if the server exceeds `DURING` within the block, or still exceeds `AFTERWARDS` when `SECONDS` have passed after it."""

    def __init__(self, server):
        self.server, self.peak, self.ended = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.wait(0.02):
            self.peak = max(self.peak, resident(self.server))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        self.thread.join()
        if kind:
            return
        assert self.peak < DURING, f"the server held {self.peak >> 20} MB"
        end = time.monotonic() + SECONDS
        while (held := resident(self.server)) > AFTERWARDS:
            assert time.monotonic() < end, f"the server still holds {held >> 20} MB"
            time.sleep(0.2)
        print(f"\nat most {self.peak >> 20} MB, afterwards {held >> 20} MB", end="")


def together(work):
    """Runs `work` in `CLIENTS` threads at once, each with its number."""
    failures = []

    def run(number):
        try:
            work(number)
        except Exception as error:  # reported by the thread that waits
            failures.append(repr(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_updates_of_large_documents_share_memory(server):
    def update(part):
        documents = collection(server, "large")
        for number in range(3):
            assert documents.update_one({"_id": f"{part}"}, {"$set": {"n": number}}).modified_count == 1

    with Watch(server):
        together(update)


def test_reads_of_large_documents_share_memory(server):
    def read(part):
        found = collection(server, "large").find_one({"_id": f"{part}"})
        assert len(found["text"]) == LARGE

    with Watch(server):
        together(read)


def test_changes_with_large_documents_share_memory(server):
    def read(_):
        answer = Http(server.url).get("large/_changes", params={"include_docs": "true"}, stream=True, timeout=SECONDS)
        assert sum(len(part) for part in answer.iter_content(MEGABYTE)) > CLIENTS * LARGE

    with Watch(server):
        together(read)


def test_unread_sorted_results_and_replies_do_not_stay_in_memory(server):
    command = {"aggregate": "small", "pipeline": [{"$sort": {"n": 1}}], "cursor": {"batchSize": 300}, "$db": "test"}
    body = struct.pack("<IB", 0, 0) + bson.encode(command)
    message = struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
    clients = []
    with Watch(server):
        for _ in range(150):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(message)
            clients.append(client)
        # A client that reads late gets its complete reply, also if it waited in a file.
        for client in clients[::10]:
            client.settimeout(SECONDS)
            first = b""
            while len(first) < 16:
                first += client.recv(16 - len(first))
            left = struct.unpack("<i", first[:4])[0] - 16
            reply = b""
            while len(reply) < left:
                reply += client.recv(left - len(reply))
            cursor = bson.decode(reply[5:])["cursor"]
            numbers = [document["n"] for document in cursor["firstBatch"]]
            # A batch ends early while too many are made at once, so only its greatest length is known.
            assert 0 < len(numbers) <= 300
            with WireConnection(server.port) as other:
                while cursor["id"]:
                    cursor = other.command("test", {"getMore": cursor["id"], "collection": "small"})["cursor"]
                    numbers += [document["n"] for document in cursor["nextBatch"]]
            assert numbers == list(range(3000))
        for client in clients:
            client.close()
