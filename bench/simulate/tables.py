"""The tables of docs/scale.md. Each is simulated and written between two comments of the document, which name it."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.simulate.results import Results
from bench.simulate.run import simulate
from bench.simulate.settings import Settings

BEGIN, END = "<!-- simulated: {} -->", "<!-- end -->"
BLOCK = re.compile(rf"({BEGIN.format('([a-z-]+)')}\n).*?({END})", re.DOTALL)

NETWORKS = ((0.2, 0.1), (0.5, 0.5), (1, 0.5), (1, 1), (2, 1), (2, 5), (5, 1), (10, 1), (10, 5))
"""Round trips and syncs in milliseconds: one rack and fast disks, one region, several regions."""

Row = tuple[str, ...]
Simulate = Callable[[Settings], Results]


@dataclass(frozen=True)
class Table:
    """One table: its columns and the function that makes its rows."""

    columns: Row
    rows: Callable[[Simulate], Iterable[Row]]

    def markdown(self, run: Simulate = simulate) -> str:
        """The table as Markdown. `run` simulates one configuration."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows(run)]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def updated(text: str, run: Simulate = simulate) -> str:
    """The document with all its tables simulated again."""

    def block(match: re.Match) -> str:
        if match[2] not in TABLES:
            raise ValueError(f"there is no table {match[2]!r}; there are {', '.join(TABLES)}")
        return match[1] + TABLES[match[2]].markdown(run) + match[3]

    return BLOCK.sub(block, text)


def names(text: str) -> list[str]:
    """The tables of a document."""
    return [match[2] for match in BLOCK.finditer(text)]


def update(document: Path) -> bool:
    """Writes the tables of a document again; false if nothing has changed."""
    before = document.read_text(encoding="utf-8")
    after = updated(before)
    document.write_text(after, encoding="utf-8")
    return after != before


def rounded(number: float) -> str:
    """The number with three digits, or as a whole number from 1,000 on."""
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"


def milliseconds(seconds: float) -> str:
    """The duration in milliseconds."""
    return rounded(seconds * 1e3)


def percent(share: float) -> str:
    """The share in percent."""
    return f"{share * 100:.0f} %"


def _writes(results: Results) -> Row:
    return rounded(results.commits_per_second), rounded(results.writes_per_second), f"{results.group_size:.1f}", percent(results.stale_share)


def _latencies(results: Results, kind: str = "write") -> Row:
    return milliseconds(results.latency(kind, 50)), milliseconds(results.latency(kind, 99))


def _network(run: Simulate) -> Iterable[Row]:
    for rtt, sync in NETWORKS:
        one = Settings(rtt=rtt / 1e3, sync=sync / 1e3, processes=1, clients=1)
        single = run(one)
        many = run(replace(one, processes=8, clients=16, warm_up=1.0, seconds=4.0))
        yield (
            *(f"{rtt:g}", f"{sync:g}", rounded(1 / (2 * one.rtt + one.sync)), rounded(single.commits_per_second)),
            *(rounded(many.commits_per_second), rounded(many.writes_per_second), *_latencies(many)),
        )


def _processes(run: Simulate) -> Iterable[Row]:
    for processes, follows in ((1, True), (2, True), (4, True), (8, True), (16, True), (64, True), (64, False), (250, False), (1000, False)):
        wide = Settings(processes=processes, follows=follows)
        # The first round of all processes is no steady state.
        round_of_all = processes * 3e-3
        results = run(replace(wide, warm_up=0.2 + round_of_all, seconds=max(2.0, 3 * round_of_all)))
        used = rounded(results.server_cores_used)
        yield f"{processes:,}", "yes" if follows else "no", *_writes(results), *_latencies(results), used


def _clients(run: Simulate) -> Iterable[Row]:
    for clients in (1, 4, 16, 64, 256, 1024):
        results = run(Settings(processes=8, clients=clients, warm_up=1.0, seconds=4.0))
        yield f"{clients:,}", *_writes(results), *_latencies(results)


def _load(run: Simulate) -> Iterable[Row]:
    for rate in (50, 200, 500, 1000, 2000, 4000):
        for processes in (2, 8, 64):
            results = run(Settings(processes=processes, rate=rate, warm_up=1.0, seconds=max(2.0, 1000 / rate)))
            yield f"{rate:,}", f"{processes}", *_writes(results), *_latencies(results), percent(results.lock_share)


VARIANTS = (
    ("the design", {}),
    ("a stale group queues for the lock a second time", {"keeps_lock": False}),
    ("a stale group asks for the journal in a message of its own", {"catch_up": 3}),
    ("no process follows the journal", {"follows": False}),
    ("the journal contains the states", {"catch_up": 1}),
    ("and the second evaluation needs no conditions", {"catch_up": 0}),
    ("and the server decides about the first evaluation's", {"catch_up": 0, "trips": 0}),
)


def _protocol(run: Simulate) -> Iterable[Row]:
    for title, changes in VARIANTS:
        one = run(Settings(processes=1, **changes))
        full = run(Settings(processes=8, **changes))
        light = run(Settings(processes=8, rate=300, warm_up=1.0, seconds=8.0, **changes))
        yield (
            *(title, rounded(one.writes_per_second), rounded(full.commits_per_second), rounded(full.writes_per_second)),
            *(milliseconds(full.latency("write", 50)), percent(light.stale_share), *_latencies(light)),
        )


def _stripes(run: Simulate) -> Iterable[Row]:
    loads = (("64 collections, even", {}), ("half on one", {"hot": 0.5}), ("all on one", {"hot": 1.0}))
    for title, load in (*loads, ("even, 1 % over two", {"wide": 0.01}), ("even, 10 % over two", {"wide": 0.1})):
        for stripes in (1, 4, 16, 64) if not load.get("hot") == 1.0 else (1, 16):
            results = run(Settings(processes=8, stripes=stripes, follows=False, warm_up=0.3, seconds=1.0, **load))
            syncs = rounded(results.per_second(results.syncs))
            yield title, f"{stripes}", *_writes(results), *_latencies(results), syncs, rounded(results.server_cores_used)


def _reads(run: Simulate) -> Iterable[Row]:
    for processes in (1, 8, 64):
        for writes in (0, 1, 10):
            settings = Settings(processes=processes, clients=64, writes=writes / 100, misses=0.1, think=0.05, warm_up=0.3, seconds=1.0)
            results = run(settings)
            heads = rounded(results.per_second(results.counts.get("heads read", 0)))
            figures = rounded(results.reads_per_second), rounded(results.writes_per_second), heads
            write = _latencies(results) if writes else ("–", "–")
            yield f"{processes}", f"{writes} %", *figures, *_latencies(results, "read"), *write, rounded(results.server_cores_used)


def _evaluation(run: Simulate) -> Iterable[Row]:
    for microseconds in (10, 50, 200, 1000):
        for processes in (1, 8):
            results = run(Settings(processes=processes, evaluation=microseconds / 1e6))
            yield f"{microseconds:,} µs", f"{processes}", *_writes(results), *_latencies(results)


def _storage(run: Simulate) -> Iterable[Row]:
    for reads in (0, 0.1, 0.3, 1.0):
        for warms in (False, True) if reads else (False,):
            results = run(Settings(processes=8, storage=reads / 1e3, warms=warms, warm_up=1.0, seconds=4.0))
            yield f"{reads:g} ms", "yes" if warms else "no", *_writes(results), *_latencies(results)


WRITES = ("commits/s", "writes/s", "group", "stale")
LATENCY = ("p50, ms", "p99, ms")

TABLES = {
    "network": Table(
        ("RTT, ms", "sync, ms", "1 ÷ (2 RTT + sync)", "1 process, 1 client: commits/s", "8 × 16 clients: commits/s", "writes/s", *LATENCY), _network
    ),
    "processes": Table(("processes", "follow", *WRITES, *LATENCY, "server's cores"), _processes),
    "clients": Table(("clients of a process", *WRITES, *LATENCY), _clients),
    "load": Table(("writes/s that arrive", "processes", *WRITES, *LATENCY, "locked"), _load),
    "protocol": Table(
        ("", "1 process: writes/s", "8 processes: commits/s", "writes/s", "p50, ms", "300 writes/s arrive: stale", "p50, ms", "p99, ms"), _protocol
    ),
    "stripes": Table(("load", "stripes", *WRITES, *LATENCY, "syncs/s", "server's cores"), _stripes),
    "reads": Table(
        ("processes", "writes", "reads/s", "writes/s", "heads read/s", "read p50, ms", "p99, ms", "write p50, ms", "p99, ms", "server's cores"),
        _reads,
    ),
    "storage": Table(("waiting for storage, for a write", "pages read before the lock", *WRITES, *LATENCY), _storage),
    "evaluation": Table(("evaluation", "processes", *WRITES, *LATENCY), _evaluation),
}
