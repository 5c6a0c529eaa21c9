"""Compares simulated commits with commits over a real PostgreSQL on this machine."""

import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.simulate.run import simulate
from bench.simulate.settings import Settings
from bench.simulate.store import Committer, postgres
from bench.simulate.tables import Row, Simulate, Table, milliseconds, percent, rounded

ROUND_TRIPS = (0.0, 1e-3, 3e-3)
PROCESSES = (2, 4, 16)
TURNS = 5
WARM_UP = 0.2


def together(committers: list[Committer], seconds: float) -> None:
    """Lets these commit at the same time, each in a thread."""
    end = time.perf_counter() + seconds
    failures = []

    def work(committer: Committer) -> None:
        try:
            while time.perf_counter() < end:
                committer.commit()
        except Exception as error:  # it would otherwise end the thread alone
            failures.append(error)

    threads = [threading.Thread(target=work, args=(committer,)) for committer in committers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def measured(address: str, seconds: float, count: int, *, striped: bool = False, **options) -> tuple[float, list[Committer]]:
    """Commits per second of so many committers, after a warm-up; and the committers, which are closed. `striped` gives each a head row."""
    committers = [Committer(address, number, stripe=number if striped else 0, **options) for number in range(count)]
    try:
        together(committers, WARM_UP)
        for committer in committers:
            committer.commits = committer.stale = 0
            committer.slept = committer.messages = committer.first = committer.last = 0.0
        began = time.perf_counter()
        together(committers, seconds)
        return sum(committer.commits for committer in committers) / (time.perf_counter() - began), committers
    finally:
        for committer in committers:
            committer.close()


class Alone:
    """What one committer alone says of the costs over a network: of a message, of writing beyond that, and of a sync. Cores that sleep between
    two messages are slower than busy ones, so the costs depend on the network."""

    def __init__(self, address: str, writes: int, rtt: float) -> None:
        self._options = {"address": address, "count": 1, "writes": writes, "rtt": rtt}
        self._first, self._written, self._synced = [], [], []

    def measure(self, seconds: float) -> None:
        """Measures once more."""
        _, (unsynced,) = measured(seconds=seconds, syncs=False, **self._options)
        _, (synced,) = measured(seconds=seconds, **self._options)
        self._first.append(unsynced.first / unsynced.commits)
        self._written.append(unsynced.last / unsynced.commits)
        self._synced.append(synced.last / synced.commits)

    def settings(self) -> Settings:
        """The means of these costs."""
        message, written, synced = map(statistics.mean, (self._first, self._written, self._synced))
        rows = max(0.0, written - message)
        sync = max(0.0, synced - message - rows)
        return Settings(rtt=0, sync=sync, message=message, row_group=rows, evaluation=0, clients=1, follows=False, warm_up=2.0, seconds=20.0)


def measure(seconds: float, directory: Path | None) -> str:
    """Measures and simulates; a table in Markdown."""
    with postgres(directory) as cluster:
        columns = (
            *("writes", "RTT, ms", "message, ms", "writing, ms", "sync, ms", "processes", "stale"),
            *("commits/s: measured", "simulated", "measured ÷ simulated"),
        )
        return Table(columns, lambda run: _rows(run, cluster.address, seconds)).markdown(simulate)


def _rows(run: Simulate, address: str, seconds: float) -> Iterator[Row]:
    for writes in (1, 16):
        for rtt in ROUND_TRIPS:
            for processes in PROCESSES:
                yield _row(run, address, seconds, writes, rtt, processes)


def _row(run: Simulate, address: str, seconds: float, writes: int, rtt: float, processes: int) -> Row:
    alone, rates, slept, stale = Alone(address, writes, rtt), [], [], []
    # In turns, so that other programs on the machine disturb both in the same way.
    for _ in range(TURNS):
        alone.measure(seconds / TURNS)
        rate, committers = measured(address, seconds / TURNS, processes, writes=writes, rtt=rtt)
        rates.append(rate)
        # A sleep takes longer than asked for.
        slept.append(sum(committer.slept for committer in committers) / sum(committer.messages for committer in committers))
        stale.append(sum(committer.stale for committer in committers) / sum(committer.commits for committer in committers))
    costs, rate, network = alone.settings(), statistics.mean(rates), statistics.mean(slept)
    simulated = run(replace(costs, rtt=network, processes=processes)).commits_per_second
    return (
        *(f"{writes}", f"{network * 1e3:.2f}", milliseconds(costs.message), milliseconds(costs.row_group), milliseconds(costs.sync)),
        *(f"{processes}", percent(statistics.mean(stale)), rounded(rate), rounded(simulated), f"{rate / simulated:.2f}"),
    )
