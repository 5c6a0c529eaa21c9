"""The command line: `python -m bench run [EXPERIMENT …]` measures, `report DIRECTORY` writes a run's report again, `profile EXPERIMENT`
draws flame graphs of Diwan's server under it.
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

# Where things are on this machine; the rest of the options are a run's settings, which stand in its results and hold when it goes on.
PLACES = ("command", "experiments", "experiment", "resume", "diwan_program", "diwan_uri", "inferno", "temporary", "runs")
COLUMNS = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))


def parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The options, all of them and those of `run`; the Makefile's variables of the same names become them."""
    main = argparse.ArgumentParser(prog="python -m bench", description="Measures Diwan beside other databases.")
    commands = main.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measures experiments, all of them if none is named")
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    run.add_argument("--resume", type=Path, metavar="DIRECTORY", help="goes on with an interrupted run, with its settings")
    real = [name for name, target in TARGETS.items() if target.kind != "null"]
    _add_settings(run, real, real)
    for option, purpose in _addresses().items():
        run.add_argument(f"--{option.replace('_', '-')}", help=purpose)
    again = commands.add_parser("report", help="writes the report of a run's results again")
    again.add_argument("directory", type=Path)
    again.add_argument("--publish", type=Path, metavar="FILE", help="also as this Markdown file, with its plots in a directory beside it")
    graphs = commands.add_parser("profile", help="draws flame graphs of Diwan's server under an experiment")
    graphs.add_argument("experiment", choices=EXPERIMENTS)
    graphs.add_argument("--operation", default="", help="only those whose names contain this text")
    graphs.add_argument("--data-set", default="", help="only those whose names contain this text")
    graphs.add_argument("--inferno", type=Path, default=ROOT.parent / "target/tools/bin", help="where inferno's programs are")
    _add_settings(graphs, DIWAN, DIWAN[:1])
    graphs.set_defaults(scale=0.1)
    return main, run


def _add_settings(parser, names: list[str], default: list[str]) -> None:
    parser.add_argument("--scale", type=scale, default=1.0, help="times the published numbers of documents")
    parser.add_argument("--targets", type=list_of(names), default=default, help=f"by commas, of {', '.join(names)}")
    parser.add_argument("--rounds", type=positive, help="how often each read is measured: 3 times, at a scale below 0.1 once")
    parser.add_argument("--clients", type=positive, help="client processes of concurrent inserts: 16, at a scale below 0.1 only 4")
    for experiment in EXPERIMENTS.values():
        experiment.add_arguments(parser.add_argument_group(f"{experiment.name} ({experiment.title})"))
    places = parser.add_argument_group("places and systems")
    places.add_argument("--temporary", type=Path, default=ROOT / "tmp", help="where servers keep data: a real disk, or fsync means nothing")
    places.add_argument("--runs", type=Path, default=ROOT / "runs", help="where the directory with the results is made")
    places.add_argument("--diwan-program", type=Path, default=ROOT.parent / "target/release/diwan")
    places.add_argument("--diwan-uri", help="a running Diwan instead of one started here")


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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Progress(*COLUMNS, console=console) as progress:
            for name in options.experiments:
                EXPERIMENTS[name](options, targets, recorder, temporary).run(progress, done)
    except KeyboardInterrupt:
        console.print(f"interrupted: the report holds what was measured; --resume {directory} goes on")
    finally:
        recorder.close()
    console.print(f"report: {report.write(directory)}")
    return _failures(directory, console)


def _failures(directory: Path, console: Console) -> int:
    """Shows what failed; the exit code."""
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    for failure in failures:
        told = " · ".join(str(failure[key]) for key in ("target", "workload", "operation", "error"))
        console.print(f"FAILED {told[:400]}", style="red", markup=False)
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
        console.print("no operation of that name used the server's processor for long enough to be seen", style="red")
    return _failures(directory, console) or (0 if graphs else 1)


def main() -> int:
    """Runs one command; the exit code tells whether all targets that took part came through."""
    options, done = _parse(sys.argv[1:])
    console = Console()
    if options.command == "report":
        console.print(f"report: {report.write(options.directory, options.publish)}")
        return 0
    return _profile(options, console) if options.command == "profile" else _measure(options, done, console)
