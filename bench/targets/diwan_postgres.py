"""Diwan over PostgreSQL: one process or several that serve the documents in one cluster, through the MongoDB face.

CPU time and memory are those of all these processes together, PostgreSQL's among them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.targets.base import RELAXED, SYNCED, Client, NotGiven, Target
from bench.targets.diwan import Instance, version
from bench.targets.mongo_client import MongoAdapter
from bench.targets.postgres import Cluster, find_or_install


class DiwanPostgres(Target):
    """A cluster and one Diwan, both started by the bench."""

    count = 1
    name = "diwan-postgres"
    baseline = "null-mongo"
    # Diwan sets synchronous_commit in its sessions, whatever the write concern.
    durability = dict.fromkeys((RELAXED, SYNCED), "synchronous_commit = on: acknowledged after the WAL's fsync, shared by waiting commits")

    def __init__(self, program: Path) -> None:
        self._program = program.absolute()
        self.cluster: Cluster | None = None
        self.processes: list[Instance] = []
        self._running: dict[Instance, int] = {}

    @classmethod
    def configured(cls, options) -> "DiwanPostgres":
        return cls(options.diwan_program)

    @property
    def pids(self) -> tuple[int, ...]:
        own = tuple(self._running.values())
        return (*own, self.cluster.server.pid) if self.cluster and self.cluster.server else own

    def start(self, directory: Path) -> None:
        if not self._program.is_file():
            raise NotGiven(f"{self._program.name} is not built (cargo build --release)")
        self.cluster = Cluster(directory, find_or_install())
        self.data = self.cluster.data
        self.cluster.make()
        for number in range(self.count):
            own = directory / f"process-{number}"
            own.mkdir()
            topology = ("--topology", "mongos") if self.count > 1 else ()
            self.processes.append(Instance(self._program, own, "--store", self.cluster.uri, *topology))
        self.restart()

    def restart(self) -> None:
        self.ready_seconds = self.cluster.launch() + sum(map(self.start_process, self.processes))
        self.pid = self._running[self.processes[0]]

    def start_process(self, process: Instance) -> float:
        """Starts one of the processes; returns the seconds until it was ready."""
        self._running[process], seconds = process.start()
        return seconds

    def pid_of(self, process: Instance) -> int:
        """The pid of a running process."""
        return self._running[process]

    def stop_process(self, process: Instance) -> None:
        """Stops one of the processes; may be called twice."""
        process.stop()
        self._running.pop(process, None)

    def kill(self) -> None:
        """Kills Diwan's processes and PostgreSQL."""
        for process in self.processes:
            process.kill()
        self.cluster.server.kill()
        self.cluster.server = self.pid = None
        self._running.clear()

    def stop(self) -> None:
        for process in self.processes:
            self.stop_process(process)
        if self.cluster:
            self.cluster.stop()
        self.processes, self.cluster, self.pid = [], None, None

    def connector(self, durability: str) -> Callable[[], Client]:
        hosts = ",".join(f"127.0.0.1:{process.port}" for process in self.processes)
        direct = "?directConnection=true" if self.count == 1 else ""
        return partial(MongoAdapter, f"mongodb://{hosts}/{direct}", durability)

    def describe(self) -> dict:
        settings = f"{self.count} over PostgreSQL {self.cluster.version()}, both with defaults"
        return {"version": version(self._program), "settings": settings}


class TwoOverPostgres(DiwanPostgres):
    """The same with two Diwan processes. The driver chooses one for each operation."""

    count = 2
    name = "diwan-postgres-2"
