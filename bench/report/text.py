"""Formats numbers and tables as Markdown."""

from collections.abc import Iterable

NONE = "–"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table and an empty line; nothing if there are no rows."""
    head, rows = list(head), list(rows)
    if not rows:
        return []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return [*lines, ""]


def folded(summary: str, lines: list[str]) -> list[str]:
    """Lines in a foldable block; nothing if there are none."""
    return [f"<details><summary>{summary}</summary>", "", *lines, "</details>", ""] if lines else []


def number(value: float | None) -> str:
    """A number with about three significant digits."""
    if value is None:
        return NONE
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{digits}f}"


def duration(seconds: float | None) -> str:
    """A duration in a suitable unit."""
    if seconds is None:
        return NONE
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if abs(seconds) * factor >= 1:
            return f"{number(seconds * factor)} {unit}"
    return f"{number(seconds * 1e6)} µs"


def megabytes(value: float | None) -> str:
    """Bytes as MB."""
    return NONE if value is None else number(value / 1e6)
