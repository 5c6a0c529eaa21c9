"""Runs one configuration: builds server, processes and clients, and lets the time pass."""

from random import Random

from bench.simulate.clock import Clock, Task
from bench.simulate.process import Process
from bench.simulate.results import Results
from bench.simulate.server import Server
from bench.simulate.settings import Settings


def simulate(settings: Settings) -> Results:
    """The results of one run. The same settings have the same results."""
    clock, random, results = Clock(), Random(settings.seed), Results()
    server = Server(clock, settings, random)
    processes = [Process(clock, settings, server, results) for _ in range(settings.processes)]
    load = Load(clock, settings, random, results, processes)
    load.begin()
    clock.run(settings.warm_up)
    held, cpu, syncs = [sum(head.held for head in server.heads)], server.cpu, server.log.times
    results.counting = True
    clock.run(settings.warm_up + settings.seconds)
    results.seconds = settings.seconds
    held.append(sum(head.held for head in server.heads))
    results.lock_share = (held[1] - held[0]) / settings.seconds / settings.stripes
    results.server_cores_used = (server.cpu - cpu) / settings.seconds
    results.syncs = server.log.times - syncs
    results.unanswered = load.under_way
    return results


class Load:
    """The clients of all processes."""

    def __init__(self, clock: Clock, settings: Settings, random: Random, results: Results, processes: list[Process]) -> None:
        self._clock = clock
        self._settings = settings
        self._random = random
        self._results = results
        self._processes = processes
        self.under_way = 0

    def begin(self) -> None:
        """Begins the arrivals of an open loop, or the clients of a closed one."""
        if self._settings.rate:
            self._clock.spawn(self._arrivals())
            return
        for process in self._processes:
            for _ in range(self._settings.clients):
                self._clock.spawn(self._client(process))

    def _arrivals(self) -> Task:
        # Operations arrive by chance at a fixed mean rate, each at any of the processes.
        while True:
            yield self._random.expovariate(self._settings.rate)
            self._clock.spawn(self._operation(self._random.choice(self._processes)))

    def _client(self, process: Process) -> Task:
        settings = self._settings
        # Clients do not begin at the same moment.
        if settings.spread:
            yield self._random.random() * (settings.rtt + settings.sync)
        while True:
            if settings.think:
                yield self._random.expovariate(1 / settings.think)
            yield from self._operation(process)

    def _operation(self, process: Process) -> Task:
        began = self._clock.now
        kind = "write" if self._random.random() < self._settings.writes else "read"
        self.under_way += 1
        yield from process.write(self._stripes()) if kind == "write" else process.read()
        self.under_way -= 1
        self._results.answered(kind, self._clock.now - began)

    def _stripes(self) -> tuple[int, ...]:
        collections = 2 if self._random.random() < self._settings.wide else 1
        return tuple(sorted({self._collection() % self._settings.stripes for _ in range(collections)}))

    def _collection(self) -> int:
        # Collection 0 is the hot one, if there is one.
        if self._random.random() < self._settings.hot:
            return 0
        return self._random.randrange(self._settings.collections)
