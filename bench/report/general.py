"""The report's parts on the run itself: what ran, on what, and what failed."""

from bench.report.figures import Figures
from bench.report.text import NONE, table

BUSY = 0.5  # a load average of more before the run began means that something else was running


def run_part(figures: Figures) -> list[str]:
    """The machine and the settings, a paragraph for each time that the run began or went on."""
    lines = []
    for run in figures.of("run"):
        machine, settings = run["machine"], run["settings"]
        clients = ", ".join(f"{name} {version}" for name, version in machine["clients"].items())
        told = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in settings.items() if value is not None)
        lines += [
            f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']},",
            f"Python {machine['python']}, {clients}. Started {machine['started']}. Settings: {told}.",
            "",
        ]
        if machine["load_before"] > BUSY:
            lines += [f"**The machine was busy when this began (load {machine['load_before']:.1f}): figures are not to be trusted.**", ""]
    return lines


def _shown(value) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


READING = """## How to read this

- Systems take turns within a data set (A B C A B C), each started afresh for it on an empty directory. A figure is the median of its
  samples, the spread is lowest to highest. Every answer is checked; a wrong one is a failure. Scale 1: the published numbers of documents.
- **Relaxed** durability: acknowledged before the disk has it; **synced**: after. What that means to each system stands with the systems.
- "Less null" takes away what the Python client costs with a server that does nothing; that server costs a loop of Python itself, so
  the difference is a little too small, and can be negative where server and client overlap. Queries have no null: take the client's CPU
  away.
- Server CPU is the server's own processes alone, as the kernel counts them. An in-process library has no server: its engine's time is
  in the client's CPU. It is the floor, not a peer.
- Absolute times are of their day and machine; compare the ratios of systems measured side by side.
"""


def systems_part(figures: Figures) -> list[str]:
    """Every system that was asked for, also those that were not there."""
    latest: dict[tuple, dict] = {}
    for record in figures.of("target"):
        key = record["target"], record["durability"]
        if key not in latest or record["status"] == "runs":
            latest[key] = record
    order = list(figures.kinds)
    rows = []
    for (name, durability), record in sorted(latest.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        told = (record.get("version", NONE), f"{durability}: {record['means']}", record.get("settings", NONE), record["status"])
        rows.append((name, record["kind"], *told))
    return ["## Systems", "", *table(("system", "kind", "version", "durability", "settings", "status"), rows)]


def failures_part(figures: Figures) -> list[str]:
    """What failed, and in which data set; the run went on without it."""
    rows = [
        (
            record.get("workload", NONE),
            " · ".join(str(record[key]) for key in ("shape", "size", "durability") if key in record),
            record["target"],
            record["operation"],
            record["error"],
        )
        for record in figures.of("failure")
    ]
    return ["## Failures", "", *table(("experiment", "data set", "system", "operation", "error"), rows)] if rows else []
