"""The plots of a run, one picture a shape: inserts and disk by size as the thesis drew them, its queries, and the servers' CPU time."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)

from bench.workloads.persons_data import SHAPES  # noqa: E402

INSERTS = "insert, 1 client"


def draw(figures, directory: Path) -> list[Path]:
    """Draws every shape that was measured; returns the pictures' paths."""
    pictures = []
    for shape in sorted({shape for durability, shape, _ in figures.sets if durability == "relaxed" and shape in SHAPES}):
        keys = sorted(key for key in figures.sets if key[:2] == ("relaxed", shape))
        figure, axes = pyplot.subplots(2, 2, figsize=(13, 9), layout="constrained")
        figure.suptitle(f"Persons, {shape}, relaxed durability")
        colours = _colours(figures)
        _inserts(figures, keys, axes[0][0], colours)
        _disk(figures, shape, axes[0][1], colours)
        _queries(figures, keys[-1], axes[1][0], colours)
        _server_cpu(figures, keys[-1], axes[1][1], colours)
        picture = directory / f"persons-{shape}.png"
        figure.savefig(picture, dpi=110)
        pyplot.close(figure)
        pictures.append(picture)
    return pictures


def _colours(figures) -> dict[str, str]:
    names = dict.fromkeys(record["target"] for record in figures.of("target"))
    return {name: f"C{number}" for number, name in enumerate(names)}


def _real(figures, key: tuple, operation: str) -> list[str]:
    return [target for target in figures.sets[key].get(operation, {}) if not target.startswith("null")]


def _inserts(figures, keys: list[tuple], axes, colours: dict) -> None:
    for target in sorted({target for key in keys for target in _real(figures, key, INSERTS)}):
        points = [(key[2], figures.typical(key, INSERTS, target)) for key in keys]
        points = [(size, each * size) for size, each in points if each is not None]
        axes.plot(*zip(*points), marker="o", label=target, color=colours[target])
    axes.set(title="Insert, one document a call, one client", xlabel="documents", ylabel="seconds", xscale="log", yscale="log")
    _legend(axes)


def _disk(figures, shape: str, axes, colours: dict) -> None:
    by_target: dict[str, list] = {}
    for record in figures.of("size"):
        size = record["maintained_bytes"] if record["maintained_bytes"] is not None else record["table_bytes"]
        if record["shape"] == shape and size:
            by_target.setdefault(record["target"], []).append((record["size"], size / 1e6))
    for target, points in by_target.items():
        axes.plot(*zip(*sorted(points)), marker="o", label=target, color=colours[target])
    axes.set(title="Size on disk after maintenance", xlabel="documents", ylabel="MB", xscale="log", yscale="log")
    _legend(axes)


def _bars(figures, key: tuple, operations: list[str], field: str, scale: float, axes, colours: dict) -> None:
    present = [name for name in colours if any(name in _real(figures, key, operation) for operation in operations)]
    targets = [name for name in present if any(figures.seconds(key, operation, name, field) for operation in operations)]
    width = 0.8 / max(1, len(targets))
    for number, target in enumerate(targets):
        heights = [(figures.typical(key, operation, target, field) or 0.0) * scale for operation in operations]
        places = [place + number * width for place in range(len(operations))]
        bars = axes.bar(places, heights, width, label=target, color=colours[target])
        axes.bar_label(bars, labels=[f"{height:.3g}" if height else "" for height in heights], fontsize=7)
    labels = [operation.replace(" as published", "").replace(", ", "\n") for operation in operations]
    axes.set_xticks([place + (len(targets) - 1) * width / 2 for place in range(len(operations))], labels)
    _legend(axes)


def _queries(figures, key: tuple, axes, colours: dict) -> None:
    operations = [operation for operation in figures.sets[key] if operation.endswith("as published")]
    _bars(figures, key, operations, "wall_seconds", 1e3, axes, colours)
    axes.set(title=f"Queries as published, {key[2]:,} documents", ylabel="ms, every result iterated")


def _server_cpu(figures, key: tuple, axes, colours: dict) -> None:
    operations = [operation for operation in figures.sets[key] if operation.startswith(("insert", "find"))]
    _bars(figures, key, operations, "server_cpu_seconds", 1e6, axes, colours)
    axes.set(title=f"Server's own CPU time, {key[2]:,} documents", ylabel="µs an operation")


def _legend(axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
