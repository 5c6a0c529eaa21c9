"""`python -m bench.memory`: how much memory Diwan's server holds during and after mixes of work, and their CPU time.

Each mix runs against a server of its own; `all` runs all mixes one after another against one server. For each mix the table
shows the server's CPU time per operation, its peak of resident memory, and its resident memory after an idle time. Several
programs (`--program NAME=PATH`, with `+VARIABLE=VALUE` after the path for environment variables) take turns, so that other
load on the machine affects all of them. The table shows medians over the rounds.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import bson
import pymongo

from bench import process

ROOT = Path(__file__).resolve().parent
CLIENTS = 8
MEGABYTE = 1 << 20
LARGE = 16 * 1024 * 1024 - 1024
SMALL = 1000


class Server:
    """One server on free ports, in an empty directory."""

    def __init__(self, program: str, cache_size: str, directory: Path):
        path, *settings = program.split("+")
        self.directory = directory
        command = [path, "serve", "--data", str(directory / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command += ["--cache-size", cache_size, "--log", "error", "--max-connections", "8192"]
        environment = {**os.environ, **dict(setting.split("=", 1) for setting in settings)}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        greeting = "".join(self.process.stdout.readline() for _ in range(4))
        self.port = int(re.search(r"mongodb://127\.0\.0\.1:(\d+)", greeting)[1])
        self.http_port = int(re.search(r"http://127\.0\.0\.1:(\d+)", greeting)[1])

    def status(self, field: str) -> int:
        """A field of the process's `/proc/PID/status`, in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)[1]) << 10

    def forget_peak(self) -> None:
        """Resets the kernel's peak of resident memory."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu(self) -> float:
        return process.cpu_seconds(self.process.pid)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)


def collection(server, name: str):
    """A collection, over a new connection."""
    client = pymongo.MongoClient("127.0.0.1", server.port, directConnection=True, retryWrites=False)
    return client.get_database("memory").get_collection(name)


def relaxed(server, name: str):
    """The same, with writes that do not wait for the disk."""
    return collection(server, name).with_options(write_concern=pymongo.WriteConcern(w=1))


def request(server, method: str, path: str, body=None) -> int:
    """Sends a request and streams its answer; returns the answer's length in bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=600)
    text = None if body is None else json.dumps(body)
    connection.request(method, f"/memory%2F{path}", text, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    read = 0
    while part := answer.read(MEGABYTE):
        read += len(part)
    connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{method} {path}: {answer.status}")
    return read


def together(work, server, *arguments) -> int:
    """Runs `work` in `CLIENTS` processes at once, each with a number; returns the sum of their operations."""
    context = multiprocessing.get_context("fork")
    with context.Pool(CLIENTS) as pool:
        address = Address(server)
        return sum(pool.starmap(work, [(address, number, *arguments) for number in range(CLIENTS)], chunksize=1))


class Address:
    """A server's ports, for the client processes."""

    def __init__(self, server):
        self.port, self.http_port = server.port, server.http_port


def small(number: int, chance: random.Random) -> dict:
    return {"_id": number, "n": number, "r": chance.randrange(1 << 30), "group": number % 1000, "text": chance.randbytes(SMALL // 2).hex()}


def load_part(server, part: int, count: int) -> int:
    documents, chance = relaxed(server, "documents"), random.Random(part)
    for first in range(part * count, (part + 1) * count, 500):
        documents.insert_many([small(number, chance) for number in range(first, first + 500)], ordered=False)
    return count


def load(server, scale: float) -> int:
    """Loads 120 MB of documents if they are missing; returns how many."""
    count = int(15_000 * scale) // 500 * 500
    if collection(server, "documents").estimated_document_count():
        return 0
    collection(server, "documents").create_index("r")
    return together(load_part, server, count)


def work_part(server, part: int, count: int) -> int:
    documents, chance = relaxed(server, "documents"), random.Random(part)
    for _ in range(count // 10):
        documents.find_one({"_id": chance.randrange(count * CLIENTS)})
        documents.update_one({"_id": chance.randrange(count * CLIENTS)}, {"$set": {"r": chance.randrange(1 << 30)}})
        documents.find_one({"r": {"$gte": chance.randrange(1 << 30)}}, sort=[("r", 1)])
    documents.count_documents({"text": {"$gt": "8"}})
    sum(1 for _ in documents.find({}, batch_size=5000))
    request(server, "GET", "documents/_all_docs?include_docs=true")
    return count // 10 * 3 + 3


def mixed(server, scale):
    """Loads 120 MB of small documents; reads and updates at random; scans through both faces."""
    loaded = load(server, scale)
    return loaded + together(work_part, server, int(15_000 * scale))


def large_documents(server) -> None:
    documents = relaxed(server, "large")
    if not documents.estimated_document_count():
        for number in range(CLIENTS):
            documents.insert_one({"_id": f"{number}", "text": "x" * LARGE})


def update_large(server, part: int) -> int:
    documents = relaxed(server, "large")
    for number in range(6):
        assert documents.update_one({"_id": f"{part}"}, {"$set": {"n": number}}).modified_count == 1
    return 6


def large_updates(server, _):
    """Eight clients update a document of 16 MB each, six times."""
    large_documents(server)
    return together(update_large, server)


def read_changes(server, _) -> int:
    assert request(server, "GET", "large/_changes?include_docs=true") > CLIENTS * LARGE
    return 1


def changes(server, _):
    """Eight clients read a `_changes` of 128 MB each."""
    large_documents(server)
    return together(read_changes, server)


def write_bulk(server, part: int, count: int) -> int:
    documents, chance = relaxed(server, "bulk"), random.Random(part)
    text = chance.randbytes(SMALL * 10).hex()
    for _ in range(2):
        documents.insert_many([{"n": number, "text": text} for number in range(count)], ordered=False)
        request(server, "POST", "bulk/_bulk_docs", {"docs": [{"n": number, "text": text} for number in range(count)]})
    return 4 * count


def bulk(server, scale):
    """Eight clients send commands and `_bulk_docs` of 40 MB each."""
    collection(server, "bulk").create_index("n")
    return together(write_bulk, server, int(2000 * scale))


def build_views(server, part: int) -> int:
    view = {"map": f"function (doc) {{ emit([doc.group, {part}], doc.text); }}", "reduce": "_count"}
    if part < 2:
        request(server, "PUT", f"documents/_design/d{part}", {"views": {"v": view}})
        request(server, "GET", f"documents/_design/d{part}/_view/v?group_level=1")
        request(server, "GET", f"documents/_design/d{part}/_view/v?reduce=false")
    elif part < 4:
        request(server, "POST", "documents/_temp_view", {"map": view["map"]})
    return 1


def views(server, scale):
    """Builds two views over 120 MB and reads them; two temporary views beside them."""
    return load(server, scale) + together(build_views, server)


def sort_part(server, part: int) -> int:
    documents = collection(server, "documents")
    sorts = [{"text": 1}], [{"group": 1, "text": -1}]
    pipelines = [
        [{"$sort": sorts[part % 2][0]}, {"$project": {"n": 1}}],
        [{"$group": {"_id": "$text", "n": {"$sum": 1}}}, {"$count": "n"}],
        [{"$facet": {"a": [{"$count": "n"}], "b": [{"$sort": {"n": -1}}, {"$limit": 5}]}}],
        [{"$sort": {"r": -1, "text": 1}}, {"$group": {"_id": "$group", "all": {"$push": "$n"}}}],
    ]
    for pipeline in pipelines[part % 4 :] + pipelines[: part % 4]:
        sum(1 for _ in documents.aggregate(pipeline, allowDiskUse=True, batchSize=5000))
    return 4


def sorts(server, scale):
    """Eight clients sort, group and facet 120 MB each, four times."""
    return load(server, scale) + together(sort_part, server)


def stalled(server, scale):
    """2,000 clients, half of them on each face, request 6 MB of sorted documents and read nothing."""
    documents = relaxed(server, "stalled")
    if not documents.estimated_document_count():
        documents.insert_many([{"_id": f"{number:06}", "n": number, "text": "x" * 2000} for number in range(3000)])
    command = {"aggregate": "stalled", "pipeline": [{"$sort": {"n": 1}}], "cursor": {"batchSize": 300}, "$db": "memory"}
    command = struct.pack("<IB", 0, 0) + bson.encode(command)
    command = struct.pack("<iiii", 16 + len(command), 1, 0, 2013) + command
    body = json.dumps([{"$sort": {"n": -1}}])
    post = "POST /memory%2Fstalled/_aggregate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    post = f"{post}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    clients = []
    for number in range(int(2000 * scale)):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.http_port if number % 2 else server.port))
        client.sendall(post if number % 2 else command)
        clients.append(client)
    end = time.monotonic() + 300
    before = -1.0
    # Wait until the server is idle.
    while server.cpu() - before > 0.02 and time.monotonic() < end:
        before = server.cpu()
        time.sleep(1)
    for client in clients:
        client.close()
    return len(clients)


MIXES = {
    "mixed": mixed,
    "large updates": large_updates,
    "_changes": changes,
    "bulk": bulk,
    "views": views,
    "sorts": sorts,
    "stalled": stalled,
}


class Sampler:
    """Samples the resident memory; `peak` is the highest sample, or the kernel's own peak if that is higher."""

    def __init__(self, server):
        self.server, self.peak, self.ended = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.peak = max(self.peak, self.server.status("VmHWM"))

    def run(self):
        while not self.ended.wait(0.02):
            self.peak = max(self.peak, self.server.status("VmRSS"))


def measure(program: str, names: list[str], options) -> dict:
    """Runs these mixes one after another against one server."""
    directory = Path(tempfile.mkdtemp(prefix="memory-", dir=options.temporary))
    server = Server(program, options.cache_size, directory)
    try:
        server.forget_peak()
        begun = server.cpu()
        with Sampler(server) as sampler:
            operations = sum(MIXES[name](server, options.scale) for name in names)
        cpu = server.cpu() - begun
        time.sleep(options.rest)
        return {"cpu": cpu / operations, "peak": sampler.peak, "after": server.status("VmRSS"), "anonymous": server.status("RssAnon")}
    finally:
        server.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.splitlines()[0])
    parser.add_argument("mixes", nargs="*", metavar="MIX", help=", ".join([*MIXES, "all"]))
    parser.add_argument("--program", action="append", metavar="NAME=PATH[+VARIABLE=VALUE…]", help="may be given several times")
    parser.add_argument("--cache-size", default="64MiB")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the numbers of documents and of clients that do not read")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rest", type=float, default=15.0, help="idle seconds before the last measurement")
    parser.add_argument("--temporary", type=Path, default=ROOT / "tmp")
    options = parser.parse_args()
    programs = options.program or [f"diwan={ROOT.parent / 'target/release/diwan'}"]
    programs = dict(program.split("=", 1) for program in programs)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    options.temporary.mkdir(parents=True, exist_ok=True)
    print("| mix | program | CPU µs per operation | peak MB | MB afterwards | anonymous MB afterwards |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for mix in options.mixes or [*MIXES, "all"]:
        names = list(MIXES) if mix == "all" else [mix]
        found = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, program in programs.items():
                found[name].append(measure(program, names, options))
        for name, runs in found.items():
            cpu, peak, after, anonymous = (statistics.median(run[key] for run in runs) for key in ("cpu", "peak", "after", "anonymous"))
            row = f"{cpu * 1e6:.1f} | {peak >> 20} | {after >> 20} | {anonymous >> 20}" if isinstance(peak, int) else None
            row = row or f"{cpu * 1e6:.1f} | {peak / MEGABYTE:.0f} | {after / MEGABYTE:.0f} | {anonymous / MEGABYTE:.0f}"
            print(f"| {mix} | {name} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
