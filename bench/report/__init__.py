"""Makes the report of a run from its records: `report.md` with separate plots, and `report.html` with embedded plots.

Each experiment declares its text and charts (`bench.measure.Experiment`). The tables are the same for all experiments.
"""

import re
import shutil
from pathlib import Path

from bench import results
from bench.report import general, measured, ratios, standing
from bench.report.figures import Figures
from bench.report.page import page
from bench.report.plots import Plotter
from bench.workloads import EXPERIMENTS


def write(directory: Path, publish: Path | None = None) -> Path:
    """Writes the reports beside `results.jsonl`, and a shortened Markdown report to `publish`. Returns the path of the HTML page."""
    figures = Figures(results.read(directory))
    plots = directory / "plots"
    shutil.rmtree(plots, ignore_errors=True)
    plots.mkdir(parents=True)
    text = _markdown(figures, f"Benchmarks: {directory.resolve().name}", plots)
    (directory / "report.md").write_text(text, encoding="utf-8")
    html = directory / "report.html"
    html.write_text(page(text, directory), encoding="utf-8")
    if publish:
        _publish(text, figures, plots, publish)
    return html


def _publish(text: str, figures: Figures, plots: Path, file: Path) -> None:
    """Writes the report as a document of the repository: without folded tables, with its plots in a directory, and how to make it again."""
    beside = file.with_suffix("")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.copytree(plots, beside)
    shorter = re.sub(r"<details>.*?</details>\n\n", "", text, flags=re.DOTALL)
    title, rest = shorter.replace(f"]({plots.name}/", f"]({beside.name}/").split("\n", 1)
    file.write_text("\n".join([title, "", *general.commands_part(figures, file), rest.lstrip("\n")]), encoding="utf-8")


def _markdown(figures: Figures, title: str, plots: Path) -> str:
    lines = [f"# {title}", "", *general.run_part(figures), *standing.summary_part(figures), general.READING]
    lines += general.failures_part(figures)
    for workload in figures.workloads():
        lines += _experiment_part(figures, workload, plots)
    return "\n".join([*lines, *general.systems_part(figures)])


def _experiment_part(figures: Figures, workload: str, plots: Path) -> list[str]:
    experiment = EXPERIMENTS[workload]
    drawn = Plotter(figures, workload, experiment.whole, experiment.published, plots).draw(experiment.charts)
    return [
        f"## {experiment.title}",
        "",
        *(text for text in (experiment.about.strip(), "") if experiment.about),
        *standing.standing_part(figures, workload),
        *(line for title, file in drawn for line in (f"**{title}**", "", f"![{title}]({plots.name}/{file.name})", "")),
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
