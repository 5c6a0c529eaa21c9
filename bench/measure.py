"""Measures a series of operations: wall time, the server's CPU time, the client's CPU time. Targets take turns.

Invariants: data generation, connecting and the start of client processes are outside every measurement. Targets alternate
(A B C A B C), so that a machine that becomes slower affects all of them. A target that fails leaves the line-up, and the run continues.
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


BRIEF = 0.1  # a run at a smaller scale is a smoke run
BRIEF_REQUESTS = 1_000  # most requests of a kind sent one by one in a smoke run
BRIEF_LEAST = 1_000  # documents; a smoke run leaves out smaller data sets if it has larger ones
IDLE = 0.04  # a server that uses less than this fraction of a core is idle


@dataclass
class Sample:
    """One measurement. In-process targets have no server; their engine's time is part of the client's."""

    operations: int
    wall_seconds: float
    client_cpu_seconds: float | None
    server_cpu_seconds: float | None
    rows: int | None = None  # rows returned by each operation, if they are checked


@dataclass(frozen=True)
class Pace:
    """How long to wait and repeat for precise figures."""

    quiet: float = 2.0  # seconds without a change that count as rest
    least: float = 0.2  # seconds for which a short operation is repeated, because clocks are too coarse for it

    @classmethod
    def at(cls, scale: float) -> "Pace":
        """The pace for a scale. A very small run need not wait for background tasks that run every second or two."""
        return cls(min(2.0, max(0.2, 20 * scale)), min(0.2, max(0.02, 2 * scale)))


class Contestant:
    """A started target with its connection, and a directory for more of its files."""

    def __init__(self, target: Target, durability: str, directory: Path | None = None, pace: Pace = Pace()) -> None:
        self.target = target
        self.durability = durability
        self.directory = directory
        self.pace = pace
        self.reconnect()
        self.empty_disk = process.disk_bytes(target.data) if target.data else None

    def reconnect(self) -> None:
        """Opens a new connection after a restart of the server."""
        self.connect: Callable[[], Client] = self.target.connector(self.durability)
        self.client = self.connect()

    def server_cpu(self) -> float | None:
        """CPU seconds that the server has used since its start."""
        return process.cpu_seconds(*self.target.pids) if self.target.pids else None


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def stretch(contestant: Contestant, operations: int, work: Callable[[], int | None]) -> Sample:
    """Measures `work`, which does `operations` operations and returns the number of rows to be checked."""
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
    """Measures an operation, repeated for the pace's least time, because a query over few documents is too short for the clocks."""
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
    """Ignores interrupts, which the main process handles, and excludes the memory inherited by the fork from garbage collection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def take_leave(client: Client | None) -> None:
    """Closes a connection, ignoring errors. Without it, an ended process would leave its locks in a store that processes share."""
    try:
        if client:
            client.close()
    except Exception:
        pass


def client_context():
    """The context for client processes: a fork server that has loaded all modules they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.workloads"])
    return context


def concurrent(contestant: Contestant, clients: int, rows: list, work: Callable, limit: float = 3600.0) -> Sample:
    """Measures `work(client, share, warming)` in as many processes as clients, each with its share of the rows.

    It uses processes because Python's threads run one at a time. `work` must be picklable.
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
                raise RuntimeError("a client process was not ready within 120 s")
        server = contestant.server_cpu()
        go.set()
        outcomes = [results.get(timeout=limit) for _ in workers]
        server = _difference(contestant.server_cpu(), server)
        failures = [failure for _, _, _, failure in outcomes if failure]
        if failures and isinstance(failures[0], Unsupported):
            raise failures[0]
        if failures:
            raise RuntimeError(f"{len(failures)} of {clients} clients failed: {failures[0]}")
        wall = max(end for _, end, _, _ in outcomes) - min(start for start, _, _, _ in outcomes)
        return Sample(len(rows), wall, sum(cpu for _, _, cpu, _ in outcomes), server)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join(10)


def settle(contestant: Contestant, limit: float = 120.0) -> int | None:
    """Waits until the data directory keeps its size and the server is idle. Returns its bytes minus those of the empty system."""
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
    """The fields of a `size` record: bytes at rest, after the system's maintenance, and as the system reports them."""
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
    """One step of a workload, run by all targets in turn, `rounds` times.

    `run` returns the fields of its record, or a list of such fields for several records. Fields `record` and `operation` among them
    override the stage's own. A target that does not support a stage gets an `unsupported` record and continues, unless later stages depend on it.
    """

    operation: str
    rounds: int
    run: Callable[[Contestant, int], Fields]
    record: str = "sample"
    null: bool = False  # whether the null servers take part
    founding: bool = False  # whether later stages depend on it; they always depend on a stage that prepares

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
        # Excludes existing objects, above all the data, from garbage collection before each measurement.
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
            idle = process.peak_memory(*target.pids) if target.pids else None
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
        """Runs all rounds of all stages, with targets in turn. Calls `advance` after each step."""
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

    def _write(self, stage: Stage, number: int, target: Target, returned: Fields) -> None:
        for fields in returned if isinstance(returned, list) else [returned or {}]:
            record = {"record": stage.record, "operation": stage.operation, **fields}
            if record["operation"] != stage.operation:
                record["stage"] = stage.operation
            self._recorder.write(record.pop("record"), **self._about, target=target.name, kind=target.kind, round=number, **record)

    def __exit__(self, *_) -> None:
        for contestant in self._contestants.values():
            try:
                if pids := contestant.target.pids:
                    peak = process.peak_memory(*pids)
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
    """A data set of an experiment. `make` generates it and returns the fields of its records and its stages."""

    name: str
    durability: str
    make: Callable[[], tuple[dict, list[Stage]]]
    replicated: bool = False  # whether a stage starts a replica of the targets


class Experiment:
    """A named list of data sets, each measured with a line-up of its own. The command line runs experiments and the report shows them.

    A subclass in `bench/workloads/` defines `data_sets` and the attributes below, of which only `name` and `title` are required. A row
    in `bench/workloads/__init__.py` registers it. Common options are `scale` (1: the published sizes), `rounds` and `clients`.

    A data set's `about` contains `workload` (the experiment's name), `shape` (a short text that names the variant) and `size` (the number of
    documents). Together with the durability they identify the data set in the report. The report shows these records, with these fields:

    - `sample`: the fields of a `Sample`, optionally with those of a `Latencies` for its percentiles.
    - `latency`: the fields of a `Latencies`, for operations without a sample.
    - `timeline`: the fields of a `Timeline`, and optionally `events`: a list of (seconds, text).
    - `size`: the fields that `sizes` returns.
    - `figure`: `value` and `unit`, for any other figure (lost documents, seconds until the server answers again).

    Operations whose name begins with one of `whole` are shown as a total in milliseconds, other operations in microseconds per operation.
    """

    name: str
    title: str
    about: str = ""  # Markdown: a description of the measurements
    notes: str = ""  # Markdown: differences that limit comparisons, with published figures or between systems
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
        """Adds the experiment's own options to an argparse group. Their names must differ from those of other experiments."""

    def data_sets(self) -> list[DataSet]:
        """The data sets that the options ask for."""
        raise NotImplementedError

    @property
    def brief(self) -> bool:
        """Whether the scale is so small that this is a smoke run: everything is measured once unless options say otherwise."""
        return self.options.scale < BRIEF

    @property
    def rounds(self) -> int:
        """How often reads are measured."""
        return self.options.rounds or (1 if self.brief else 3)

    @property
    def clients(self) -> int:
        """The number of client processes for concurrent inserts. Starting many processes for few documents would take too long."""
        return self.options.clients or (4 if self.brief else 16)

    def scaled(self, size: int, least: int = 1) -> int:
        """A published number of documents at the run's scale."""
        return max(least, round(size * self.options.scale))

    def scaled_sizes(self, sizes: Iterable[int], least: int = 1) -> list[int]:
        """Several published numbers of documents at the run's scale. A smoke run leaves out small sets, which mainly restart the servers."""
        scaled = sorted({self.scaled(size, least) for size in sizes})
        telling = [size for size in scaled if size >= BRIEF_LEAST]
        return (telling or scaled[-1:]) if self.brief else scaled

    def singly(self, size: int, least: int = 1) -> int:
        """The same for requests sent one by one, which a smoke run limits to a thousand."""
        return self.one_by_one(self.scaled(size, least))

    def one_by_one(self, requests: int) -> int:
        """The number of requests sent one by one, limited in a smoke run."""
        return min(requests, BRIEF_REQUESTS) if self.brief else requests

    def run(self, progress, done: dict[str, set[str]]) -> None:
        """Runs all data sets. `progress` is a rich display. `done` contains, by data set, the targets that an earlier run has measured."""
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
            # The failure concerns the data set and not a target. The data set stays incomplete, and the others continue.
            fields = {"workload": self.name, "shape": data.name, "durability": data.durability, "target": "–", "operation": "data set"}
            self._recorder.write("failure", **fields, error=f"{type(failure).__name__}: {failure}", trace=traceback.format_exc()[-2000:])
        progress.remove_task(task)


def checked(sample: Sample, expected: int | None) -> dict:
    """A sample's fields. A wrong number of rows is an error."""
    if expected is not None and sample.rows != expected:
        raise AssertionError(f"returned {sample.rows} rows, expected {expected}")
    return asdict(sample)
