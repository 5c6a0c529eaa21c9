"""The command line: `python -m bench run [EXPERIMENT …]` measures, `report DIRECTORY` writes the report of a run again, `profile EXPERIMENT`
draws flame graphs of Diwan's server during an experiment.
"""

import argparse
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine, profile, report, results
from bench.options import list_of, positive, scale
from bench.targets import TARGETS
from bench.workloads import EXPERIMENTS

ROOT = Path(__file__).resolve().parent
DIWAN = ["diwan", "diwan-http"]

# Options that name places on this machine. All other options are settings of the run: its results contain them, and a resumed run uses them again.
PLACES = ("command", "experiments", "experiment", "resume", "diwan_program", "diwan_uri", "inferno", "temporary", "runs")
COLUMNS = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))


def parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of all commands and the parser of `run`. bench.mk passes its variables as options of the same names."""
    main = argparse.ArgumentParser(prog="python -m bench", description="Measures Diwan and other databases side by side.")
    commands = main.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure the named experiments, or all")
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    run.add_argument("--resume", type=Path, metavar="DIRECTORY", help="continue an interrupted run with its settings")
    real = [name for name, target in TARGETS.items() if target.kind != "null"]
    _add_settings(run, real, real)
    for option, purpose in _addresses().items():
        run.add_argument(f"--{option.replace('_', '-')}", help=purpose)
    again = commands.add_parser("report", help="write the report of a run again")
    again.add_argument("directory", type=Path)
    again.add_argument("--publish", type=Path, metavar="FILE", help="also write this Markdown file, with its plots in a directory beside it")
    graphs = commands.add_parser("profile", help="draw flame graphs of Diwan's server during an experiment")
    graphs.add_argument("experiment", choices=EXPERIMENTS)
    graphs.add_argument("--operation", default="", help="only operations whose names contain this text")
    graphs.add_argument("--data-set", default="", help="only data sets whose names contain this text")
    graphs.add_argument("--inferno", type=Path, default=ROOT.parent / "target/tools/bin", help="the directory of inferno's programs")
    _add_settings(graphs, DIWAN, DIWAN[:1])
    graphs.set_defaults(scale=0.1)
    return main, run


def _add_settings(parser, names: list[str], default: list[str]) -> None:
    parser.add_argument("--scale", type=scale, default=1.0, help="factor for the published numbers of documents")
    parser.add_argument("--targets", type=list_of(names), default=default, help=f"comma-separated, from {', '.join(names)}")
    parser.add_argument("--rounds", type=positive, help="how often each read is measured (default 3, below a scale of 0.1: 1)")
    parser.add_argument("--clients", type=positive, help="client processes for concurrent inserts (default 16, below a scale of 0.1: 4)")
    for experiment in EXPERIMENTS.values():
        experiment.add_arguments(parser.add_argument_group(f"{experiment.name} ({experiment.title})"))
    places = parser.add_argument_group("places and systems")
    places.add_argument("--temporary", type=Path, default=ROOT / "tmp", help="where servers keep data; on a real disk, otherwise fsync measures nothing")
    places.add_argument("--runs", type=Path, default=ROOT / "runs", help="where the directory of the results is created")
    places.add_argument("--diwan-program", type=Path, default=ROOT.parent / "target/release/diwan")
    places.add_argument("--diwan-uri", help="use a running Diwan instead of starting one")


def _addresses() -> dict[str, str]:
    options = {option: purpose for target in TARGETS.values() for option, purpose in target.options.items()}
    return {option: purpose for option, purpose in options.items() if option not in PLACES}


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, set[str]]]:
    """The options, and the finished targets of a run to be resumed. A resumed run keeps its settings unless options override them."""
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
        main.error(f"unknown experiment: {', '.join(unknown)} (known: {', '.join(EXPERIMENTS)})")
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Progress(*COLUMNS, console=console) as progress:
            for name in options.experiments:
                EXPERIMENTS[name](options, targets, recorder, temporary).run(progress, done)
    except KeyboardInterrupt:
        console.print(f"interrupted: the report contains the results so far; --resume {directory} continues the run")
    finally:
        recorder.close()
    console.print(f"report: {report.write(directory)}")
    return _failures(directory, console)


def _failures(directory: Path, console: Console) -> int:
    """Prints the failures; returns the exit code."""
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    for failure in failures:
        text = " · ".join(str(failure[key]) for key in ("target", "workload", "operation", "error"))
        console.print(f"FAILED {text[:400]}", style="red", markup=False)
    return 1 if failures else 0


def _profile(options, console: Console) -> int:
    try:
        profile.perf()
        tools = profile.inferno(options.inferno.absolute())
    except profile.Unusable as lack:
        console.print(f"no profile: {lack}", style="red", markup=False, soft_wrap=True)
        return 2
    targets = [TARGETS[name].configured(options) for name in options.targets]
    directory = results.new_directory(options.runs, f"profile-{machine.label()}")
    recorder = results.Recorder(directory)
    recorder.write("run", experiments=[options.experiment], machine=machine.describe(), settings=_settings(options))
    temporary = options.temporary.absolute() / directory.name
    experiment = EXPERIMENTS[options.experiment](options, targets, recorder, temporary)
    try:
        with Progress(*COLUMNS, console=console) as progress:
            graphs = profile.Profile(experiment, targets, recorder, temporary, tools).run(progress, options.data_set, options.operation)
    finally:
        recorder.close()
    for what, graph, samples in graphs:
        console.print(f"{what}: {graph} ({samples:,} samples)", markup=False, soft_wrap=True)
    if not graphs:
        console.print("no operation of that name used enough CPU time for a sample", style="red")
    return _failures(directory, console) or (0 if graphs else 1)


def main() -> int:
    """Runs one command. The exit code is 1 if a participating target failed."""
    options, done = _parse(sys.argv[1:])
    console = Console()
    if options.command == "report":
        console.print(f"report: {report.write(options.directory, options.publish)}")
        return 0
    return _profile(options, console) if options.command == "profile" else _measure(options, done, console)
