"""What an experiment declares of its part of the report: published figures and charts. Data only; `bench.report` draws and writes.

Each names what it shows by the fields that every record has: the operation, the data set's shape, its durability. None is: all of them,
a chart or a table for each.
"""

from dataclasses import dataclass, field

SIZE = "size"  # in the place of an operation: bytes on disk, of the `size` records

# Units of published figures: what one is in seconds of the whole, or `RATE` documents a second, or bytes of the whole.
SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
BYTES = {"bytes": 1.0, "MB": 1e6, "GB": 1e9}
RATE = "a second"


@dataclass(frozen=True)
class Published:
    """One published table. `figures`: system as published → number of documents → figure, in `unit`, for all of them together.

    `today` names the target here that a published system stands beside; the others are shown alone. Both are shown for each
    document (so that any scale can stand beside any other) and as ratios: published to `reference`, today's to Diwan.
    """

    source: str  # "table II: insert, one instance"
    unit: str
    figures: dict[str, dict[int, float]]
    operation: str
    reference: str  # a published system
    today: dict[str, str] = field(default_factory=dict)
    shape: str | None = None
    durability: str | None = None
    remark: str = ""


@dataclass(frozen=True)
class Chart:
    """What every chart says of itself; `caption` says which published one it redraws, if any."""

    title: str
    operation: str = ""
    shape: str | None = None
    durability: str | None = None
    caption: str = ""


@dataclass(frozen=True)
class BySize(Chart):
    """Lines: number of documents against the operation's whole time (or, of `SIZE`, bytes), a line a system."""


@dataclass(frozen=True)
class Bars(Chart):
    """Bars at the largest size: each of `operations`, a bar a system.

    `measure` is a sample's field divided by its operations (`wall_seconds`, `server_cpu_seconds`, `client_cpu_seconds`) or a field that
    is shown as it is: a latency's (`p50_us`, `p99_us`, `p999_us`, `max_us`) or a figure's (`value`).
    """

    operations: tuple[str, ...] = ()
    measure: str = "wall_seconds"


@dataclass(frozen=True)
class OverTime(Chart):
    """Of the operation's timelines at the largest size: `measure` of each slot (`p50_us`, `p99_us`, `max_us` or `count`)."""

    measure: str = "max_us"


@dataclass(frozen=True)
class Quotient(Chart):
    """Bars of wall time in the data sets of shape `over` divided by that in those of shape `shape`: the price of what `over` adds."""

    over: str = ""
    operations: tuple[str, ...] = ()
