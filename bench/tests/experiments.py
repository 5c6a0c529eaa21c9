"""Whole experiments in tests, at the smallest scale, without the command line."""

from pathlib import Path

from rich.progress import Progress

from bench.measure import Experiment
from bench.results import Recorder, read
from bench.targets import TARGETS
from bench.tests.systems import options

SETTINGS = {"rounds": 1, "clients": 2, "quiet": 0.0}


def ran(experiment: type[Experiment], names: tuple[str, ...], directory: Path, scale: float, **given) -> list[dict]:
    """The records of a run over these targets; `given` are the experiment's own options."""
    for parent in (directory, *directory.parents):
        if "pytest-of-" in str(parent):
            parent.chmod(0o755)  # some servers run as another user when we are root
    settings = options(**SETTINGS, scale=scale, **given)
    recorder = Recorder(directory)
    try:
        targets = [TARGETS[name].configured(settings) for name in names]
        experiment(settings, targets, recorder, directory / "tmp").run(Progress(disable=True), {})
    finally:
        recorder.close()
    return read(directory)


def failures(records: list[dict]) -> list[str]:
    """What went wrong, and where."""
    return [f"{one['target']}: {one['operation']}: {one['error']}" for one in records if one["record"] == "failure"]


def measured(records: list[dict]) -> list[str]:
    """The targets that were there."""
    return [one["target"] for one in records if one["record"] == "target" and one["status"] == "runs"]
