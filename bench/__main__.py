"""The command line: `python -m bench persons …` measures, `python -m bench report DIRECTORY` writes a run's report again."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine, report, results
from bench.targets import TARGETS
from bench.targets.base import RELAXED, SYNCED
from bench.workloads.persons import Persons
from bench.workloads.persons_data import SHAPES
from bench.workloads.washers import Washers

ROOT = Path(__file__).resolve().parent


def _list_of(allowed: tuple[str, ...]):
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(allowed)}")
        return names

    return parse


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _sizes(text: str) -> list[int]:
    return [_positive(size) for size in text.split(",") if size.strip()]


def parser() -> argparse.ArgumentParser:
    """The options; the Makefile's variables of the same names become them."""
    real = tuple(name for name, target in TARGETS.items() if target.kind != "null")
    main = argparse.ArgumentParser(prog="python -m bench", description="Measures Diwan beside other document stores.")
    commands = main.add_subparsers(dest="command", required=True)
    one = commands.add_parser("persons", help="inserts, queries and size on disk of the thesis' persons")
    one.add_argument("--sizes", type=_sizes, default=[5_000, 50_000, 500_000], help="numbers of documents, by commas")
    one.add_argument("--shapes", type=_list_of(SHAPES), default=list(SHAPES))
    one.add_argument("--durability", type=_list_of((RELAXED, SYNCED)), default=[RELAXED, SYNCED])
    one.add_argument("--rounds", type=_positive, default=3, help="how often each read is measured")
    one.add_argument("--slices", type=_positive, default=5, help="into how many measured parts a load is cut")
    one.add_argument("--clients", type=_positive, default=16, help="client processes of the concurrent inserts")
    one.add_argument("--synced-inserts", type=_positive, default=5_000, help="most documents inserted where each waits for the disk")
    one.set_defaults(workload=Persons)
    two = commands.add_parser("washers", help="single and bulk inserts of the post on CouchDB's first release")
    two.add_argument("--scale", type=float, default=1.0, help="times the published numbers of documents")
    two.set_defaults(workload=Washers)
    for workload in (one, two):
        workload.add_argument("--targets", type=_list_of(real), default=list(real))
        workload.add_argument("--diwan-program", type=Path, default=ROOT.parent / "target/release/diwan")
        workload.add_argument("--diwan-uri", help="a running Diwan instead of one started here")
        workload.add_argument("--mongodb-uri", help="a running MongoDB; without it that row says so")
        workload.add_argument("--couchdb-url", help="a running CouchDB; without it that row says so")
        workload.add_argument(
            "--temporary", type=Path, default=ROOT / "tmp", help="where servers keep data: a real disk, or fsync means nothing"
        )
        workload.add_argument("--runs", type=Path, default=ROOT / "runs")
    again = commands.add_parser("report", help="writes the table and plots of a finished run")
    again.add_argument("directory", type=Path)
    return main


def _measure(options, console: Console) -> int:
    chosen = [TARGETS[name] for name in options.targets]
    nulls = {target.baseline for target in chosen if target.baseline}
    targets = [target.configured(options) for target in [*chosen, *(TARGETS[name] for name in sorted(nulls))]]
    directory = results.new_directory(options.runs, machine.label())
    recorder = results.Recorder(directory)
    named = ("sizes", "shapes", "durability", "rounds", "slices", "clients", "synced_inserts", "scale")
    settings = {key: getattr(options, key) for key in named if hasattr(options, key)}
    recorder.write("run", workload=options.command, machine=machine.describe(), settings=settings)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    try:
        with Progress(*columns, console=console) as progress:
            options.workload(options, targets, recorder, options.temporary.absolute() / directory.name).run(progress)
    except KeyboardInterrupt:
        console.print("interrupted: the report holds what was measured")
    finally:
        recorder.close()
    written = report.write(directory)
    console.print(f"report: {written}")
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    for failure in failures:
        console.print(f"FAILED {failure['target']}: {failure['operation']}: {failure['error'][:300]}", style="red", markup=False)
    return 1 if failures else 0


def main() -> int:
    """Runs one command; the exit code tells whether all targets that took part came through."""
    options = parser().parse_args()
    console = Console()
    if options.command == "report":
        console.print(f"report: {report.write(options.directory)}")
        return 0
    return _measure(options, console)


if __name__ == "__main__":
    sys.exit(main())
