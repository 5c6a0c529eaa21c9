"""Times single requests: distributions of durations, distributions over time, and the client processes that send the requests.

A mean hides a stall, so workloads about stalls record every request. `Latencies` counts durations in steps of 100 ns, which
costs a client one increment in a dictionary. The result file contains them as an HdrHistogram (nanoseconds, three digits).

A client that waits for each answer does not send the requests that a stall would have delayed. If
requests are due at a fixed rate, `Latencies.corrected` adds them, like HdrHistogram's correction for coordinated omission.
"""

import gc
import queue
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hdrh.histogram import HdrHistogram

from bench.measure import Contestant, Sample, begin_client_process, client_context, take_leave
from bench.targets import Client
from bench.targets.base import Unsupported

STEPS = 10_000_000  # steps of 100 ns in a second
_PENDING = object()  # stands for the result of a process that has not ended
LONGEST = 3600 * 1_000_000_000  # the longest duration in the written histogram, in nanoseconds
READY_LIMIT = 120.0
LEAVE_LIMIT = 10.0


class Latencies:
    """The durations of one kind of operation."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = defaultdict(int)

    def record(self, seconds: float) -> None:
        """Records the duration of one operation."""
        self._counts[int(seconds * STEPS)] += 1

    def timed(self, operation: Callable, *arguments):
        """Does an operation, records it, and returns its result; one that fails is not recorded."""
        start = time.perf_counter()
        result = operation(*arguments)
        self._counts[int((time.perf_counter() - start) * STEPS)] += 1
        return result

    def merge(self, other: "Latencies") -> None:
        """Adds the durations of another `Latencies`."""
        for steps, count in other._counts.items():
            self._counts[steps] += count

    def corrected(self, interval: float) -> "Latencies":
        """These durations, plus those of the requests that were due every `interval` seconds while the client waited for a longer one."""
        step = max(1, round(interval * STEPS))
        whole = Latencies()
        for steps, count in self._counts.items():
            for waited in range(steps, min(steps, step) - 1, -step):
                whole._counts[waited] += count
        return whole

    @property
    def count(self) -> int:
        """The number of recorded operations."""
        return sum(self._counts.values())

    def above(self, seconds: float) -> int:
        """The number of operations that took longer."""
        return sum(count for steps, count in self._counts.items() if steps > seconds * STEPS)

    def microseconds(self, *percentiles: float) -> list[float | None]:
        """The durations that these percentages of the operations did not exceed; 100 is the longest. None if there are no operations."""
        total, ordered = self.count, sorted(self._counts.items())
        if not total:
            return [None] * len(percentiles)
        durations = []
        for percentile in percentiles:
            # The smallest duration that at least this share does not exceed. The tolerance makes 99.9 % of 1,000 the 999th value.
            wanted, seen = max(1.0, percentile / 100 * total - 1e-6), 0
            for steps, count in ordered:
                seen += count
                if seen >= wanted:
                    break
            durations.append(steps * 1_000_000 / STEPS)
        return durations

    def fields(self) -> dict:
        """The fields of a record: percentiles, longest and count; `hdr` is the complete distribution as HdrHistogram V2 in base64."""
        p50, p99, p999, longest = self.microseconds(50, 99, 99.9, 100)
        return {"count": self.count, "p50_us": p50, "p99_us": p99, "p999_us": p999, "max_us": longest, "hdr": self._encoded()}

    def _encoded(self) -> str:
        histogram = HdrHistogram(1, LONGEST, 3)
        for steps, count in self._counts.items():
            histogram.record_value(min(max(1, steps * 1_000_000_000 // STEPS), LONGEST), count)
        return histogram.encode().decode()


class Timeline:
    """The durations of one kind of operation in time slots since a common start. An operation belongs to the slot in which it ended."""

    def __init__(self, slot_seconds: float, start: float) -> None:
        self.slot_seconds = slot_seconds
        self._start = start  # a value of time.perf_counter, which is one clock for all processes of a machine
        self._slots: dict[int, Latencies] = defaultdict(Latencies)

    def record(self, seconds: float, ended: float) -> None:
        """Records the duration and the end time of one operation."""
        self._slots[int((ended - self._start) / self.slot_seconds)].record(seconds)

    def timed(self, operation: Callable, *arguments):
        """Does an operation, records it, and returns its result; one that fails is not recorded."""
        start = time.perf_counter()
        result = operation(*arguments)
        ended = time.perf_counter()
        self.record(ended - start, ended)
        return result

    def merge(self, other: "Timeline") -> None:
        """Adds the durations of another timeline with the same start and slots."""
        for number, latencies in other._slots.items():
            self._slots[number].merge(latencies)

    def whole(self) -> Latencies:
        """All slots together."""
        every = Latencies()
        for latencies in self._slots.values():
            every.merge(latencies)
        return every

    def fields(self) -> dict:
        """The fields of a record: lists with one element per slot, including slots without an operation, because these are the stalls."""
        slots = [self._slots.get(number, Latencies()) for number in range(max(self._slots, default=-1) + 1)]
        columns = list(zip(*(latencies.microseconds(50, 99, 100) for latencies in slots))) or [()] * 3
        counts = {"slot_seconds": self.slot_seconds, "count": [latencies.count for latencies in slots]}
        return counts | {name: list(column) for name, column in zip(("p50_us", "p99_us", "max_us"), columns)}


@dataclass(frozen=True)
class Role:
    """A function that `processes` client processes run, each with its own connection. `work` and `prepare` are picklable and take a `Station`.

    `work` runs until it is finished or `Station.going` is false, and returns a result for the workload. `prepare` runs
    before the clock starts. A role with `attendant` runs until the other roles have ended, and is then stopped.
    """

    name: str
    work: Callable[["Station"], object]
    processes: int = 1
    argument: object = None
    prepare: Callable[["Station"], object] | None = None
    attendant: bool = False


class Station:
    """The context of a client process: its connection, its number among the processes of its role, the stop signal, and its timelines."""

    def __init__(self, client: Client, connect: Callable[[], Client], role: Role, number: int, signals) -> None:
        self.client = client
        self.connect = connect
        self.role = role
        self.number = number
        self.argument = role.argument
        self.timelines: dict[str, Timeline] = {}
        self._signals = signals

    @property
    def going(self) -> bool:
        """Whether the role should continue."""
        return not self._signals.stopped.value

    def share(self, items: list) -> list:
        """This process' share of the items of its role."""
        return items[self.number :: self.role.processes]

    def timed(self, name: str, operation: Callable, *arguments):
        """Does an operation and records it under a name; returns its result."""
        timeline = self.timelines.get(name)
        if timeline is None:
            timeline = self.timelines[name] = Timeline(self._signals.slot_seconds, self._signals.start.value)
        return timeline.timed(operation, *arguments)

    def paced(self, per_second: float) -> Iterator[int]:
        """Yields 0, 1, … whenever a request is due, without a delay after a late one, until the role should stop."""
        interval, due, number = 1 / per_second, time.perf_counter(), 0
        while self.going:
            yield number
            number += 1
            due = max(due + interval, time.perf_counter() - interval)
            rest = due - time.perf_counter()
            if rest > 0:
                time.sleep(rest)


class _Signals:
    """Values in memory shared by all processes. A semaphore checked before each request would cost as much as some answers."""

    def __init__(self, context, slot_seconds: float) -> None:
        self.slot_seconds = slot_seconds
        self.start = context.RawValue("d", 0.0)
        self.stopped = context.RawValue("b", 0)


@dataclass
class ClientResults:
    """The results of client processes: timelines by operation, return values by role, wall time and CPU times."""

    timelines: dict[str, Timeline] = field(default_factory=dict)
    returned: dict[str, list] = field(default_factory=dict)  # in the order of the role's processes
    meanwhile: object = None  # the return value of `meanwhile`
    wall_seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    server_cpu_seconds: float | None = None

    def latencies(self, operation: str) -> Latencies:
        """All durations of one operation; empty if it never finished."""
        return self.timelines[operation].whole() if operation in self.timelines else Latencies()

    def sample(self, *operations: str) -> Sample:
        """A sample of all operations, or of some of them. For some of them the CPU time is unknown."""
        done = sum(self.latencies(operation).count for operation in operations or self.timelines)
        if operations and set(operations) != set(self.timelines):
            return Sample(done, self.wall_seconds, None, None)
        return Sample(done, self.wall_seconds, self.client_cpu_seconds, self.server_cpu_seconds)


def _client_process(connect: Callable[[], Client], role: Role, number: int, signals: _Signals, ready, go, results) -> None:
    client = None
    try:
        begin_client_process()
        client = connect()
        station = Station(client, connect, role, number, signals)
        if role.prepare:
            role.prepare(station)
        gc.collect()
        gc.freeze()  # no garbage collection of existing objects during a request
        ready.release()
        go.wait()
        cpu, start = time.process_time(), time.perf_counter()
        returned = role.work(station)
        end, cpu = time.perf_counter(), time.process_time() - cpu
        results.put((role.name, number, station.timelines, returned, start, end, cpu))
    except Exception as failure:
        # An exception of a driver may not be picklable; its text is.
        failed = RuntimeError(f"a client of the role {role.name!r} failed: {type(failure).__name__}: {failure}")
        ready.release()
        take_leave(client)
        results.put(failure if isinstance(failure, Unsupported) else failed)
    else:
        take_leave(client)  # the result is already sent; a failure here, on a killed server, is ignored


def run_clients(
    contestant: Contestant,
    roles: list[Role],
    seconds: float | None = None,
    meanwhile: Callable[["Watch"], object] | None = None,
    slot_seconds: float = 0.5,
    limit: float = 7200.0,
) -> ClientResults:
    """Runs the client processes of all roles together and collects their results. The processes start before the clock.

    The processes stop after `seconds`, or when `meanwhile` returns. If both are given, they stop after the later of the two; if none is
    given, they end by themselves. `meanwhile` runs in this process, with a `Watch`. Roles have different names. If one fails, all stop.
    The function uses processes because Python's threads run one at a time.
    """
    context = client_context()
    ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
    signals = _Signals(context, slot_seconds)
    workers = [
        context.Process(target=_client_process, args=(contestant.connect, role, number, signals, ready, go, results), daemon=True)
        for role in roles
        for number in range(role.processes)
    ]
    outcome = ClientResults(returned={role.name: [_PENDING] * role.processes for role in roles})
    try:
        for worker in workers:
            worker.start()
        for _ in workers:
            if not ready.acquire(timeout=READY_LIMIT):
                raise RuntimeError(f"a client process was not ready within {READY_LIMIT:.0f} s")
        server = contestant.server_cpu()
        began = signals.start.value = time.perf_counter()
        go.set()
        if meanwhile:
            outcome.meanwhile = meanwhile(Watch(workers, results, outcome, roles))
        if seconds is not None:
            _gather(workers, results, outcome, roles, began + seconds)
        if meanwhile is None and seconds is None:
            _gather(workers, results, outcome, [role for role in roles if not role.attendant], time.perf_counter() + limit)
        signals.stopped.value = 1
        _gather(workers, results, outcome, roles, time.perf_counter() + limit)
        if not _ended(outcome, roles):
            raise RuntimeError("client processes did not end in time")
        now = contestant.server_cpu()
        outcome.server_cpu_seconds = None if now is None or server is None else now - server
        return outcome
    finally:
        signals.stopped.value = 1
        begun = [worker for worker in workers if worker.pid is not None]
        _await_end(begun)
        for worker in begun:
            worker.terminate()
            worker.join(10)


class Watch:
    """The results of client processes so far, so that work in the main process does not wait for processes that have ended."""

    def __init__(self, workers: list, results, outcome: ClientResults, roles: list[Role]) -> None:
        self._sources = workers, results, outcome, roles
        self._outcome = outcome

    def ended(self, role: str) -> list:
        """The return values of the role's processes that have ended. A failed process raises an error."""
        _gather(*self._sources, time.perf_counter() + 0.001)
        return [one for one in self._outcome.returned[role] if one is not _PENDING]


def _ended(outcome: ClientResults, roles: list[Role]) -> bool:
    return not any(one is _PENDING for role in roles for one in outcome.returned[role.name])


def _await_end(workers: list) -> None:
    """Waits for stopped processes to end by themselves; a killed one would leave its locks in a store that processes share."""
    end = time.monotonic() + LEAVE_LIMIT
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))


def _gather(workers: list, results, outcome: ClientResults, roles: list[Role], until: float) -> None:
    """Takes results until all processes of the roles have ended or the time `until` is reached."""
    while not _ended(outcome, roles) and (rest := until - time.perf_counter()) > 0:
        try:
            result = results.get(timeout=min(rest, 1.0))
        except queue.Empty:
            dead = [worker.exitcode for worker in workers if worker.exitcode]
            if dead:
                raise RuntimeError(f"{len(dead)} client processes ended with exit code {dead[0]}") from None
            continue
        if isinstance(result, Exception):
            raise result
        _take(outcome, *result)


def _take(outcome: ClientResults, role: str, number: int, timelines: dict, returned, start: float, end: float, cpu: float) -> None:
    for operation, timeline in timelines.items():
        if operation in outcome.timelines:
            outcome.timelines[operation].merge(timeline)
        else:
            outcome.timelines[operation] = timeline
    outcome.returned[role][number] = returned
    outcome.wall_seconds = max(outcome.wall_seconds, end - start)
    outcome.client_cpu_seconds += cpu
