"""The command line: `run` simulates one configuration, `tables` writes the tables of a document again, `measure` and
`costs` use a real PostgreSQL."""

import argparse
import re
import sys
from dataclasses import fields
from pathlib import Path

from bench.simulate.run import simulate
from bench.simulate.settings import Settings
from bench.simulate.tables import milliseconds, percent, rounded, update

UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
DURATIONS = {"rtt", "sync", "message", "row_group", "storage", "evaluation", "think", "warm_up", "seconds"}
DOCUMENT = Path("docs/scale.md")


def duration(text: str) -> float:
    """Seconds of a text such as `0.5ms`."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us|µs|)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write for example 0.5ms, 50us or 2s")
    return float(match[1]) * UNITS[match[2]]


def parser() -> argparse.ArgumentParser:
    """The options of all commands. Each setting of a simulation is an option of `run`."""
    whole = argparse.ArgumentParser(prog="python -m bench.simulate", description=__doc__)
    commands = whole.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="simulate one configuration", description="Durations are numbers with a unit, such as 0.5ms or 50us.")
    for setting in fields(Settings):
        name = f"--{setting.name.replace('_', '-')}"
        if setting.type is bool:
            run.add_argument(name, action=argparse.BooleanOptionalAction, default=setting.default)
        else:
            kind = duration if setting.name in DURATIONS else setting.type
            run.add_argument(name, type=kind, default=setting.default, help=f"{setting.default:g}")
    tables = commands.add_parser("tables", help="write the tables of docs/scale.md again")
    tables.add_argument("document", nargs="?", type=Path, default=DOCUMENT)
    measure = commands.add_parser("measure", help="commit over a real PostgreSQL, which is started for it, and simulate the same")
    costs = commands.add_parser("costs", help="measure single costs in a real PostgreSQL, which is started for it")
    for real in (measure, costs):
        real.add_argument("--seconds", type=float, default=5.0, help="how long each row is measured")
        real.add_argument("--directory", type=Path, help="where the server's files are made; put it on a real disk")
    return whole


def report(settings: Settings) -> str:
    """The figures of one run, a line each."""
    results = simulate(settings)
    lines = [
        ("commits/s", rounded(results.commits_per_second)),
        ("writes/s", rounded(results.writes_per_second)),
        ("reads/s", rounded(results.reads_per_second)),
        ("writes of a group", f"{results.group_size:.1f}"),
        ("stale groups", percent(results.stale_share)),
        ("writes evaluated again/s", rounded(results.per_second(results.evaluated_again))),
        ("syncs/s", rounded(results.per_second(results.syncs))),
        ("head rows locked", percent(results.lock_share)),
        ("server's cores", rounded(results.server_cores_used)),
        ("operations without an answer at the end", f"{results.unanswered:,}"),
    ]
    for what, number in sorted(results.counts.items()):
        lines.append((f"{what}/s", rounded(results.per_second(number))))
    for kind in ("write", "read"):
        if results.durations[kind]:
            wanted = (("p50", 50), ("p90", 90), ("p99", 99), ("longest", 100))
            values = (f"{name} {milliseconds(results.latency(kind, value))}" for name, value in wanted)
            lines.append((f"{kind}, ms", ", ".join(values)))
    return "\n".join(f"{name:40} {value}" for name, value in lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    whole = parser()
    options = vars(whole.parse_args(arguments))
    match options.pop("command"):
        case "run":
            try:
                settings = Settings(**options)
            except ValueError as error:
                whole.error(str(error))
            print(report(settings))
        case "tables":
            try:
                changed = update(options["document"])
            except (OSError, ValueError) as error:
                whole.error(str(error))
            print(f"{options['document']}: {'written' if changed else 'nothing has changed'}")
        case "measure" | "costs" as command:
            # Simulations need neither the server nor its client.
            from bench.simulate.costs import costs
            from bench.simulate.measure import measure

            if not options["seconds"] > 0:
                whole.error("seconds must be more than 0")
            try:
                print((measure if command == "measure" else costs)(options["seconds"], options["directory"]))
            except (OSError, RuntimeError) as error:
                whole.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
