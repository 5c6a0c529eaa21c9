"""How long single requests take: distributions, the same over time, and client processes that make the requests.

A mean hides a stall, so the benches that ask about stalls keep every request: counted by its duration in steps of 100 ns, which
costs a client a dictionary's increment, exact in memory, and written down as an HdrHistogram (nanoseconds, three digits).

A client that waits for one answer before it sends the next request does not send those that a stall would have held up. Where
requests are due at a rate, `Latencies.corrected` adds them, as HdrHistogram's correction for coordinated omission does.
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

STEPS = 10_000_000  # of 100 ns, a second
_PENDING = object()  # in the place of what a process has not returned yet
LONGEST = 3600 * 1_000_000_000  # what the written histogram can tell, in nanoseconds
READY_LIMIT = 120.0
LEAVE_LIMIT = 10.0


class Latencies:
    """The durations of one kind of operation."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = defaultdict(int)

    def record(self, seconds: float) -> None:
        """One operation that took so long."""
        self._counts[int(seconds * STEPS)] += 1

    def timed(self, operation: Callable, *arguments):
        """Does an operation, records it, and returns its result; one that fails is not recorded."""
        start = time.perf_counter()
        result = operation(*arguments)
        self._counts[int((time.perf_counter() - start) * STEPS)] += 1
        return result

    def merge(self, other: "Latencies") -> None:
        """Adds what another recorded."""
        for steps, count in other._counts.items():
            self._counts[steps] += count

    def corrected(self, interval: float) -> "Latencies":
        """These, and the requests that were due every `interval` seconds while a longer one kept the client waiting."""
        step = max(1, round(interval * STEPS))
        whole = Latencies()
        for steps, count in self._counts.items():
            for waited in range(steps, min(steps, step) - 1, -step):
                whole._counts[waited] += count
        return whole

    @property
    def count(self) -> int:
        """How many were recorded."""
        return sum(self._counts.values())

    def above(self, seconds: float) -> int:
        """How many took longer."""
        return sum(count for steps, count in self._counts.items() if steps > seconds * STEPS)

    def microseconds(self, *percentiles: float) -> list[float | None]:
        """The durations at or below which these percentages of the operations ended; 100 is the longest. None of none."""
        total, ordered = self.count, sorted(self._counts.items())
        if not total:
            return [None] * len(percentiles)
        told = []
        for percentile in percentiles:
            # The smallest value that at least this share does not exceed; the tolerance keeps 99.9 % of 1,000 at the 999th.
            wanted, seen = max(1.0, percentile / 100 * total - 1e-6), 0
            for steps, count in ordered:
                seen += count
                if seen >= wanted:
                    break
            told.append(steps * 1_000_000 / STEPS)
        return told

    def fields(self) -> dict:
        """For a record: percentiles, the longest and how many; `hdr` is the whole distribution, base64 of HdrHistogram's V2."""
        p50, p99, p999, longest = self.microseconds(50, 99, 99.9, 100)
        return {"count": self.count, "p50_us": p50, "p99_us": p99, "p999_us": p999, "max_us": longest, "hdr": self._encoded()}

    def _encoded(self) -> str:
        histogram = HdrHistogram(1, LONGEST, 3)
        for steps, count in self._counts.items():
            histogram.record_value(min(max(1, steps * 1_000_000_000 // STEPS), LONGEST), count)
        return histogram.encode().decode()


class Timeline:
    """The durations of one kind of operation by slots of the time since a common start; an operation is in the slot it ended in."""

    def __init__(self, slot_seconds: float, start: float) -> None:
        self.slot_seconds = slot_seconds
        self._start = start  # of time.perf_counter, which on one machine is one clock for all processes
        self._slots: dict[int, Latencies] = defaultdict(Latencies)

    def record(self, seconds: float, ended: float) -> None:
        """One operation that took so long and ended at that time."""
        self._slots[int((ended - self._start) / self.slot_seconds)].record(seconds)

    def timed(self, operation: Callable, *arguments):
        """Does an operation, records it, and returns its result; one that fails is not recorded."""
        start = time.perf_counter()
        result = operation(*arguments)
        ended = time.perf_counter()
        self.record(ended - start, ended)
        return result

    def merge(self, other: "Timeline") -> None:
        """Adds what another of the same start and slots recorded."""
        for number, latencies in other._slots.items():
            self._slots[number].merge(latencies)

    def whole(self) -> Latencies:
        """All slots together."""
        every = Latencies()
        for latencies in self._slots.values():
            every.merge(latencies)
        return every

    def fields(self) -> dict:
        """For a record: lists with one element a slot, those without an operation included, since they are the stalls."""
        slots = [self._slots.get(number, Latencies()) for number in range(max(self._slots, default=-1) + 1)]
        columns = list(zip(*(latencies.microseconds(50, 99, 100) for latencies in slots))) or [()] * 3
        counts = {"slot_seconds": self.slot_seconds, "count": [latencies.count for latencies in slots]}
        return counts | {name: list(column) for name, column in zip(("p50_us", "p99_us", "max_us"), columns)}


@dataclass(frozen=True)
class Role:
    """What `processes` client processes do, each with its own connection. The functions are picklable and take a `Station`.

    `work` runs until its work is done or `Station.going` is false, and returns what the workload wants to know; `prepare` runs
    before the clock starts. An attendant goes on until the others have ended, and is told to stop then.
    """

    name: str
    work: Callable[["Station"], object]
    processes: int = 1
    argument: object = None
    prepare: Callable[["Station"], object] | None = None
    attendant: bool = False


class Station:
    """A client process' place: its connection, which of its role's processes it is, when to stop, and its records."""

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
        """Whether the role is to go on."""
        return not self._signals.stopped.value

    def share(self, items: list) -> list:
        """This process' part of what its role's processes do together."""
        return items[self.number :: self.role.processes]

    def timed(self, name: str, operation: Callable, *arguments):
        """Does an operation and records it under a name; returns its result."""
        timeline = self.timelines.get(name)
        if timeline is None:
            timeline = self.timelines[name] = Timeline(self._signals.slot_seconds, self._signals.start.value)
        return timeline.timed(operation, *arguments)

    def paced(self, per_second: float) -> Iterator[int]:
        """Numbers from 0 on, one each time a request is due, at once after a longer one, until it is time to stop."""
        interval, due, number = 1 / per_second, time.perf_counter(), 0
        while self.going:
            yield number
            number += 1
            due = max(due + interval, time.perf_counter() - interval)
            rest = due - time.perf_counter()
            if rest > 0:
                time.sleep(rest)


class _Signals:
    """What the processes share: bytes of memory, since a semaphore asked before each request would cost as much as some answers."""

    def __init__(self, context, slot_seconds: float) -> None:
        self.slot_seconds = slot_seconds
        self.start = context.RawValue("d", 0.0)
        self.stopped = context.RawValue("b", 0)


@dataclass
class Told:
    """What client processes came back with: timelines by operation, what each role's processes returned, and the stretch."""

    timelines: dict[str, Timeline] = field(default_factory=dict)
    returned: dict[str, list] = field(default_factory=dict)  # in the order of the role's processes
    meanwhile: object = None  # what `meanwhile` returned
    wall_seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    server_cpu_seconds: float | None = None

    def latencies(self, operation: str) -> Latencies:
        """All of one operation; none is recorded of one that never ended."""
        return self.timelines[operation].whole() if operation in self.timelines else Latencies()

    def sample(self, *operations: str) -> Sample:
        """The stretch as a sample of all operations, or of these alone, whose part of the CPU time nobody can tell."""
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
        gc.freeze()  # what is loaded by now need not be looked through in the middle of a request
        ready.release()
        go.wait()
        cpu, start = time.process_time(), time.perf_counter()
        returned = role.work(station)
        end, cpu = time.perf_counter(), time.process_time() - cpu
        results.put((role.name, number, station.timelines, returned, start, end, cpu))
    except Exception as failure:
        # A driver's exception need not survive pickling; its text does.
        told = RuntimeError(f"a client of the role {role.name!r} failed: {type(failure).__name__}: {failure}")
        ready.release()
        take_leave(client)
        results.put(failure if isinstance(failure, Unsupported) else told)
    else:
        take_leave(client)  # the work is told; a server that was killed under the connection cannot hear it


def run_clients(
    contestant: Contestant,
    roles: list[Role],
    seconds: float | None = None,
    meanwhile: Callable[["Watch"], object] | None = None,
    slot_seconds: float = 0.5,
    limit: float = 7200.0,
) -> Told:
    """Runs the roles' client processes together, started before the clock, and gathers what they recorded and returned.

    They are told to stop after `seconds`, or when `meanwhile` (run here, in this process, with a `Watch`) returns; with both, when both have
    passed; with neither they end by themselves. Roles have different names; one that fails stops all. Processes, not threads:
    Python's threads take turns.
    """
    context = client_context()
    ready, go, results = context.Semaphore(0), context.Event(), context.Queue()
    signals = _Signals(context, slot_seconds)
    workers = [
        context.Process(target=_client_process, args=(contestant.connect, role, number, signals, ready, go, results), daemon=True)
        for role in roles
        for number in range(role.processes)
    ]
    told = Told(returned={role.name: [_PENDING] * role.processes for role in roles})
    try:
        for worker in workers:
            worker.start()
        for _ in workers:
            if not ready.acquire(timeout=READY_LIMIT):
                raise RuntimeError(f"a client process did not get ready within {READY_LIMIT:.0f} s")
        server = contestant.server_cpu()
        began = signals.start.value = time.perf_counter()
        go.set()
        if meanwhile:
            told.meanwhile = meanwhile(Watch(workers, results, told, roles))
        if seconds is not None:
            _gather(workers, results, told, roles, began + seconds)
        if meanwhile is None and seconds is None:
            _gather(workers, results, told, [role for role in roles if not role.attendant], time.perf_counter() + limit)
        signals.stopped.value = 1
        _gather(workers, results, told, roles, time.perf_counter() + limit)
        if not _ended(told, roles):
            raise RuntimeError("client processes did not end in time")
        now = contestant.server_cpu()
        told.server_cpu_seconds = None if now is None or server is None else now - server
        return told
    finally:
        signals.stopped.value = 1
        begun = [worker for worker in workers if worker.pid is not None]
        _await_end(begun)
        for worker in begun:
            worker.terminate()
            worker.join(10)


class Watch:
    """What has come of the client processes so far, for work beside them that would wait for them in vain."""

    def __init__(self, workers: list, results, told: Told, roles: list[Role]) -> None:
        self._sources = workers, results, told, roles
        self._told = told

    def ended(self, role: str) -> list:
        """What those of the role's processes returned that have ended; a process that failed is an error."""
        _gather(*self._sources, time.perf_counter() + 0.001)
        return [one for one in self._told.returned[role] if one is not _PENDING]


def _ended(told: Told, roles: list[Role]) -> bool:
    return not any(one is _PENDING for role in roles for one in told.returned[role.name])


def _await_end(workers: list) -> None:
    """Lets processes that are told to stop take their leave: a store that processes share would keep the locks of a killed one."""
    end = time.monotonic() + LEAVE_LIMIT
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))


def _gather(workers: list, results, told: Told, roles: list[Role], until: float) -> None:
    """Takes what processes send until those of the roles have ended or the time has come."""
    while not _ended(told, roles) and (rest := until - time.perf_counter()) > 0:
        try:
            result = results.get(timeout=min(rest, 1.0))
        except queue.Empty:
            dead = [worker.exitcode for worker in workers if worker.exitcode]
            if dead:
                raise RuntimeError(f"{len(dead)} client processes ended with exit code {dead[0]}") from None
            continue
        if isinstance(result, Exception):
            raise result
        _take(told, *result)


def _take(told: Told, role: str, number: int, timelines: dict, returned, start: float, end: float, cpu: float) -> None:
    for operation, timeline in timelines.items():
        if operation in told.timelines:
            told.timelines[operation].merge(timeline)
        else:
            told.timelines[operation] = timeline
    told.returned[role][number] = returned
    told.wall_seconds = max(told.wall_seconds, end - start)
    told.client_cpu_seconds += cpu
