"""From a run's records to its report: `report.md`, and one PNG a shape.

A figure is the median of an operation's samples; beside it stands the spread (lowest to highest). "Less null" is the wall time
of an operation less that of the same client loop against a server that does nothing.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from bench import plot, results

# How each kind of operation is shown: per operation in microseconds, or as a whole in milliseconds.
WHOLE = ("count", "Q")
BUSY = 0.5  # a load average of more before the run began means that something else was running


class Figures:
    """The samples of a run by (durability, shape, size), operation and target."""

    def __init__(self, records: list[dict]) -> None:
        self.records = records
        self.sets: dict[tuple, dict[str, dict[str, list[dict]]]] = {}
        self.baselines: dict[str, str] = {}
        for record in records:
            if record["record"] == "target" and record.get("baseline"):
                self.baselines[record["target"]] = record["baseline"]
            if record["record"] == "sample":
                operations = self.sets.setdefault(data_set(record), {})
                operations.setdefault(record["operation"], defaultdict(list))[record["target"]].append(record)

    def of(self, kind: str) -> list[dict]:
        """All records of a kind."""
        return [record for record in self.records if record["record"] == kind]

    def seconds(self, key: tuple, operation: str, target: str, field: str = "wall_seconds") -> list[float]:
        """A field of each sample divided by its operations; empty if it was not measured."""
        samples = self.sets.get(key, {}).get(operation, {}).get(target, [])
        return [sample[field] / sample["operations"] for sample in samples if sample[field] is not None]

    def typical(self, key: tuple, operation: str, target: str, field: str = "wall_seconds") -> float | None:
        """The median of `seconds`."""
        values = self.seconds(key, operation, target, field)
        return median(values) if values else None

    def less_null(self, key: tuple, operation: str, target: str) -> float | None:
        """Wall time less the null server's."""
        mine = self.typical(key, operation, target)
        null = self.typical(key, operation, self.baselines.get(target, ""))
        return None if mine is None or null is None else mine - null


def data_set(record: dict) -> tuple:
    """What identifies a data set, in the order that a report lists them."""
    return record["durability"], record["shape"], record["size"]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return [*lines, ""]


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _shown(value: float | None, scale: float = 1.0) -> str:
    return "–" if value is None else _number(value * scale)


def _megabytes(value: float | None) -> str:
    return _shown(value, 1e-6)


def _targets_part(figures: Figures) -> list[str]:
    latest: dict[tuple, dict] = {}
    for record in figures.of("target"):
        latest[record["target"], record["durability"]] = record
    rows = [
        (name, record["kind"], record.get("version", "–"), f"{durability}: {record['means']}", record.get("settings", "–"), record["status"])
        for (name, durability), record in sorted(latest.items(), key=lambda item: item[0])
    ]
    return ["## Systems", "", *_table(("system", "kind", "version", "durability", "settings", "status"), rows)]


def _operations_part(figures: Figures, key: tuple) -> list[str]:
    durability, shape, size = key
    lines = [f"## {shape}, {size:,} documents, {durability}", ""]
    rows = []
    for operation, by_target in figures.sets[key].items():
        whole = operation.startswith(WHOLE)
        scale, unit = (1e3, "ms") if whole else (1e6, "µs")
        for target, samples in by_target.items():
            values = figures.seconds(key, operation, target)
            rows.append(
                (
                    f"{operation} ({unit})",
                    target,
                    _shown(median(values), scale),
                    f"{_shown(min(values), scale)} – {_shown(max(values), scale)}",
                    _shown(figures.less_null(key, operation, target), scale),
                    _shown(figures.typical(key, operation, target, "server_cpu_seconds"), scale),
                    _shown(figures.typical(key, operation, target, "client_cpu_seconds"), scale),
                    "–" if whole else f"{1 / median(values):,.0f}",
                    str(samples[0]["rows"]) if whole else "–",
                )
            )
    head = ("operation", "system", "wall", "spread", "less null", "server CPU", "client CPU", "per second", "rows")
    return [*lines, *_table(head, rows)]


def _sizes_part(figures: Figures) -> list[str]:
    rows = []
    for record in figures.of("size"):
        kept = record["maintained_bytes"] if record["maintained_bytes"] is not None else record["table_bytes"]
        rows.append(
            (
                record["shape"],
                f"{record['size']:,}",
                record["target"],
                _megabytes(record["resting_bytes"]),
                f"{_megabytes(record['maintained_bytes'])} ({record['maintenance']})",
                _megabytes(record["table_bytes"]),
                _shown(kept, 1 / record["size"]),
                _shown(record["table_bytes"], 1 / record["size"]),
            )
        )
    if not rows:
        return []
    head = ("shape", "documents", "system", "MB at rest", "MB maintained", "MB by the system", "bytes a person", "by the system")
    return [
        "## Size on disk",
        "",
        "Blocks allocated in the data directory beyond those of the empty system, logs included, once size and CPU stood still; then",
        "again after the maintenance that the system offers. A log of fixed size weighs on small sets. Beside it what the system says",
        "of the table and its primary index alone.",
        "",
        *_table(head, rows),
    ]


def _resources_part(figures: Figures) -> list[str]:
    peaks = {(data_set(record), record["target"]): record["peak_bytes"] for record in figures.of("memory")}
    rows = [
        (
            " · ".join((record["shape"], f"{record['size']:,}", record["durability"])),
            record["target"],
            _shown(record["ready_seconds"], 1e3),
            _megabytes(record["idle_memory_bytes"]),
            _megabytes(peaks.get((data_set(record), record["target"]))),
        )
        for record in figures.of("start")
        if record["kind"] == "server"
    ]
    if not rows:
        return []
    return [
        "## Start and memory",
        "",
        "Ready: from starting the program on an empty directory to a connection. Memory: peak resident bytes of a server of one",
        "process; of one of several processes their proportional memory at the end.",
        "",
        *_table(("data set", "system", "ready (ms)", "idle (MB)", "peak (MB)"), rows),
    ]


def _failures_part(figures: Figures) -> list[str]:
    rows = [
        (" · ".join((record["shape"], f"{record['size']:,}", record["durability"])), record["target"], record["operation"], record["error"])
        for record in figures.of("failure")
    ]
    return ["## Failures", "", *_table(("data set", "system", "operation", "error"), rows)] if rows else []


def _growth_part(figures: Figures) -> list[str]:
    """The thesis' finding is that all is linear in the number of documents: the factor between neighbouring sizes shows it."""
    rows = []
    keys = sorted(key for key in figures.sets if key[0] == "relaxed")
    for smaller, larger in zip(keys, keys[1:]):
        if smaller[1] != larger[1]:
            continue
        for operation in ("insert, 1 client", "count Q1", *(f"Q{number} as published" for number in range(1, 6))):
            for target in figures.sets[larger].get(operation, {}):
                few, many = (figures.typical(key, operation, target) for key in (smaller, larger))
                if few is None or many is None or target.startswith("null"):
                    continue
                factor = many / few * (larger[2] / smaller[2] if operation.startswith("insert") else 1)
                step = f"{smaller[2]:,} → {larger[2]:,}"
                rows.append((larger[1], operation, target, step, _number(factor)))
    if not rows:
        return []
    head = ("shape", "operation", "system", "documents", "factor")
    return ["## Growth", "", "Total wall time at the larger size over that at the smaller.", "", *_table(head, rows)]


def write(directory: Path, publish: Path | None = None) -> Path:
    """Writes `report.md` and the plots beside `results.jsonl`; returns the report's path."""
    figures = Figures(results.read(directory))
    lines = [f"# {directory.name}", ""]
    for run in figures.of("run"):
        machine, settings = run["machine"], run["settings"]
        clients = ", ".join(f"{name} {version}" for name, version in machine["clients"].items())
        lines += [
            f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux {machine['kernel']},",
            f"Python {machine['python']}, {clients}. Started {machine['started']}. Reads measured {settings.get('rounds', 1)} times, loads in",
            f"{settings.get('slices', 1)} slices, systems in turn; figures are medians, the spread is lowest to highest.",
            "",
        ]
        if machine["load_before"] > BUSY:
            lines += [f"**The machine was busy when this run began (load {machine['load_before']:.1f}): figures are not to be trusted.**", ""]
    lines += _targets_part(figures) + _failures_part(figures)
    for picture in plot.draw(figures, directory):
        lines += [f"![{picture.stem}]({picture.name})", ""]
    for key in sorted(figures.sets):
        lines += _operations_part(figures, key)
    lines += _sizes_part(figures) + _resources_part(figures) + _growth_part(figures)
    report = directory / "report.md"
    report.write_text("\n".join(lines), encoding="utf-8")
    return report
