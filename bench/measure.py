"""Measuring: one stretch of operations, its wall time, the server's own CPU time, the client's; and targets taking turns.

Invariants: generating data, connecting and starting client processes stand outside every measured stretch; targets alternate
(A B C A B C), so that a machine that slows down slows all of them; a target that fails leaves the line-up, the run goes on.
"""

import gc
import multiprocessing
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import process
from bench.data import Table
from bench.exhibits import Chart, Published
from bench.results import Recorder
from bench.targets import Client, NotGiven, Target
from bench.targets.base import Unsupported


BRIEF = 0.1  # scales below are for a look
BRIEF_REQUESTS = 1_000  # of a kind, one by one, are enough for a look
BRIEF_LEAST = 1_000  # documents are worth a look
IDLE = 0.04  # a server that uses less than this part of a core is at rest


@dataclass
class Sample:
    """One measured stretch. In-process targets have no server: their engine's time is in the client's."""

    operations: int
    wall_seconds: float
    client_cpu_seconds: float | None
    server_cpu_seconds: float | None
    rows: int | None = None  # what each operation returned, where that is to be checked


@dataclass(frozen=True)
class Pace:
    """How long to wait and repeat for the sake of exactness."""

    quiet: float = 2.0  # how many seconds of standing still are rest
    least: float = 0.2  # how long an operation that is below the clocks is repeated

    @classmethod
    def at(cls, scale: float) -> "Pace":
        """A toy run's figures are toys too: they need not wait for a background task that wakes every second or two."""
        return cls(min(2.0, max(0.2, 20 * scale)), min(0.2, max(0.02, 2 * scale)))


class Contestant:
    """A started target with its connection, and a directory where more of its files may go."""

    def __init__(self, target: Target, durability: str, directory: Path | None = None, pace: Pace = Pace()) -> None:
        self.target = target
        self.durability = durability
        self.directory = directory
        self.pace = pace
        self.reconnect()
        self.empty_disk = process.disk_bytes(target.data) if target.data else None

    def reconnect(self) -> None:
        """A new connection, after the server was started again."""
        self.connect: Callable[[], Client] = self.target.connector(self.durability)
        self.client = self.connect()

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


def repeated(contestant: Contestant, work: Callable[[], int]) -> Sample:
    """Measures an operation, over and over for the pace's least time; a query over few documents is below the clocks."""
    done = 0

    def loop() -> int:
        nonlocal done
        end = time.perf_counter() + contestant.pace.least
        while True:
            rows = work()
            done += 1
            if time.perf_counter() >= end:
                return rows

    sample = stretch(contestant, 1, loop)
    sample.operations = done
    return sample


def _client_process(connect: Callable[[], Client], work: Callable, share: list, ready, go, results) -> None:
    client = None
    try:
        begin_client_process()
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
        ready.release()
        take_leave(client)
        results.put((0.0, 0.0, 0.0, failure if isinstance(failure, Unsupported) else f"{type(failure).__name__}: {failure}"))


def begin_client_process() -> None:
    """Interrupts at the terminal are the first process' to handle; what a process was forked with is not garbage to be looked through."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def take_leave(client: Client | None) -> None:
    """Closes a connection that has failed or is done. Processes are not just ended: a store that they share would keep their locks."""
    try:
        if client:
            client.close()
    except Exception:
        pass


def client_context():
    """Where client processes come from: a process that has loaded all they need, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.workloads"])
    return context


def concurrent(contestant: Contestant, clients: int, rows: list, work: Callable, limit: float = 3600.0) -> Sample:
    """Measures `work(client, share, warming)` in as many processes as clients, each with its share of the rows.

    Processes, not threads: Python's threads take turns, and would measure that. `work` must be picklable.
    """
    context = client_context()
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
        if failures and isinstance(failures[0], Unsupported):
            raise failures[0]
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
    step = contestant.pace.quiet / 4
    end, still = time.monotonic() + limit, 0
    last = (process.disk_bytes(data), contestant.server_cpu() or 0.0)
    while still < 4 and time.monotonic() < end:
        time.sleep(step)
        now = (process.disk_bytes(data), contestant.server_cpu() or 0.0)
        still = still + 1 if now[0] == last[0] and now[1] - last[1] < IDLE * step else 0
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


Fields = dict | list[dict] | None


@dataclass
class Stage:
    """One step of a workload, done by all targets in turn, `rounds` times.

    `run` returns the fields of its record, or a list of them for several records; fields `record` and `operation` among them
    stand before the stage's own. A target that does not offer a stage is recorded so and goes on, unless others build on the stage.
    """

    operation: str
    rounds: int
    run: Callable[[Contestant, int], Fields]
    record: str = "sample"
    null: bool = False  # whether the null servers take part
    founding: bool = False  # whether the stages after it build on it; on what prepares they always do

    def __post_init__(self) -> None:
        self.founding = self.founding or self.record == "prepared"

    def admits(self, target: Target) -> bool:
        """Whether a target takes part."""
        return self.null or target.kind != "null"


class LineUp:
    """The targets of one data set, each started fresh in its own directory; used as a context."""

    def __init__(
        self, targets: list[Target], durability: str, temporary: Path, recorder: Recorder, about: dict, pace: Pace = Pace()
    ) -> None:
        self._targets = targets
        self._pace = pace
        self._durability = durability
        self._temporary = temporary
        self._recorder = recorder
        self._about = {**about, "durability": durability}
        self._contestants: dict[str, Contestant] = {}
        self._unoffered: set[tuple[str, str]] = set()

    def __enter__(self) -> "LineUp":
        # All that is there by now, the data above all, need not be looked through before each stretch.
        gc.collect()
        gc.freeze()
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
        base["means"] = target.durability.get(self._durability, "–")
        try:
            if self._durability not in target.durability:
                raise Unsupported(f"has no {self._durability} durability")
            target.start(directory)
            idle = process.peak_memory(target.pid) if target.pid else None
            contestant = Contestant(target, self._durability, directory, self._pace)
            self._recorder.write("target", **base, status="runs", **target.describe())
            self._recorder.write("start", **base, ready_seconds=target.ready_seconds, idle_memory_bytes=idle)
            self._contestants[target.name] = contestant
        except NotGiven as absence:
            self._recorder.write("target", **base, status=f"not given: {absence}")
            self._stop(target)
        except Unsupported as lack:
            self._recorder.write("target", **base, status=f"unsupported: {lack}")
            self._stop(target)
        except Exception as failure:
            self._recorder.write("target", **base, status="failed")
            self._fail(target, "start", failure)

    def _stop(self, target: Target) -> None:
        try:
            target.stop()
        except Exception as failure:
            self._recorder.write("failure", **self._about, target=target.name, operation="stop", error=str(failure)[:1000])

    def _fail(self, target: Target, operation: str, failure: Exception) -> None:
        self._recorder.write(
            "failure",
            **self._about,
            target=target.name,
            operation=operation,
            error=f"{type(failure).__name__}: {failure}"[:1000],
            trace=traceback.format_exc()[-2000:],
        )
        self._stop(target)

    def run(self, stages: list[Stage], advance: Callable[[str], None]) -> None:
        """All stages, all rounds, the targets in turn; `advance` is told after each step."""
        for stage in stages:
            for number in range(stage.rounds):
                for target in self._targets:
                    if not stage.admits(target):
                        continue
                    contestant = self._contestants.get(target.name)
                    if contestant and (target.name, stage.operation) not in self._unoffered:
                        self._step(stage, number, contestant)
                    advance(f"{stage.operation} · {target.name}")

    def _step(self, stage: Stage, number: int, contestant: Contestant) -> None:
        target = contestant.target
        try:
            self._write(stage, number, target, stage.run(contestant, number))
        except Unsupported as lack:
            self._unoffered.add((target.name, stage.operation))
            base = {**self._about, "target": target.name, "kind": target.kind, "operation": stage.operation}
            self._recorder.write("unsupported", **base, reason=str(lack))
            if stage.founding:
                del self._contestants[target.name]
                self._stop(target)
        except Exception as failure:
            del self._contestants[target.name]
            self._fail(target, stage.operation, failure)

    def _write(self, stage: Stage, number: int, target: Target, told: Fields) -> None:
        for fields in told if isinstance(told, list) else [told or {}]:
            record = {"record": stage.record, "operation": stage.operation, **fields}
            if record["operation"] != stage.operation:
                record["stage"] = stage.operation
            self._recorder.write(record.pop("record"), **self._about, target=target.name, kind=target.kind, round=number, **record)

    def __exit__(self, *_) -> None:
        for contestant in self._contestants.values():
            try:
                if contestant.target.pid:
                    peak = process.peak_memory(contestant.target.pid)
                    self._recorder.write("memory", **self._about, target=contestant.target.name, peak_bytes=peak)
                contestant.client.close()
                contestant.target.stop()
            except Exception as failure:
                self._fail(contestant.target, "stop", failure)
        self._contestants.clear()
        gc.unfreeze()
        shutil.rmtree(self._temporary, ignore_errors=True)


@dataclass
class DataSet:
    """What a line-up is measured on. `make` generates it: what its records say of it, and its stages."""

    name: str
    durability: str
    make: Callable[[], tuple[dict, list[Stage]]]
    replicated: bool = False  # whether a stage will have the targets followed by a replica


class Experiment:
    """Data sets, one after another, each on a line-up of its own; what the command line runs and the report shows.

    A subclass in `bench/workloads/` fills in the attributes below, of which only `name` and `title` are needed, and `data_sets`; a row
    in `bench/workloads/__init__.py` makes it known. Common options: `scale` (1: the published sizes), and those behind `rounds` and `clients`.

    A data set's `about` has `workload` (the experiment's name), `shape` (any short text: the variant) and `size` (the number of
    documents), which with the durability identify it in the report. Records that the report shows, by what a stage returns:

    - `sample`: the fields of a `Sample`; with those of a `Latencies` beside them, also its percentiles.
    - `latency`: the fields of a `Latencies`, for operations that are not measured as a stretch.
    - `timeline`: the fields of a `Timeline`, and `events`, if any: a list of (seconds, text).
    - `size`: what `sizes` returns.
    - `figure`: `value` and `unit`, a figure of any other kind (documents lost, seconds until it serves again).

    Operations whose name begins with one of `whole` are shown in milliseconds as a whole, the others in microseconds each.
    """

    name: str
    title: str
    about: str = ""  # Markdown: what is measured, and how
    notes: str = ""  # Markdown: what is not comparable, with what was published or between systems
    published: tuple[Published, ...] = ()
    charts: tuple[Chart, ...] = ()
    whole: tuple[str, ...] = ()

    def __init__(self, options, targets: list[Target], recorder: Recorder, temporary: Path) -> None:
        self.options = options
        self._targets = targets
        self._recorder = recorder
        self._temporary = temporary

    @classmethod
    def add_arguments(cls, parser) -> None:
        """Options of its own, on an argparse group; none may have the name of another experiment's."""

    def data_sets(self) -> list[DataSet]:
        """The data sets that the options ask for."""
        raise NotImplementedError

    @property
    def brief(self) -> bool:
        """Whether the scale is so small that the run is a look at everything: then all is measured once unless options say otherwise."""
        return self.options.scale < BRIEF

    @property
    def rounds(self) -> int:
        """How often reads are measured."""
        return self.options.rounds or (1 if self.brief else 3)

    @property
    def clients(self) -> int:
        """How many client processes insert at once; to start many for few documents would take longer than all else."""
        return self.options.clients or (4 if self.brief else 16)

    def scaled(self, size: int, least: int = 1) -> int:
        """A published number of documents at the run's scale."""
        return max(least, round(size * self.options.scale))

    def scaled_sizes(self, sizes: Iterable[int], least: int = 1) -> list[int]:
        """Several published numbers of documents at the run's scale. A brief run leaves out sets that only start the servers anew."""
        scaled = sorted({self.scaled(size, least) for size in sizes})
        telling = [size for size in scaled if size >= BRIEF_LEAST]
        return (telling or scaled[-1:]) if self.brief else scaled

    def singly(self, size: int, least: int = 1) -> int:
        """The same for requests that are sent one by one, of which a brief run's first thousand tell as much as all."""
        return self.one_by_one(self.scaled(size, least))

    def one_by_one(self, requests: int) -> int:
        """How many of so many requests are sent one by one."""
        return min(requests, BRIEF_REQUESTS) if self.brief else requests

    def run(self, progress, done: dict[str, set[str]]) -> None:
        """All data sets; `progress` is a rich display, `done` tells by data set which targets an earlier run has measured."""
        data_sets = self.data_sets()
        overall = progress.add_task(self.name, total=len(data_sets))
        for data in data_sets:
            finished = done.get(f"{self.name} · {data.name}", set())
            targets = [target for target in self._targets if target.name not in finished]
            if any(target.kind != "null" for target in targets):
                needed = {target.baseline for target in targets}
                self._measure(data, [one for one in self._targets if one in targets or one.name in needed], progress)
            progress.advance(overall)

    def _measure(self, data: DataSet, targets: list[Target], progress) -> None:
        name = f"{self.name} · {data.name}"
        task = progress.add_task(f"{name} · generating", total=None)
        try:
            about, stages = data.make()
            if not any(stage.null for stage in stages):
                targets = [target for target in targets if target.kind != "null"]
            total = sum(stage.rounds * sum(map(stage.admits, targets)) for stage in stages)
            progress.update(task, description=f"{name} · starting", total=total)
            for target in targets:
                target.replicated = data.replicated
            pace = Pace.at(self.options.scale)
            with LineUp(targets, data.durability, self._temporary, self._recorder, about, pace) as line_up:
                line_up.run(stages, lambda step: progress.update(task, advance=1, description=f"{name} · {step}"))
            self._recorder.complete(name, [target.name for target in targets])
        except Exception as failure:
            # No target's fault, and not complete; the other data sets are still worth having.
            fields = {"workload": self.name, "shape": data.name, "durability": data.durability, "target": "–", "operation": "data set"}
            self._recorder.write("failure", **fields, error=f"{type(failure).__name__}: {failure}", trace=traceback.format_exc()[-2000:])
        progress.remove_task(task)


def checked(sample: Sample, expected: int | None) -> dict:
    """A sample's fields; a wrong number of rows is a failure, not a fast answer."""
    if expected is not None and sample.rows != expected:
        raise AssertionError(f"returned {sample.rows} rows where {expected} are right")
    return asdict(sample)
