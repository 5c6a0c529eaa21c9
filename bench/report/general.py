"""The parts of the report about the run itself: machine, settings, systems, failures."""

from pathlib import Path

from bench.report.figures import Figures
from bench.report.text import NONE, table

BUSY = 0.5  # a higher load average before the run means that other programs were running


def run_part(figures: Figures) -> list[str]:
    """Machine and settings: one paragraph for the start of the run and for each time it was resumed."""
    lines = []
    for run in figures.of("run"):
        machine, settings = run["machine"], run["settings"]
        clients = ", ".join(f"{name} {version}" for name, version in machine["clients"].items())
        shown = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in settings.items() if value is not None)
        lines += [
            f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']},",
            f"Python {machine['python']}, {clients}. Started {machine['started']}. Settings: {shown}.",
            "",
        ]
        if machine["load_before"] > BUSY:
            lines += [f"**The machine was busy at the start (load {machine['load_before']:.1f}): the figures are not reliable.**", ""]
    return lines


def commands_part(figures: Figures, file: Path) -> list[str]:
    """The commands that measure again and write this report: one `make bench` for each different list of experiments and settings."""
    runs = []
    for run in figures.of("run"):
        options = [f"--{name.replace('_', '-')} {_option(value)}" for name, value in run["settings"].items() if value is not None]
        command = f'make bench EXPERIMENTS="{" ".join(run["experiments"])}" OPTIONS="{" ".join(options)}"'
        if command not in runs:
            runs.append(command)
    again = f".venv/bin/python -m bench report bench/runs/NAME --publish {file}"
    note = "Raw results are not kept in the repository. To measure again and to write this report from the new run:"
    return [note, "", "```sh", *runs, again, "```", ""]


def _option(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _shown(value) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


READING = """## How to read this

- Systems take turns within a data set (A B C A B C). For each data set each system is started anew on an empty directory. A figure is
  the median of its samples; the spread is lowest to highest. Every answer is checked, and a wrong one is a failure. Scale 1 means the
  published numbers of documents.
- **Relaxed** durability: a write is acknowledged before it is on disk. **Synced**: after. The table of systems says what each mode means
  for each system.
- "Less null" is wall time minus the wall time of the same client with a null server, which does nothing. The null server itself runs a
  Python loop, so the difference is slightly too small. It can be negative if server and client overlap. Queries have no null server; subtract the client's CPU
  time instead.
- Server CPU is the time of the server's own processes, as the kernel counts it. An in-process library has no server: its engine's time is
  part of the client's CPU time. It is a lower bound, not a competitor.
- Absolute times depend on the day and the machine. Compare ratios of systems measured side by side.
"""


def systems_part(figures: Figures) -> list[str]:
    """Every requested system, including those that were not available."""
    latest: dict[tuple, dict] = {}
    for record in figures.of("target"):
        key = record["target"], record["durability"]
        if key not in latest or record["status"] == "runs":
            latest[key] = record
    order = list(figures.kinds)
    rows = []
    for (name, durability), record in sorted(latest.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        details = (record.get("version", NONE), f"{durability}: {record['means']}", record.get("settings", NONE), record["status"])
        rows.append((name, record["kind"], *details))
    return ["## Systems", "", *table(("system", "kind", "version", "durability", "settings", "status"), rows)]


def failures_part(figures: Figures) -> list[str]:
    """The failures, with their data sets. The run continued without the failed system."""
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
