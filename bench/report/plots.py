"""Draws charts as SVG files. Text remains text, so that the files are small and searchable."""

import io
import re
from collections.abc import Iterable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from bench.exhibits import BYTES, SECONDS, SIZE, Bars, BySize, Chart, OverTime, Published, Quotient  # noqa: E402
from bench.report.figures import CLIENT, SERVER, WALL, Figures, Set  # noqa: E402

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9})
matplotlib.rcParams.update({"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]})  # every SVG text lists these fonts
matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

MARKERS = "osD^vP*X<>hp"
DIWAN = {"diwan": "#c1121f", "diwan-http": "#e76f51"}
PEERS = [colour for number, colour in enumerate(matplotlib.colormaps["tab20"].colors) if number not in (6, 7)]
TIMES = {WALL: "wall", SERVER: "server CPU", CLIENT: "client CPU"}
MICROSECONDS = {"p50_us": "median", "p99_us": "p99", "p999_us": "p99.9", "max_us": "longest"}


class Plotter:
    """Draws one experiment's charts into a directory."""

    def __init__(self, figures: Figures, workload: str, whole: tuple[str, ...], published: tuple[Published, ...], directory: Path) -> None:
        self._figures = figures
        self._workload = workload
        self._whole = whole
        self._published = published
        self._directory = directory
        self._looks = _looks(figures.kinds)

    def draw(self, charts: Iterable[Chart]) -> list[tuple[str, Path]]:
        """Title and file of every chart for which the run has figures."""
        drawn = []
        for chart in charts:
            for title, figure in self._figures_of(chart):
                name = re.sub(r"[^a-z0-9]+", "-", f"{self._workload} {title}".lower()).strip("-")
                file = self._directory / f"{name}.svg"
                file.write_text(_svg(figure), encoding="utf-8")
                pyplot.close(figure)
                drawn.append((f"{title} ({chart.caption})" if chart.caption else title, file))
        return drawn

    def _figures_of(self, chart: Chart):
        draw = {BySize: self._by_size, Bars: self._bars, OverTime: self._over_time, Quotient: self._quotients}[type(chart)]
        kind = "timeline" if isinstance(chart, OverTime) else "size" if chart.operation == SIZE else None
        kinds = (kind,) if kind else ("sample", "latency", "figure")
        groups: dict[tuple[str, str], set[Set]] = {}
        for kind in kinds:
            for key in self._figures.sets(self._workload, kind, chart.shape, chart.durability):
                groups.setdefault((key.shape, key.durability), set()).add(key)
        for (shape, durability), keys in sorted(groups.items()):
            figure = draw(chart, sorted(keys))
            if figure:
                variants = [*([] if chart.shape else [shape]), *([] if chart.durability else [durability])]
                yield " · ".join((chart.title, *variants)), figure

    def _by_size(self, chart: BySize, keys: list[Set]):
        lines = {}
        for target in self._figures.real(self._figures.kinds):
            points = [(key.size, self._whole_of(chart, key, target)) for key in keys]
            points = [(size, value) for size, value in points if value]
            if points:
                lines[target] = points
        if not lines:
            return None
        then = self._published_lines(chart)
        figure, panels = pyplot.subplots(1, 2 if then else 1, figsize=(9.6 if then else 6.4, 4), layout="constrained", squeeze=False)
        today = panels[0][-1]
        unit = "MB" if chart.operation == SIZE else "seconds"
        for target, points in lines.items():
            today.plot(*zip(*points), label=target, **self._looks[target])
        if then:
            panels[0][0].set(title="published")
            today.set(title="today")
            for number, (system, points) in enumerate(then.items()):
                panels[0][0].plot(*zip(*points), label=system, color=f"C{number}", marker=MARKERS[number % len(MARKERS)], markersize=4)
        for axes, drawn in zip(panels[0][::-1], (lines, then)):
            axes.set(xlabel="documents", ylabel=unit, xscale="log")
            sizes = sorted({size for points in drawn.values() for size, _ in points})
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.minorticks_off()
            _logarithmic(axes)
            axes.grid(alpha=0.3)
            _legend(axes)
        return figure

    def _whole_of(self, chart: Chart, key: Set, target: str) -> float | None:
        if chart.operation == SIZE:
            size = self._figures.bytes(key, target)
            return size / 1e6 if size else None
        each = self._figures.typical(key, chart.operation, target)
        if each is None or (self._whole and chart.operation.startswith(self._whole)):
            return each
        return each * key.size

    def _published_lines(self, chart: Chart) -> dict[str, list[tuple[int, float]]]:
        lines = {}
        for one in self._published:
            if one.operation == chart.operation and one.shape in (None, chart.shape) and one.unit in {**SECONDS, **BYTES}:
                factor = SECONDS.get(one.unit) or BYTES[one.unit] / 1e6
                for system, by_size in one.figures.items():
                    if len(by_size) > 1:
                        lines[system] = [(size, value * factor) for size, value in sorted(by_size.items())]
        return lines

    def _bars(self, chart: Bars, keys: list[Set]):
        key = keys[-1]
        factor = 1e6 if chart.measure in TIMES else 1.0
        heights = {
            operation: {
                target: value * factor
                for target in self._figures.real(self._figures.kinds)
                if (value := self._figures.typical(key, operation, target, chart.measure)) is not None
            }
            for operation in chart.operations
        }
        unit = TIMES.get(chart.measure) or MICROSECONDS.get(chart.measure)
        return self._grouped(heights, f"µs, {unit}" if unit else self._unit(key, chart.operations), f"{key.size:,} documents")

    def _unit(self, key: Set, operations: tuple[str, ...]) -> str:
        found = self._figures.found("figure", key)
        return next((records[0]["unit"] for operation in operations for records in found.get(operation, {}).values()), "")

    def _quotients(self, chart: Quotient, keys: list[Set]):
        key = keys[-1]
        over = [other for other in self._figures.sets(self._workload, "sample", chart.over, key.durability) if other.size == key.size]
        if not over:
            return None
        heights: dict[str, dict[str, float]] = {}
        for operation in chart.operations:
            for target in self._figures.real(self._figures.kinds):
                one, more = (self._figures.typical(which, operation, target) for which in (key, over[0]))
                if one and more:
                    heights.setdefault(operation, {})[target] = more / one
        return self._grouped(heights, f"{chart.over} ÷ {key.shape}", f"{key.size:,} documents", line=1.0)

    def _grouped(self, heights: dict[str, dict[str, float]], unit: str, below: str, line: float | None = None):
        heights = {operation: values for operation, values in heights.items() if values}
        if not heights:
            return None
        targets = [target for target in self._looks if any(target in values for values in heights.values())]
        every = [value for values in heights.values() for value in values.values() if value > 0]
        figure, axes = pyplot.subplots(figsize=(min(14, max(6.4, 1.5 + 0.3 * len(targets) * len(heights))), 4), layout="constrained")
        width = 0.85 / len(targets)
        for number, target in enumerate(targets):
            places = [place for place, values in enumerate(heights.values()) if target in values]
            values = [values[target] for values in heights.values() if target in values]
            bars = axes.bar([place + number * width for place in places], values, width, label=target, color=self._looks[target]["color"])
            axes.bar_label(bars, labels=[f"{value:.3g}" for value in values], fontsize=6, rotation=90, padding=2)
        if every and max(every) > 50 * min(every):
            _logarithmic(axes)
        axes.margins(y=0.15)
        if line is not None:
            axes.axhline(line, color="grey", linewidth=0.8)
        centre = (len(targets) - 1) * width / 2
        axes.set_xticks([place + centre for place in range(len(heights))], [operation.replace(", ", "\n") for operation in heights])
        axes.set(ylabel=unit, xlabel=below)
        _legend(axes)
        return figure

    def _over_time(self, chart: OverTime, keys: list[Set]):
        key = keys[-1]
        by_target = self._figures.found("timeline", key).get(chart.operation, {})
        targets = self._figures.real(by_target)
        if not targets:
            return None
        figure, axes = pyplot.subplots(figsize=(9.6, 4), layout="constrained")
        for target in targets:
            record = by_target[target][-1]
            factor = 1 / record["slot_seconds"] if chart.measure == "count" else 1e-3
            values = [float("nan") if value is None else value * factor for value in record[chart.measure]]
            times = [(number + 0.5) * record["slot_seconds"] for number in range(len(values))]
            axes.plot(times, values, label=target, **{**self._looks[target], "marker": None})
            for second, text in record.get("events", []):
                axes.axvline(second, color=self._looks[target]["color"], linewidth=0.6, linestyle=":")
                axes.annotate(text, (second, 1), xycoords=("data", "axes fraction"), fontsize=6, rotation=90, va="top")
        unit = "operations a second" if chart.measure == "count" else f"ms, {MICROSECONDS[chart.measure]} of a slot"
        axes.set(xlabel="seconds", ylabel=unit)
        if chart.measure != "count":
            _logarithmic(axes)
        axes.grid(alpha=0.3)
        _legend(axes)
        return figure


def _logarithmic(axes) -> None:
    """Makes the vertical axis logarithmic, with plain numbers as labels."""
    axes.set_yscale("log")
    low, high = axes.dataLim.intervaly
    narrow = low > 0 and high < 1_000 * low
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _svg(figure) -> str:
    """The figure as SVG of about half the size: without comments and white space, coordinates rounded to a hundredth of a point."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    shorter = re.sub(r"\s*<!--.*?-->|(?<=\n) +| +(?=\n)", "", drawn.getvalue(), flags=re.DOTALL)
    return re.sub(r'(?<==)"[^"]*"', lambda value: re.sub(r"(\.\d\d)\d+", r"\1", value[0]), shorter)


def _looks(kinds: dict[str, str]) -> dict[str, dict]:
    """Colour and marker of every target, the same in all charts of a report. Diwan is highlighted; lines of libraries are dashed."""
    looks = {}
    for number, (target, kind) in enumerate(kinds.items()):
        colour = DIWAN.get(target, PEERS[number % len(PEERS)])
        style = "--" if kind == "in-process" else "-"
        strong = {"linewidth": 2.2, "zorder": 3} if target in DIWAN else {"linewidth": 1.2}
        looks[target] = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linestyle": style, **strong}
    return looks


def _legend(axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
