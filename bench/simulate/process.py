"""A Diwan process: its committers, its view of the head rows, and its operations."""

from collections import deque
from dataclasses import dataclass, field

from bench.simulate.clock import Clock, Places, Signal, Task, Together
from bench.simulate.results import Results
from bench.simulate.server import Server
from bench.simulate.settings import Settings


@dataclass(slots=True)
class Write:
    """A write that waits for its group."""

    stripes: tuple[int, ...]
    seen: dict[int, int] = field(default_factory=dict)
    """For each of its stripes the group that the process had applied when the write was evaluated."""
    done: Signal = field(default_factory=Signal)


class Process:
    """One process. It has a committer for each stripe, and one more for writes that belong to two."""

    def __init__(self, clock: Clock, settings: Settings, server: Server, results: Results) -> None:
        self._settings = settings
        self._server = server
        self._results = results
        self._cores = Places(settings.process_cores)
        self._applied = [0] * settings.stripes
        self._heads_read = Together(clock, self._read_heads)
        self._followed = Together(clock, self._read_journal)
        self._committers = [Committer(self, clock, settings, server, results) for _ in range(settings.stripes + 1)]
        server.listeners.append(self)

    def write(self, stripes: tuple[int, ...]) -> Task:
        """Evaluates a write, submits it and waits for its outcome."""
        write = Write(stripes)
        lacks = self._lacks_something()
        yield from self._evaluate(write)
        if lacks:
            yield from self._server.round_trip()
        if self._settings.storage and self._settings.warms:
            yield from self._server.round_trip(self._server.vary(self._settings.storage))
        lane = stripes[0] if len(stripes) == 1 else -1
        self._committers[lane].submit(write)
        yield write.done

    def read(self) -> Task:
        """A read: the head's number, the journal if it has moved, then the cache or the server."""
        yield from self._heads_read.join()
        if self._lacks_something():
            yield from self._server.round_trip()
        yield from self._cores.use(self._server.vary(self._settings.evaluation))

    def notified(self) -> Task:
        """Another process has committed: reads the journal, together with all notices that come during one reading."""
        yield self._server.half_way()
        yield from self._followed.join()

    def apply(self, numbers: dict[int, int]) -> None:
        """The process now knows these groups of these stripes."""
        for stripe, number in numbers.items():
            self._applied[stripe] = max(self._applied[stripe], number)

    def _evaluate(self, write: Write) -> Task:
        # The head is read first. It decides whether the write is stale.
        write.seen = {stripe: self._applied[stripe] for stripe in write.stripes}
        yield from self._cores.use(self._server.vary(self._settings.evaluation))

    def evaluate_again(self, writes: list[Write]) -> float:
        """The seconds that all cores of the process take to evaluate these writes again. Other evaluations are not delayed by it."""
        for write in writes:
            write.seen = {stripe: self._applied[stripe] for stripe in write.stripes}
        return self._settings.evaluation * max(1.0, len(writes) / self._settings.process_cores)

    def _lacks_something(self) -> bool:
        return self._server.chance(self._settings.misses)

    def _read_heads(self) -> Task:
        yield self._server.half_way()
        yield from self._server.message()
        numbers = dict(enumerate(head.number for head in self._server.heads))
        yield self._server.half_way()
        self._results.count("heads read")
        if any(number > self._applied[stripe] for stripe, number in numbers.items()):
            yield from self._server.round_trip()
            self._results.count("journal read")
            self.apply(numbers)

    def _read_journal(self) -> Task:
        yield self._server.half_way()
        yield from self._server.message()
        numbers = dict(enumerate(head.number for head in self._server.heads))
        yield self._server.half_way()
        self._results.count("journal read")
        self.apply(numbers)


class Committer:
    """Gathers the writes that wait to a group, and commits one group after another."""

    def __init__(self, process: Process, clock: Clock, settings: Settings, server: Server, results: Results) -> None:
        self._process = process
        self._clock = clock
        self._settings = settings
        self._server = server
        self._results = results
        self._waiting: deque[Write] = deque()
        self._running = False

    def submit(self, write: Write) -> None:
        """Adds a write to those that wait."""
        self._waiting.append(write)
        if not self._running:
            self._running = True
            self._clock.spawn(self._run())

    def _run(self) -> Task:
        while self._waiting:
            yield from self._commit(self._gather([]))
        self._running = False

    def _gather(self, group: list[Write]) -> list[Write]:
        while self._waiting and len(group) < self._settings.group_limit:
            group.append(self._waiting.popleft())
        return group

    def _commit(self, group: list[Write]) -> Task:
        server, settings = self._server, self._settings
        stripes = _stripes(group)
        yield server.half_way()
        yield from self._lock(stripes)
        yield from server.message()
        is_stale = self._is_stale(group)
        if is_stale:
            yield from self._catch_up(group, stripes)
        for _ in range(1 if is_stale else settings.trips):
            yield server.half_way() + server.half_way()
        yield from server.message(len(group))
        if settings.storage and not settings.warms:
            yield server.vary(len(group) * settings.storage)
        yield from server.log.join()
        for stripe in stripes:
            server.heads[stripe].advance(self._process)
        numbers = {stripe: server.heads[stripe].number for stripe in stripes}
        self._unlock(stripes)
        server.notify(self._process)
        self._results.committed(len(group), is_stale)
        yield server.half_way()
        self._process.apply(numbers)
        for write in group:
            write.done.fire()

    def _catch_up(self, group: list[Write], stripes: list[int]) -> Task:
        server, settings = self._server, self._settings
        if not settings.keeps_lock:
            self._unlock(stripes)
            yield server.half_way() + server.half_way()
            yield from self._lock(stripes)
            yield from server.message()
        for _ in range(settings.catch_up):
            yield server.half_way() + server.half_way()
            yield from server.message()
        self._process.apply({stripe: server.heads[stripe].number for stripe in stripes})
        # Writes behind this group fail with it and are evaluated again too. Wide ones may need locks that are not held.
        if len(stripes) == 1:
            self._gather(group)
        yield self._process.evaluate_again(group)

    def _is_stale(self, group: list[Write]) -> bool:
        heads = self._server.heads
        return any(heads[stripe].last_foreign(self._process) > seen for write in group for stripe, seen in write.seen.items())

    def _lock(self, stripes: list[int]) -> Task:
        # One order for all, so that no two wait for each other.
        for stripe in stripes:
            yield from self._server.heads[stripe].take()

    def _unlock(self, stripes: list[int]) -> None:
        for stripe in stripes:
            self._server.heads[stripe].leave()


def _stripes(group: list[Write]) -> list[int]:
    return sorted({stripe for write in group for stripe in write.stripes})
