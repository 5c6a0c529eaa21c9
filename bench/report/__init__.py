"""From a run's records to its report: `report.md` with its plots beside it, and `report.html` with its plots within it.

What an experiment says and shows of itself it declares (`bench.measure.Experiment`); the tables are the same for all.
"""

import shutil
from pathlib import Path

from bench import results
from bench.report import general, measured, ratios
from bench.report.figures import Figures
from bench.report.page import page
from bench.report.plots import Plotter
from bench.workloads import EXPERIMENTS


def write(directory: Path, publish: Path | None = None) -> Path:
    """Writes the reports beside `results.jsonl`, and the Markdown one also as `publish`; returns the page's path."""
    figures = Figures(results.read(directory))
    title = f"Benchmarks: {directory.resolve().name}"
    text = _markdown(figures, title, directory / "plots", "plots")
    (directory / "report.md").write_text(text, encoding="utf-8")
    html = directory / "report.html"
    html.write_text(page(text, directory), encoding="utf-8")
    if publish:
        plots = publish.with_suffix("")
        publish.write_text(_markdown(figures, title, plots, plots.name), encoding="utf-8")
    return html


def _markdown(figures: Figures, title: str, plots: Path, place: str) -> str:
    shutil.rmtree(plots, ignore_errors=True)
    plots.mkdir(parents=True)
    lines = [f"# {title}", "", *general.run_part(figures), general.READING]
    lines += general.failures_part(figures)
    for workload in figures.workloads():
        lines += _experiment_part(figures, workload, plots, place)
    return "\n".join([*lines, *general.systems_part(figures)])


def _experiment_part(figures: Figures, workload: str, plots: Path, place: str) -> list[str]:
    experiment = EXPERIMENTS[workload]
    drawn = Plotter(figures, workload, experiment.whole, experiment.published, plots).draw(experiment.charts)
    return [
        f"## {experiment.title}",
        "",
        *(text for text in (experiment.about.strip(), "") if experiment.about),
        *ratios.standing_part(figures, workload),
        *(line for title, file in drawn for line in (f"**{title}**", "", f"![{title}]({place}/{file.name})", "")),
        *ratios.published_part(figures, workload, experiment.published, experiment.whole),
        *ratios.ratio_part(figures, workload),
        *measured.latencies_part(figures, workload),
        *measured.figures_part(figures, workload),
        *measured.sizes_part(figures, workload),
        *measured.growth_part(figures, workload, experiment.whole),
        *measured.resources_part(figures, workload),
        *measured.operations_part(figures, workload),
        *(["### What is not comparable", "", experiment.notes.strip(), ""] if experiment.notes else []),
    ]
