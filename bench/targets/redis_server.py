"""Redis: Debian's package, its own server in a temporary directory. All data is in memory; its append-only file is its durability."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import redis

from bench import process
from bench.data import Table
from bench.targets import debian
from bench.targets.base import RELAXED, SYNCED, Client, Target
from bench.targets.redis_client import RedisAdapter
from bench.targets.server import ServerProcess

SHOWN = ("appendonly", "appendfsync", "save", "io-threads", "auto-aof-rewrite-percentage", "hash-max-listpack-entries")


class _Instance:
    """One redis-server and its directory."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.port = process.free_port()
        self.data = directory / "data"
        self.data.mkdir()
        # Not Redis' defaults: the log, without which nothing survives, and no snapshots of the same beside it.
        self._command = [
            *(shutil.which("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.data)),
            *("--appendonly", "yes", "--save", "", *options),
        ]
        self.run()

    def run(self) -> None:
        """Starts, and returns when it serves."""
        began = time.perf_counter()
        self.server = ServerProcess(self._command, self.data.parent / "server.log")
        self.server.wait_ready(self.port)
        with redis.Redis("127.0.0.1", self.port) as client:
            # The port opens before the log is read.
            while True:
                try:
                    client.ping()
                    break
                except redis.BusyLoadingError:
                    time.sleep(0.001)
        self.ready_seconds = time.perf_counter() - began

    def told(self, section: str) -> dict:
        """A section of what the server tells of itself."""
        with redis.Redis("127.0.0.1", self.port) as client:
            return client.info(section)


class Redis(Target):
    """A server of our own, never one that is there already."""

    name = "redis"
    baseline = "null-redis"
    durability = {
        RELAXED: "appendfsync everysec: acknowledged before fsync, synced within a second",
        SYNCED: "appendfsync always: acknowledged after the log's fsync, shared by commands that wait",
    }

    def __init__(self) -> None:
        self._primary: _Instance | None = None
        self._replica: _Instance | None = None

    @classmethod
    def configured(cls, options) -> "Redis":
        return cls()

    def start(self, directory: Path) -> None:
        if not shutil.which("redis-server"):
            debian.install("redis-server")
        self._primary = _Instance(directory)
        self.data = self._primary.data
        self._started()

    def _started(self) -> None:
        self.pid = self._primary.server.pid
        self.ready_seconds = self._primary.ready_seconds

    def stop(self) -> None:
        if self._replica:
            # It would refuse to end while it writes its first log, and nobody wants its data.
            self._replica.server.kill()
        if self._primary:
            self._primary.server.stop()
        self._primary = self._replica = self.pid = None

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(RedisAdapter, self._primary.port, durability)

    def describe(self) -> dict:
        with redis.Redis("127.0.0.1", self._primary.port) as client:
            shown = client.config_get(*SHOWN)
            version = client.info("server")["redis_version"]
        settings = ", ".join(f"{_text(name)} = {_text(value) or 'none'}" for name, value in sorted(shown.items()))
        return {"version": version, "settings": settings}

    def kill(self) -> None:
        self._primary.server.kill()
        self.pid = None

    def restart(self) -> None:
        self._primary.run()
        self._started()

    def start_replica(self, directory: Path, tables: list[Table]) -> None:
        self._replica = _Instance(directory, "--replicaof", f"127.0.0.1 {self._primary.port}")

    def replica_connector(self) -> Callable[[], Client]:
        return partial(RedisAdapter, self._replica.port, None)

    def await_replica(self, limit: float = 600.0) -> None:
        # WAIT would do for one connection's own writes; offsets in the stream of replication are about all connections'.
        written = self._primary.told("replication")["master_repl_offset"]
        end = time.monotonic() + limit
        with redis.Redis("127.0.0.1", self._replica.port) as client:
            while time.monotonic() < end:
                told = client.info("replication")
                if told["master_link_status"] == "up" and told["slave_repl_offset"] >= written:
                    return
                time.sleep(0.0005)
        raise RuntimeError(f"the replica is not at {written} after {limit:.0f} s: {told}")


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
