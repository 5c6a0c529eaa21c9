"""What an experiment declares of its part of the report: published figures and charts. Data only; `bench.report` draws and writes.

Each names what it shows by the fields that every record has: the operation, the data set's shape, its durability. None is: all of them,
a chart or a table for each.
"""

from dataclasses import dataclass, field

SIZE = "size"  # used as an operation's name: bytes on disk, from the `size` records

# Units of published figures: one unit in seconds for all documents, or `RATE` (documents per second), or one unit in bytes for all documents.
SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
BYTES = {"bytes": 1.0, "MB": 1e6, "GB": 1e9}
RATE = "a second"


@dataclass(frozen=True)
class Published:
    """One published table. `figures` maps published system → number of documents → figure in `unit`, for all these documents together.

    `today` maps a published system to the target that the report compares it with; other systems are shown alone. The report shows both per
    document (so that different scales can be compared) and as ratios: published figures to `reference`, today's to Diwan.
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
    """The attributes of every chart. `caption` names the published chart that it redraws, if any."""

    title: str
    operation: str = ""
    shape: str | None = None
    durability: str | None = None
    caption: str = ""


@dataclass(frozen=True)
class BySize(Chart):
    """Lines: number of documents against the operation's total time (for `SIZE`: bytes), one line for each system."""


@dataclass(frozen=True)
class Bars(Chart):
    """Bars at the largest size: one group for each of `operations`, one bar for each system.

    `measure` is a field of a sample, divided by its operations (`wall_seconds`, `server_cpu_seconds`, `client_cpu_seconds`), or a field
    shown unchanged: of a latency record (`p50_us`, `p99_us`, `p999_us`, `max_us`) or of a figure (`value`).
    """

    operations: tuple[str, ...] = ()
    measure: str = "wall_seconds"


@dataclass(frozen=True)
class OverTime(Chart):
    """The operation's timelines at the largest size: `measure` of each time slot (`p50_us`, `p99_us`, `max_us` or `count`)."""

    measure: str = "max_us"


@dataclass(frozen=True)
class Quotient(Chart):
    """Bars: wall time in the data sets of shape `over` divided by wall time in those of shape `shape`, the price of what `over` adds."""

    over: str = ""
    operations: tuple[str, ...] = ()
