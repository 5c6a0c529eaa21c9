"""The command line: `python -m bench run [EXPERIMENT …]` measures, `report DIRECTORY` writes a run's report again, `profile` draws
a flame graph of Diwan under one experiment.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine, report, results
from bench.options import list_of, positive, scale
from bench.targets import TARGETS
from bench.workloads import EXPERIMENTS

ROOT = Path(__file__).resolve().parent

# Where things are on this machine; the rest of the options are a run's settings, which stand in its results and hold when it goes on.
PLACES = ("command", "experiments", "resume", "diwan_program", "diwan_uri", "temporary", "runs")


def parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The options, all of them and those of `run`; the Makefile's variables of the same names become them."""
    main = argparse.ArgumentParser(prog="python -m bench", description="Measures Diwan beside other databases.")
    commands = main.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measures experiments, all of them if none is named")
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    run.add_argument("--resume", type=Path, metavar="DIRECTORY", help="goes on with an interrupted run, with its settings")
    _add_settings(run)
    again = commands.add_parser("report", help="writes the report of a run's results again")
    again.add_argument("directory", type=Path)
    again.add_argument("--publish", type=Path, metavar="FILE", help="also as this Markdown file, with its plots in a directory beside it")
    return main, run


def _add_settings(run: argparse.ArgumentParser) -> None:
    real = tuple(name for name, target in TARGETS.items() if target.kind != "null")
    run.add_argument("--scale", type=scale, default=1.0, help="times the published numbers of documents")
    run.add_argument("--targets", type=list_of(real), default=list(real), help="by commas; all of them by default")
    run.add_argument("--rounds", type=positive, default=3, help="how often each read is measured")
    run.add_argument("--clients", type=positive, default=16, help="client processes of concurrent inserts")
    for experiment in EXPERIMENTS.values():
        experiment.add_arguments(run.add_argument_group(f"{experiment.name} ({experiment.title})"))
    systems = run.add_argument_group("systems")
    systems.add_argument("--diwan-program", type=Path, default=ROOT.parent / "target/release/diwan")
    systems.add_argument("--diwan-uri", help="a running Diwan instead of one started here")
    for option, purpose in _addresses().items():
        systems.add_argument(f"--{option.replace('_', '-')}", help=purpose)
    run.add_argument("--temporary", type=Path, default=ROOT / "tmp", help="where servers keep data: a real disk, or fsync means nothing")
    run.add_argument("--runs", type=Path, default=ROOT / "runs")


def _addresses() -> dict[str, str]:
    options = {option: purpose for target in TARGETS.values() for option, purpose in target.options.items()}
    return {option: purpose for option, purpose in options.items() if option not in PLACES}


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, set[str]]]:
    """The options, and what an interrupted run that is to go on has done; what it was told holds unless it is told otherwise."""
    main, run = parsers()
    options, done = main.parse_args(arguments), {}
    if options.command != "run":
        return options, done
    if options.resume:
        try:
            earlier, done = results.resume(options.resume)
        except (OSError, ValueError) as failure:
            main.error(str(failure))
        run.set_defaults(**earlier["settings"])
        options = main.parse_args(arguments)
        options.experiments = options.experiments or earlier["experiments"]
    options.experiments = options.experiments or list(EXPERIMENTS)
    unknown = [name for name in options.experiments if name not in EXPERIMENTS]
    if unknown:
        main.error(f"no such experiment: {', '.join(unknown)} (there are {', '.join(EXPERIMENTS)})")
    return options, done


def _settings(options) -> dict:
    hidden = {*PLACES, *_addresses()}
    return {key: value for key, value in vars(options).items() if key not in hidden}


def _measure(options, done: dict[str, set[str]], console: Console) -> int:
    chosen = [TARGETS[name] for name in options.targets]
    nulls = {target.baseline for target in chosen if target.baseline}
    targets = [target.configured(options) for target in [*chosen, *(TARGETS[name] for name in sorted(nulls))]]
    directory = options.resume or results.new_directory(options.runs, machine.label())
    recorder = results.Recorder(directory)
    recorder.write("run", experiments=options.experiments, machine=machine.describe(), settings=_settings(options))
    temporary = options.temporary.absolute() / directory.name
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    try:
        with Progress(*columns, console=console) as progress:
            for name in options.experiments:
                EXPERIMENTS[name](options, targets, recorder, temporary).run(progress, done)
    except KeyboardInterrupt:
        console.print(f"interrupted: the report holds what was measured; --resume {directory} goes on")
    finally:
        recorder.close()
    console.print(f"report: {report.write(directory)}")
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    for failure in failures:
        told = " · ".join(str(failure[key]) for key in ("target", "workload", "operation", "error"))
        console.print(f"FAILED {told[:400]}", style="red", markup=False)
    return 1 if failures else 0


def main() -> int:
    """Runs one command; the exit code tells whether all targets that took part came through."""
    options, done = _parse(sys.argv[1:])
    console = Console()
    if options.command == "report":
        console.print(f"report: {report.write(options.directory, options.publish)}")
        return 0
    return _measure(options, done, console)
