"""Measuring: one stretch of operations, its wall time, the server's own CPU time, the client's; and targets taking turns.

Invariants: generating data, connecting and starting client processes stand outside every measured stretch; targets alternate
(A B C A B C), so that a machine that slows down slows all of them; a target that fails leaves the line-up, the run goes on.
"""

import gc
import multiprocessing
import shutil
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import process
from bench.data import Table
from bench.results import Recorder
from bench.targets import Client, NotGiven, Target


@dataclass
class Sample:
    """One measured stretch. In-process targets have no server: their engine's time is in the client's."""

    operations: int
    wall_seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float | None
    rows: int | None = None  # what each operation returned, where that is to be checked


class Contestant:
    """A started target with its connection."""

    def __init__(self, target: Target, durability: str) -> None:
        self.target = target
        self.connect: Callable[[], Client] = target.connector(durability)
        self.client = self.connect()
        self.empty_disk = process.disk_bytes(target.data) if target.data else None

    def server_cpu(self) -> float | None:
        """CPU seconds that the server has used since it started."""
        return process.cpu_seconds(self.target.pid) if self.target.pid else None


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def stretch(contestant: Contestant, operations: int, work: Callable[[], int | None]) -> Sample:
    """Measures `work`, which does `operations` operations and returns what is to be checked."""
    gc.collect()
    gc.disable()
    try:
        server = contestant.server_cpu()
        client, wall = time.process_time(), time.perf_counter()
        rows = work()
        wall, client = time.perf_counter() - wall, time.process_time() - client
        return Sample(operations, wall, client, _difference(contestant.server_cpu(), server), rows)
    finally:
        gc.enable()


def repeated(contestant: Contestant, work: Callable[[], int], at_least: float = 0.2) -> Sample:
    """Measures an operation, over and over until `at_least` seconds have passed; a query over few documents is below the clocks."""
    done = 0

    def loop() -> int:
        nonlocal done
        end = time.perf_counter() + at_least
        while True:
            rows = work()
            done += 1
            if time.perf_counter() >= end:
                return rows

    sample = stretch(contestant, 1, loop)
    sample.operations = done
    return sample


def _client_process(connect: Callable[[], Client], work: Callable, share: list, ready, go, results) -> None:
    try:
        client = connect()
        work(client, share[:1], True)
        ready.release()
        go.wait()
        gc.disable()
        cpu, start = time.process_time(), time.perf_counter()
        work(client, share, False)
        end, cpu = time.perf_counter(), time.process_time() - cpu
        client.close()
        results.put((start, end, cpu, None))
    except Exception as failure:
        results.put((0.0, 0.0, 0.0, f"{type(failure).__name__}: {failure}"))
        ready.release()


def concurrent(contestant: Contestant, clients: int, rows: list, work: Callable, limit: float = 3600.0) -> Sample:
    """Measures `work(client, share, warming)` in as many processes as clients, each with its share of the rows.

    Processes, not threads: Python's threads take turns, and would measure that. `work` must be picklable.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.targets"])
    ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
    workers = [
        context.Process(
            target=_client_process,
            args=(contestant.connect, work, rows[number::clients], ready, go, results),
            daemon=True,
        )
        for number in range(clients)
    ]
    try:
        for worker in workers:
            worker.start()
        for _ in workers:
            if not ready.acquire(timeout=120):
                raise RuntimeError("a client process did not get ready within 120 s")
        server = contestant.server_cpu()
        go.set()
        told = [results.get(timeout=limit) for _ in workers]
        server = _difference(contestant.server_cpu(), server)
        failures = [failure for _, _, _, failure in told if failure]
        if failures:
            raise RuntimeError(f"{len(failures)} of {clients} clients failed: {failures[0]}")
        wall = max(end for _, end, _, _ in told) - min(start for start, _, _, _ in told)
        return Sample(len(rows), wall, sum(cpu for _, _, cpu, _ in told), server)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join(10)


def settle(contestant: Contestant, limit: float = 120.0) -> int | None:
    """Waits until the data directory keeps its size and the server is idle; returns the bytes beyond the empty directory's."""
    data = contestant.target.data
    if data is None:
        return None
    end, quiet = time.monotonic() + limit, 0
    last = (-1, 0.0)
    while quiet < 4 and time.monotonic() < end:
        time.sleep(0.5)
        now = (process.disk_bytes(data), contestant.server_cpu() or 0.0)
        quiet = quiet + 1 if now[0] == last[0] and now[1] - last[1] < 0.02 else 0
        last = now
    return last[0] - (contestant.empty_disk or 0)


def sizes(contestant: Contestant, table: Table) -> dict:
    """The fields of a size's record: at rest, after the maintenance that the system offers, and by the system's own word."""
    resting = settle(contestant)
    done = contestant.client.maintain(table)
    return {
        "resting_bytes": resting,
        "maintenance": done,
        "maintained_bytes": settle(contestant),
        "table_bytes": contestant.client.table_bytes(table),
    }


@dataclass
class Stage:
    """One step of a workload, done by all targets in turn, `rounds` times. `run` returns the fields of its record."""

    operation: str
    rounds: int
    run: Callable[[Contestant, int], dict]
    record: str = "sample"
    null: bool = False  # whether the null servers take part

    def admits(self, target: Target) -> bool:
        """Whether a target takes part."""
        return self.null or target.kind != "null"


class LineUp:
    """The targets of one data set, each started fresh in its own directory; used as a context."""

    def __init__(self, targets: list[Target], durability: str, temporary: Path, recorder: Recorder, about: dict) -> None:
        self._targets = targets
        self._durability = durability
        self._temporary = temporary
        self._recorder = recorder
        self._about = {**about, "durability": durability}
        self._contestants: list[Contestant] = []

    def __enter__(self) -> "LineUp":
        try:
            for target in self._targets:
                self._start(target)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, target: Target) -> None:
        directory = self._temporary / target.name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        base = {**self._about, "target": target.name, "kind": target.kind, "baseline": target.baseline}
        means = target.durability[self._durability]
        try:
            target.start(directory)
            idle = process.peak_memory(target.pid) if target.pid else None
            self._recorder.write("target", **base, means=means, status="runs", **target.describe())
            self._recorder.write("start", **base, ready_seconds=target.ready_seconds, idle_memory_bytes=idle)
            self._contestants.append(Contestant(target, self._durability))
        except NotGiven as absence:
            self._recorder.write("target", **base, means=means, status=f"not given: {absence}")
            target.stop()
        except Exception as failure:
            self._recorder.write("target", **base, means=means, status="failed")
            self._fail(target, "start", failure)

    def _fail(self, target: Target, operation: str, failure: Exception) -> None:
        self._recorder.write(
            "failure",
            **self._about,
            target=target.name,
            operation=operation,
            error=f"{type(failure).__name__}: {failure}"[:1000],
            trace=traceback.format_exc()[-2000:],
        )
        try:
            target.stop()
        except Exception as second:
            self._recorder.write("failure", **self._about, target=target.name, operation="stop", error=str(second)[:1000])

    def run(self, stages: list[Stage], advance: Callable[[str], None]) -> None:
        """All stages, all rounds, the targets in turn; `advance` is told before each step and once at the end of it."""
        for stage in stages:
            for number in range(stage.rounds):
                for target in self._targets:
                    if not stage.admits(target):
                        continue
                    contestant = next((one for one in self._contestants if one.target is target), None)
                    if contestant:
                        self._step(stage, number, contestant)
                    advance(f"{stage.operation} · {target.name}")

    def _step(self, stage: Stage, number: int, contestant: Contestant) -> None:
        target = contestant.target
        try:
            fields = stage.run(contestant, number)
            self._recorder.write(
                stage.record, **self._about, target=target.name, kind=target.kind, operation=stage.operation, round=number, **fields
            )
        except Exception as failure:
            self._contestants.remove(contestant)
            self._fail(target, stage.operation, failure)

    def __exit__(self, *_) -> None:
        for contestant in self._contestants:
            if contestant.target.pid:
                self._recorder.write(
                    "memory", **self._about, target=contestant.target.name, peak_bytes=process.peak_memory(contestant.target.pid)
                )
            try:
                contestant.client.close()
                contestant.target.stop()
            except Exception as failure:
                self._fail(contestant.target, "stop", failure)
        self._contestants.clear()
        shutil.rmtree(self._temporary, ignore_errors=True)


@dataclass
class DataSet:
    """What a line-up is measured on. `make` generates it: what its records say of it, and its stages."""

    name: str
    durability: str
    make: Callable[[], tuple[dict, list[Stage]]]


class Experiment:
    """Data sets, one after another, each on a line-up of its own; what the command line runs."""

    name: str

    def __init__(self, options, targets: list[Target], recorder: Recorder, temporary: Path) -> None:
        self.options = options
        self._targets = targets
        self._recorder = recorder
        self._temporary = temporary

    def data_sets(self) -> list[DataSet]:
        """The data sets that the options ask for."""
        raise NotImplementedError

    def run(self, progress) -> None:
        """All data sets; `progress` is a rich progress display."""
        data_sets = self.data_sets()
        overall = progress.add_task(self.name, total=len(data_sets))
        for data in data_sets:
            task = progress.add_task(f"{data.name} · generating", total=None)
            about, stages = data.make()
            total = sum(stage.rounds * sum(map(stage.admits, self._targets)) for stage in stages)
            progress.update(task, description=f"{data.name} · starting", total=total)
            with LineUp(self._targets, data.durability, self._temporary, self._recorder, about) as line_up:
                line_up.run(stages, lambda step: progress.update(task, advance=1, description=f"{data.name} · {step}"))
            progress.remove_task(task)
            progress.advance(overall)


def checked(sample: Sample, expected: int | None) -> dict:
    """A sample's fields; a wrong number of rows is a failure, not a fast answer."""
    if expected is not None and sample.rows != expected:
        raise AssertionError(f"returned {sample.rows} rows where {expected} are right")
    return asdict(sample)
