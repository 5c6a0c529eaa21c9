"""Redis from Debian's package, with its own server in a temporary directory. All data is in memory; the append-only file makes it durable."""

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
        # Other than Redis' defaults: the append-only log is on, because without it nothing survives, and snapshots of the same data are off.
        self._command = [
            *(shutil.which("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.data)),
            *("--appendonly", "yes", "--save", "", *options),
        ]
        self.run()

    def run(self) -> None:
        """Starts the server, and returns when it is ready."""
        began = time.perf_counter()
        self.server = ServerProcess(self._command, self.data.parent / "server.log")
        self.server.wait_ready(self.port)
        with redis.Redis("127.0.0.1", self.port) as client:
            # The port opens before the log has been loaded.
            while True:
                try:
                    client.ping()
                    break
                except redis.BusyLoadingError:
                    time.sleep(0.001)
        self.ready_seconds = time.perf_counter() - began

    def info(self, section: str) -> dict:
        """A section of the server's INFO."""
        with redis.Redis("127.0.0.1", self.port) as client:
            return client.info(section)


class Redis(Target):
    """A server started by the bench, never an existing one."""

    name = "redis"
    baseline = "null-redis"
    durability = {
        RELAXED: "appendfsync everysec: acknowledged before fsync, synced within a second",
        SYNCED: "appendfsync always: acknowledged after the log's fsync, shared by waiting commands",
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
            # Redis refuses to shut down while it writes its first log; its data is not needed any more.
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
        # WAIT covers only the writes of its own connection; offsets in the replication stream cover those of all connections.
        written = self._primary.info("replication")["master_repl_offset"]
        end = time.monotonic() + limit
        with redis.Redis("127.0.0.1", self._replica.port) as client:
            while time.monotonic() < end:
                status = client.info("replication")
                if status["master_link_status"] == "up" and status["slave_repl_offset"] >= written:
                    return
                time.sleep(0.0005)
        raise RuntimeError(f"the replica is not at {written} after {limit:.0f} s: {status}")


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
