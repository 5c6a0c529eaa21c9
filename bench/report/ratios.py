"""Ratios of every system to Diwan, and published figures beside today's."""

import math

from bench.exhibits import BYTES, RATE, SECONDS, SIZE, Published
from bench.report.figures import Figures, Set
from bench.report.standing import DIWAN, Value, measures
from bench.report.text import NONE, duration, folded, number, table


def _quotient(value: float | None, one: float | None) -> str:
    return NONE if value is None or not one or one < 0 or value < 0 else number(value / one)


def _title(measure: str) -> str:
    return measure[0].upper() + measure[1:]


def ratio_part(figures: Figures, workload: str) -> list[str]:
    """A table for each measure, with operations as rows and systems as columns. Diwan is 1; a figure above 1 costs more than Diwan."""
    keys = figures.sets(workload, "sample")
    largest = {key[:3]: key for key in keys}  # sorted by size, so the last of each stays
    lines = []
    for measure, value in measures(figures).items():
        head, rows = _ratios(figures, [key for key in keys if key in largest.values()], value)
        if rows:
            lines += [f"### {_title(measure)}, Diwan = 1", "", *table(head, rows)]
            head, rows = _ratios(figures, [key for key in keys if key not in largest.values()], value)
            lines += folded(f"{_title(measure)} at the smaller sizes", table(head, rows))
    return lines


def _ratios(figures: Figures, keys: list[Set], value: Value) -> tuple[list[str], list[list[str]]]:
    present = {target for key in keys for by_target in figures.found("sample", key).values() for target in by_target}
    targets = [target for target in figures.real(present) if target != DIWAN]
    rows = []
    for key in keys:
        for operation in figures.found("sample", key):
            one = value(key, operation, DIWAN)
            ratios = [_quotient(value(key, operation, target), one) for target in targets]
            if one is not None and any(ratio != NONE for ratio in ratios):
                rows.append([key.label, operation, duration(one), *ratios])
    return ["data set", "operation", "Diwan", *targets], rows


def published_part(figures: Figures, workload: str, published: tuple[Published, ...], whole: tuple[str, ...]) -> list[str]:
    """Each published table beside the same measurements of this run."""
    lines = []
    for one in published:
        kind = "size" if one.operation == SIZE else "sample"
        groups: dict[tuple, list[Set]] = {}
        for key in figures.sets(workload, kind, one.shape, one.durability):
            if one.operation in figures.found(kind, key):
                groups.setdefault(key[:3], []).append(key)
        for keys in groups.values():
            lines += _beside(figures, one, keys, bool(whole) and one.operation.startswith(whole))
    return ["### Published figures beside today's", "", *lines] if lines else []


def _beside(figures: Figures, one: Published, keys: list[Set], whole: bool) -> list[str]:
    show = _octets if one.unit in BYTES else duration
    scale = next((run["settings"].get("scale") for run in figures.of("run")), None) or 1.0
    rows, shown = [], set()
    for size in sorted({size for figures_of in one.figures.values() for size in figures_of}):
        key = min(keys, key=lambda key: abs(math.log(key.size / (size * scale))))
        then = {system: _each(one, by_size[size], size) for system, by_size in one.figures.items() if size in by_size}
        diwan = _today(figures, one, key, DIWAN, whole)
        for system, each in then.items():
            target = one.today.get(system)
            now = _today(figures, one, key, target, whole) if target else None
            shown.add((key, target))
            published = f"{one.figures[system][size]:,} {one.unit}"
            cells = (show(each), _quotient(each, then.get(one.reference)), target or NONE, f"{key.size:,}" if now else NONE)
            rows.append((f"{size:,}", system, published, *cells, show(now), _quotient(now, diwan), _quotient(each, now)))
        for target in _measured(figures, one, key):
            if (key, target) not in shown:
                shown.add((key, target))
                now = _today(figures, one, key, target, whole)
                rows.append((f"{size:,}", *[NONE] * 4, target, f"{key.size:,}", show(now), _quotient(now, diwan), NONE))
    head = (
        *("published for", "system then", "published", "each then", f"{one.reference} = 1"),
        *("system today", "documents", "each today", "Diwan = 1", "then ÷ today"),
    )
    remark = f" {one.remark}" if one.remark else ""
    return [f"**{one.source}** ({keys[0].shape}, {keys[0].durability}).{remark}", "", *table(head, rows)]


def _octets(value: float | None) -> str:
    return NONE if value is None else f"{number(value)} B"


def _each(one: Published, figure: float, size: int) -> float:
    if one.unit == RATE:
        return 1 / figure
    return figure * {**SECONDS, **BYTES}[one.unit] / size


def _measured(figures: Figures, one: Published, key: Set) -> list[str]:
    return figures.real(figures.found("size" if one.operation == SIZE else "sample", key).get(one.operation, {}))


def _today(figures: Figures, one: Published, key: Set, target: str, whole: bool) -> float | None:
    if one.operation == SIZE:
        total = figures.bytes(key, target)
        return None if total is None else total / key.size
    each = figures.typical(key, one.operation, target)
    return each / key.size if each is not None and whole else each
