"""Tables of an experiment's measurements: all figures, latencies, sizes, resources."""

from statistics import median

from bench.exhibits import SIZE
from bench.report.figures import CLIENT, SERVER, Figures, Set
from bench.report.text import NONE, duration, folded, megabytes, number, table

PERCENTILES = ("p50_us", "p99_us", "p999_us", "max_us")


def operations_part(figures: Figures, workload: str) -> list[str]:
    """A folded table for each data set: every operation of every system, including null servers and unsupported operations."""
    lines = []
    for key in figures.sets(workload, "sample"):
        lines += folded(f"Every figure: {key.label}", _operations(figures, key))
    return lines


def _operations(figures: Figures, key: Set) -> list[str]:
    samples, lacking = figures.found("sample", key), figures.found("unsupported", key)
    rows = []
    for operation in dict.fromkeys((*samples, *lacking)):
        for target in figures.kinds:
            if target in samples.get(operation, {}):
                rows.append(_operation(figures, key, operation, target))
            elif target in lacking.get(operation, {}):
                rows.append((operation, target, f"unsupported: {lacking[operation][target][0]['reason']}", *[NONE] * 6))
    head = ("operation", "system", "wall", "spread", "less null", "server CPU", "client CPU", "per second", "rows")
    return table(head, rows)


def _operation(figures: Figures, key: Set, operation: str, target: str) -> tuple[str, ...]:
    values = figures.seconds(key, operation, target)
    rows = figures.found("sample", key)[operation][target][0]["rows"]
    if not values:
        return operation, target, *[NONE] * 7
    typical = median(values)
    return (
        operation,
        target,
        duration(typical),
        f"{duration(min(values))} – {duration(max(values))}",
        duration(figures.less_null(key, operation, target)),
        duration(figures.typical(key, operation, target, SERVER)),
        duration(figures.typical(key, operation, target, CLIENT)),
        number(1 / typical) if typical else NONE,
        NONE if rows is None else f"{rows:,}",
    )


def latencies_part(figures: Figures, workload: str) -> list[str]:
    """Percentiles of latency records, and of samples that contain them."""
    rows = []
    for kind in ("sample", "latency"):
        for key in figures.sets(workload, kind):
            for operation, by_target in figures.found(kind, key).items():
                for target in figures.kinds:
                    records = [record for record in by_target.get(target, []) if record.get("p50_us") is not None]
                    if records:
                        rows.append((key.label, operation, target, *_percentiles(records)))
    head = ("data set", "operation", "system", "requests", "p50", "p99", "p99.9", "longest")
    return ["### Latencies", "", *table(head, rows)] if rows else []


def _percentiles(records: list[dict]) -> list[str]:
    """The number of requests, the medians of the rounds' percentiles, and the longest request of all rounds."""
    times = [(max if name == "max_us" else median)([record[name] for record in records]) for name in PERCENTILES]
    return [f"{sum(record['count'] for record in records):,}", *(duration(time / 1e6) for time in times)]


def figures_part(figures: Figures, workload: str) -> list[str]:
    """Other kinds of figures, and unsupported operations that appear in no table of samples."""
    rows = []
    for key in figures.sets(workload, "figure"):
        for operation, by_target in figures.found("figure", key).items():
            for target in figures.kinds:
                records = by_target.get(target, [])
                if records:
                    values = [record["value"] for record in records]
                    spread = f"{number(min(values))} – {number(max(values))}" if len(values) > 1 else NONE
                    rows.append((key.label, operation, target, number(median(values)), records[0]["unit"], spread))
    for key in figures.sets(workload, "unsupported"):
        for operation, by_target in figures.found("unsupported", key).items():
            if operation not in figures.found("sample", key):
                for target, records in by_target.items():
                    rows.append((key.label, operation, target, NONE, f"unsupported: {records[0]['reason']}", NONE))
    head = ("data set", "measurement", "system", "figure", "unit", "spread")
    return ["### Other figures", "", *table(head, rows)] if rows else []


def sizes_part(figures: Figures, workload: str) -> list[str]:
    """Bytes on disk."""
    rows = []
    for key in figures.sets(workload, "size"):
        diwan = figures.bytes(key, "diwan")
        for target, records in figures.found("size", key).get(SIZE, {}).items():
            kept, record = figures.bytes(key, target), records[-1]
            rows.append(
                (
                    key.label,
                    target,
                    megabytes(record["resting_bytes"]),
                    f"{megabytes(record['maintained_bytes'])} ({record['maintenance']})",
                    megabytes(record["table_bytes"]),
                    NONE if kept is None else number(kept / key.size),
                    NONE if not kept or not diwan else number(kept / diwan),
                )
            )
    if not rows:
        return []
    head = ("data set", "system", "MB at rest", "MB maintained", "MB by the system", "bytes a document", "Diwan = 1")
    return [
        "### Size on disk",
        "",
        "Blocks allocated in the data directory, minus those of the empty system, including logs: at rest, when size and CPU time no longer",
        "changed, and again after the system's own maintenance. A log of fixed size dominates small sets. The next column is the size of",
        "the table and its indexes as the system reports it.",
        "",
        *table(head, rows),
    ]


def resources_part(figures: Figures, workload: str) -> list[str]:
    """Start time and memory over all data sets of the experiment."""
    starts: dict[str, list[dict]] = {}
    peaks: dict[str, list[float]] = {}
    for record in figures.of("start", workload):
        starts.setdefault(record["target"], []).append(record)
    for record in figures.of("memory", workload):
        peaks.setdefault(record["target"], []).append(record["peak_bytes"])
    rows = []
    for target in figures.real(starts):
        if figures.kinds[target] == "server":
            ready, idle = (
                [record[field] for record in starts[target] if record[field] is not None]
                for field in ("ready_seconds", "idle_memory_bytes")
            )
            peak = max(peaks.get(target, []), default=None)
            rows.append((target, duration(median(ready) if ready else None), megabytes(median(idle) if idle else None), megabytes(peak)))
    if not rows:
        return []
    note = [
        "Ready: the time from the start of the program on an empty directory to the first connection. Peak: for a server with one process",
        "its peak resident memory over all data sets; for several processes their proportional memory at the end of a data set.",
        "",
    ]
    return folded("Start and memory", [*note, *table(("system", "ready", "idle (MB)", "peak (MB)"), rows)])


def growth_part(figures: Figures, workload: str, whole: tuple[str, ...]) -> list[str]:
    """The growth factor of the total time between neighbouring sizes of one shape. A linear cost grows like the size."""
    rows = []
    keys = figures.sets(workload, "sample")
    for smaller, larger in zip(keys, keys[1:]):
        if smaller[:3] != larger[:3]:
            continue
        for operation, by_target in figures.found("sample", larger).items():
            for target in figures.real(by_target):
                few, many = (figures.typical(key, operation, target) for key in (smaller, larger))
                if few and many:
                    factor = many / few * (1 if whole and operation.startswith(whole) else larger.size / smaller.size)
                    step = f"{smaller.size:,} → {larger.size:,}"
                    rows.append((f"{larger.shape} · {larger.durability}", operation, target, step, number(factor)))
    return folded("Growth of the total wall time between sizes", table(("data set", "operation", "system", "documents", "factor"), rows))
