"""A discrete-event simulation: a clock, tasks, and what tasks wait for.

A task is a generator. It yields a number of seconds to sleep, or a `Signal` to wait for. Events of the same moment happen in
the order in which they were scheduled, so a run with the same seed has the same result.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator
from itertools import count

Task = Generator


class Clock:
    """The simulated time, in seconds, and the events to come."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def spawn(self, task: Task) -> None:
        """Begins a task at the present moment."""
        self._at(self.now, lambda: self._step(task))

    def run(self, until: float) -> None:
        """Lets everything happen that happens before `until`."""
        while self._events and self._events[0][0] < until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._numbers), event))

    def _step(self, task: Task) -> None:
        try:
            wanted = next(task)
        except StopIteration:
            return
        if not isinstance(wanted, Signal):
            self._at(self.now + wanted, lambda: self._step(task))
        elif wanted.fired:
            self._at(self.now, lambda: self._step(task))
        else:
            wanted.tasks.append(lambda: self._at(self.now, lambda: self._step(task)))


class Signal:
    """Something that happens once."""

    __slots__ = ("fired", "tasks")

    def __init__(self) -> None:
        self.fired = False
        self.tasks: list[Callable[[], None]] = []

    def fire(self) -> None:
        """Wakes all tasks that wait for it."""
        self.fired = True
        for wake in self.tasks:
            wake()
        self.tasks.clear()


class Places:
    """A number of places that tasks take in the order in which they ask: a lock has one, a processor one for each core."""

    def __init__(self, places: int = 1) -> None:
        self._free = places
        self._queue: deque[Signal] = deque()

    def take(self) -> Task:
        """Waits for a place."""
        if self._free and not self._queue:
            self._free -= 1
        else:
            turn = Signal()
            self._queue.append(turn)
            yield turn

    def leave(self) -> None:
        """Gives a place to the task that has waited longest."""
        if self._queue:
            self._queue.popleft().fire()
        else:
            self._free += 1

    def use(self, seconds: float) -> Task:
        """Takes a place for a time."""
        if seconds > 0:
            yield from self.take()
            yield seconds
            self.leave()


class Together:
    """Work that is done for all who wait at its beginning, such as a sync. Who comes later waits for the next time."""

    def __init__(self, clock: Clock, work: Callable[[], Task]) -> None:
        self._clock = clock
        self._work = work
        self._waiting: list[Signal] = []
        self._running = False
        self.times = 0

    def join(self) -> Task:
        """Waits for the next time that begins from now on."""
        done = Signal()
        self._waiting.append(done)
        if not self._running:
            self._running = True
            self._clock.spawn(self._run())
        yield done

    def _run(self) -> Task:
        while self._waiting:
            served, self._waiting = self._waiting, []
            self.times += 1
            yield from self._work()
            for done in served:
                done.fire()
        self._running = False
