"""Compares Diwan with the other servers of the run, and lists the comparisons in which it does not lead or leads only narrowly."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.exhibits import SIZE
from bench.report.figures import SERVER, Figures, Set
from bench.report.text import NONE, duration, folded, megabytes, number, table

DIWAN, FACES = "diwan", ("diwan", "diwan-http")
OWN = (*FACES, "diwan-postgres", "diwan-postgres-2")  # none of them is a peer of Diwan
CLOSE = 1.2  # a peer within this factor of Diwan is listed
ON_DISK = "bytes on disk"
BEHIND, NEAR, FIRST = "behind", "close", "first"

Value = Callable[[Set, str, str], float | None]


def measures(figures: Figures) -> dict[str, Value]:
    """The measures of an operation's cost, by their names in tables."""

    def wall(key: Set, operation: str, target: str) -> float | None:
        less = figures.less_null(key, operation, target)
        return figures.typical(key, operation, target) if less is None else less

    return {"server CPU": lambda key, operation, target: figures.typical(key, operation, target, SERVER), "wall less null": wall}


class Comparison(NamedTuple):
    """One face of Diwan and the best comparable server."""

    key: Set
    operation: str
    measure: str
    face: str
    mine: float
    best: float
    peer: str

    @property
    def place(self) -> str:
        """Whether Diwan leads."""
        return BEHIND if self.best < self.mine else NEAR if self.best < self.mine * CLOSE else FIRST

    @property
    def quotient(self) -> float | None:
        """The peer's cost divided by Diwan's; None if a wall time does not exceed the client's own."""
        return self.best / self.mine if self.mine > 0 and self.best > 0 else None

    def row(self) -> tuple[str, ...]:
        """A table's row."""
        show = (lambda value: f"{megabytes(value)} MB") if self.measure == ON_DISK else duration
        cells = (show(self.mine), f"{self.peer} {show(self.best)}", NONE if self.quotient is None else number(self.quotient))
        return self.place, self.key.label, self.operation, self.measure, self.face, *cells


def comparisons(figures: Figures, workload: str) -> list[Comparison]:
    """All comparisons that the run allows, in the order of its data sets, without those in which neither wall time exceeds the client's own."""
    return [one for one in _all(figures, workload) if one.mine > 0 or one.best > 0]


def _all(figures: Figures, workload: str) -> Iterator[Comparison]:
    for key in figures.sets(workload, "sample"):
        for operation in figures.found("sample", key):
            for measure, value in measures(figures).items():
                yield from _faces(figures, key, operation, measure, value)
    for key in figures.sets(workload, "size"):
        yield from _faces(figures, key, SIZE, ON_DISK, lambda key, _, target: figures.bytes(key, target))


def _faces(figures: Figures, key: Set, operation: str, measure: str, value: Value) -> Iterator[Comparison]:
    for face in FACES:
        mine = value(key, operation, face)
        costs = [(value(key, operation, peer), peer) for peer in _peers(figures, face)]
        costs = [(figure, peer) for figure, peer in costs if figure is not None]
        if mine is not None and costs:
            yield Comparison(key, operation, measure, face, mine, *min(costs))


def _peers(figures: Figures, face: str) -> list[str]:
    """The MongoDB face is compared with every server, the HTTP face with servers that speak HTTP."""
    servers = [name for name, kind in figures.kinds.items() if kind == "server" and name not in OWN]
    if face == DIWAN:
        return servers
    return [name for name in servers if figures.baselines.get(name) == figures.baselines.get(face)]


def _largest(compared: list[Comparison]) -> set[Set]:
    return set({one.key[:3]: one.key for one in sorted(compared)}.values())


def _tally(compared: list[Comparison]) -> tuple[int, int, int, int]:
    places = [one.place for one in compared]
    return len(compared), len(compared) - places.count(BEHIND), places.count(NEAR), places.count(BEHIND)


HEAD = ("", "data set", "operation", "measure", "face", "Diwan", "best peer", "peer ÷ Diwan")


def standing_part(figures: Figures, workload: str) -> list[str]:
    """The rows in which a server is ahead of Diwan or close behind. Rows of smaller sizes are folded."""
    compared = comparisons(figures, workload)
    if not compared:
        return []
    largest = _largest(compared)
    large, small = ([one for one in compared if (one.key in largest) == wanted] for wanted in (True, False))
    total, leads, close, _ = _tally(large)
    said = f"Diwan leads in {leads} of {total} comparisons with the servers of this run, in {close} of them by less than a fifth."
    total, leads, close, _ = _tally(small)
    less = f"Smaller sizes: Diwan leads in {leads} of {total} comparisons, in {close} of them by less than a fifth"
    return ["### Where Diwan does not lead", "", said, "", *_rows(large), *folded(less, _rows(small))]


def _rows(compared: list[Comparison]) -> list[str]:
    # Rows in which Diwan is behind come first; within a place the order of data sets and operations stays.
    rows = [one.row() for place in (BEHIND, NEAR) for one in compared if one.place == place]
    return table(HEAD, rows)


def summary_part(figures: Figures) -> list[str]:
    """How often Diwan leads in each experiment, at the largest size of each data set."""
    rows = []
    for workload in figures.workloads():
        compared = comparisons(figures, workload)
        largest = _largest(compared)
        large = [one for one in compared if one.key in largest]
        if large:
            behind = [one for one in large if one.place == BEHIND and one.quotient is not None]
            worst = min(behind, key=lambda one: one.quotient, default=None)
            farthest = f"{worst.operation}, {worst.measure}: {worst.peer}, {number(worst.quotient)}" if worst else NONE
            rows.append((workload, *map(str, _tally(large)), farthest))
    if not rows:
        return []
    note = "Comparisons with the best server of the run at the largest size of each data set. The sections of the experiments list them."
    head = ("experiment", "comparisons", "Diwan leads", "by less than a fifth", "is behind", "farthest behind (peer ÷ Diwan)")
    return ["## Where Diwan stands", "", note, "", *table(head, rows)]
