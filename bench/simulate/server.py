"""PostgreSQL as the commit path sees it: head rows with their locks, cores, and the write-ahead log."""

from random import Random
from typing import Protocol

from bench.simulate.clock import Clock, Places, Task, Together
from bench.simulate.settings import Settings


class Head:
    """A head row: the number of the last group, whose it was, and the row's lock, which is given in the order of asking."""

    def __init__(self, clock: Clock) -> None:
        self.number = 0
        self.held = 0.0
        """Seconds for which the lock was held, without those of the present holder."""
        self._clock = clock
        self._lock = Places()
        self._since = 0.0
        self._last_by: object = None
        self._last_of_others = 0

    def take(self) -> Task:
        """Waits for the row's lock."""
        yield from self._lock.take()
        self._since = self._clock.now

    def leave(self) -> None:
        """Gives the lock to the one who has waited longest."""
        self.held += self._clock.now - self._since
        self._lock.leave()

    def advance(self, process: object) -> None:
        """Counts a group of this process."""
        if process is not self._last_by:
            self._last_of_others = self.number
            self._last_by = process
        self.number += 1

    def last_foreign(self, process: object) -> int:
        """The number of the last group that is not of this process; 0 if there is none."""
        return self._last_of_others if process is self._last_by else self.number


class Listener(Protocol):
    """Who is told of each group."""

    def notified(self) -> Task:
        """Another process has committed a group."""


class Server:
    """One PostgreSQL. All commits that wait for a sync share the next one, as in PostgreSQL."""

    def __init__(self, clock: Clock, settings: Settings, random: Random) -> None:
        self._clock = clock
        self._settings = settings
        self._random = random
        self._cores = Places(settings.server_cores)
        self.heads = [Head(clock) for _ in range(settings.stripes)]
        self.log = Together(clock, self._sync)
        self.listeners: list[Listener] = []
        self.cpu = 0.0
        self.messages = 0

    def vary(self, seconds: float) -> float:
        """A duration around this mean."""
        spread = self._settings.spread
        return seconds * (1 + spread * (2 * self._random.random() - 1)) if seconds and spread else seconds

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return share > 0 and self._random.random() < share

    def notify(self, sender: Listener) -> None:
        """Tells all but the sender that there is a new group."""
        if self._settings.follows:
            for listener in self.listeners:
                if listener is not sender:
                    self._clock.spawn(listener.notified())

    def half_way(self) -> float:
        """The duration of one direction of a round trip."""
        return self.vary(self._settings.rtt) / 2

    def message(self, writes: int = 0) -> Task:
        """The server's work for one message that has arrived, with what so many writes change."""
        self.messages += 1
        seconds = self._settings.message + writes * self._settings.row_group
        self.cpu += seconds
        yield from self._cores.use(seconds)

    def round_trip(self, storage: float = 0.0) -> Task:
        """A message, its work and the answer. The server waits so long for its storage."""
        yield self.half_way()
        yield from self.message()
        if storage:
            yield storage
        yield self.half_way()

    def _sync(self) -> Task:
        yield self.vary(self._settings.sync)
