"""Many collections: the cost of commands and starts that involve all of them.

    python bench/many_collections.py --collections 100000 target/fast/diwan [another binary]

Each binary creates the collections, with one document in each, in a new directory. Then the script times every request, a
stop, the next start, a start after a kill, and `diwan check`. Times are wall time in seconds; CPU is the server's CPU time.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pymongo

ROUNDS = 3
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """One `diwan serve` on a directory."""

    def __init__(self, binary: Path, data: Path):
        began = time.monotonic()
        command = [binary, "serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.uri = self.url = None
        for line in self.process.stdout:
            self.uri = self.uri or next(iter(re.findall(r"mongodb://\S+", line)), None)
            self.url = self.url or next(iter(re.findall(r"http://127\.0\.0\.1:\d+", line)), None)
            if self.uri and self.url:
                break
        self.started_in = time.monotonic() - began

    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> int:
        """Resident memory in MiB."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1]) // 1024

    def end(self, how: signal.Signals) -> float:
        """Ends the process; returns how long that took."""
        began = time.monotonic()
        self.process.send_signal(how)
        self.process.wait()
        self.process.stdout.close()
        return time.monotonic() - began


def fill(client: pymongo.MongoClient, collections: int, databases: int) -> list[float]:
    """Creates the collections with a document each; returns the seconds that each tenth of them took."""
    tenths = []
    for tenth in range(10):
        began = time.monotonic()
        for number in range(collections * tenth // 10, collections * (tenth + 1) // 10):
            name = f"db{number % databases}"
            document = {"_id": 1, "n": number}
            client[name].command({"insert": f"c{number}", "documents": [document], "writeConcern": {"w": 1}})
        tenths.append(time.monotonic() - began)
    return tenths


def listed(client: pymongo.MongoClient, database: str, **options) -> int:
    """How many collections `listCollections` lists in all batches of its cursor."""
    return sum(1 for _ in client[database].list_collections(**options))


def requests(client: pymongo.MongoClient, url: str, databases: int) -> dict:
    """The requests to time, by name."""

    def http(path: str) -> int:
        with urllib.request.urlopen(url + path) as reply:
            return len(reply.read())

    return {
        "listDatabases": lambda: client.admin.command({"listDatabases": 1}),
        "listDatabases, nameOnly": lambda: client.admin.command({"listDatabases": 1, "nameOnly": True}),
        "listCollections of all": lambda: [listed(client, f"db{n}") for n in range(databases)],
        "dbStats of all": lambda: [client[f"db{n}"].command({"dbStats": 1}) for n in range(databases)],
        "collStats of one": lambda: client.db0.command({"collStats": "c0"}),
        "serverStatus": lambda: client.admin.command({"serverStatus": 1}),
        "GET /_all_dbs": lambda: http("/_all_dbs"),
        "GET /_dbs_info": lambda: http("/_dbs_info"),
        "GET /metrics": lambda: http("/metrics"),
    }


def measure(binary: Path, collections: int, databases: int) -> dict[str, str]:
    """All figures of one binary."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="many-collections-") as directory:
        data = Path(directory) / "data"
        server = Server(binary, data)
        client = pymongo.MongoClient(server.uri, retryWrites=False, w=1)
        tenths = fill(client, collections, databases)
        rows["create one, the first tenth"] = f"{tenths[0] / collections * 10 * 1e6:.0f} µs"
        rows["create one, the last tenth"] = f"{tenths[-1] / collections * 10 * 1e6:.0f} µs"
        for name, request in requests(client, server.url, databases).items():
            samples = []
            for _ in range(ROUNDS):
                began, cpu = time.monotonic(), server.cpu()
                request()
                samples.append((time.monotonic() - began, server.cpu() - cpu))
                if samples[-1][0] > 20:
                    break
            rows[name] = "{:.3f} s, CPU {:.2f} s".format(*sorted(samples)[len(samples) // 2])
        cpu = server.cpu()
        time.sleep(15)
        rows["CPU of 15 idle seconds"] = f"{server.cpu() - cpu:.2f} s"
        rows["resident"] = f"{server.resident()} MiB"
        client.close()
        rows["stop"] = f"{server.end(signal.SIGTERM):.2f} s"
        server = Server(binary, data)
        rows["start after a stop"] = f"{server.started_in:.2f} s"
        with contextlib.closing(pymongo.MongoClient(server.uri, w=1)) as client:
            client.db0.c0.insert_one({"_id": 2})
        server.end(signal.SIGKILL)
        server = Server(binary, data)
        rows["start after a kill"] = f"{server.started_in:.2f} s"
        server.end(signal.SIGTERM)
        began = time.monotonic()
        subprocess.run([binary, "check", "--data", data], check=True, capture_output=True)
        rows["diwan check"] = f"{time.monotonic() - began:.2f} s"
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", type=Path, metavar="binary")
    parser.add_argument("--collections", type=int, default=100_000)
    parser.add_argument("--databases", type=int, default=10)
    options = parser.parse_args()
    columns = [measure(binary.absolute(), options.collections, options.databases) for binary in options.binaries]
    print(f"| {options.collections:,} collections in {options.databases} databases |", *options.binaries, "", sep=" | ")
    for name in columns[0]:
        print("", name, *(column[name] for column in columns), "", sep=" | ")


if __name__ == "__main__":
    main()
