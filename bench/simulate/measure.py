"""Compares simulated commits with commits over a real PostgreSQL on this machine."""

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
PROCESSES = (1, 2, 4, 8, 16)
WARM_UP = 0.3


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


def calibrated(address: str, seconds: float, writes: int, rtt: float) -> Settings:
    """What one committer alone says of the costs over this network: of a message, of the writes, and of a sync. Cores that sleep between
    two messages are slower than busy ones, so the costs depend on the network."""
    _, (unsynced,) = measured(address, seconds, 1, writes=writes, rtt=rtt, syncs=False)
    _, (synced,) = measured(address, seconds, 1, writes=writes, rtt=rtt)
    message = unsynced.first / unsynced.commits
    rows = max(0.0, unsynced.last / unsynced.commits - message)
    sync = max(0.0, synced.last / synced.commits - message - rows)
    return Settings(rtt=0, sync=sync, message=message, row_group=rows, evaluation=0, clients=1, follows=False, warm_up=2.0, seconds=20.0)


def measure(seconds: float, directory: Path | None) -> str:
    """Measures and simulates; a table in Markdown."""
    with postgres(directory) as cluster:
        columns = ("writes", "RTT, ms", "message, ms", "writing, ms", "sync, ms", "processes", "stale", "commits/s: measured", "simulated", "measured ÷ simulated")
        return Table(columns, lambda run: _rows(run, cluster.address, seconds)).markdown(simulate)


def _rows(run: Simulate, address: str, seconds: float) -> Iterator[Row]:
    for writes in (1, 16):
        for rtt in ROUND_TRIPS:
            costs = calibrated(address, seconds, writes, rtt)
            for processes in PROCESSES:
                rate, committers = measured(address, seconds, processes, writes=writes, rtt=rtt)
                # A sleep takes longer than asked for.
                slept = sum(committer.slept for committer in committers) / sum(committer.messages for committer in committers)
                simulated = run(replace(costs, rtt=slept, processes=processes)).commits_per_second
                stale = sum(committer.stale for committer in committers) / sum(committer.commits for committer in committers)
                yield (
                    *(f"{writes}", f"{slept * 1e3:.2f}", milliseconds(costs.message), milliseconds(costs.row_group), milliseconds(costs.sync)),
                    *(f"{processes}", percent(stale), rounded(rate), rounded(simulated), f"{rate / simulated:.2f}"),
                )
