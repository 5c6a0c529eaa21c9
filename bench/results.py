"""A run's directory and its results: one JSON record per line, written at once so that an interrupted run keeps them.

Kinds of records: `run` (machine and settings), `target` (version, durability, or why it is absent), `start`, `sample` (one measured
period of one operation), `size`, `latency`, `timeline`, `figure`, `memory`, `unsupported`, `failure`, and `complete` (a finished data set
with its targets). The records between two `complete` records belong to one data set. A resumed run therefore drops the records after the
last `complete` record and measures that data set again.
"""

import datetime
import json
import time
from pathlib import Path


def new_directory(root: Path, label: str) -> Path:
    """Creates `<date>-<machine>` below root; further runs of a day get a number."""
    day = datetime.date.today().isoformat()
    number = 1
    while True:
        directory = root / (f"{day}-{label}" if number == 1 else f"{day}-{label}-{number}")
        try:
            directory.mkdir(parents=True)
            return directory
        except FileExistsError:
            number += 1


class Recorder:
    """Appends records to a run's `results.jsonl`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = open(directory / "results.jsonl", "a", encoding="utf-8")

    def write(self, record: str, **fields) -> None:
        """Writes one record and flushes it before the workload continues."""
        self._file.write(json.dumps({"record": record, "at": round(time.time(), 3), **fields}) + "\n")
        self._file.flush()

    def complete(self, name: str, targets: list[str]) -> None:
        """Records that a data set is finished. `targets` includes those that failed or were not available."""
        self.write("complete", name=name, targets=targets)

    def close(self) -> None:
        """Closes the run's file."""
        self._file.close()


def resume(directory: Path) -> tuple[dict, dict[str, set[str]]]:
    """Drops the records of an interrupted run's unfinished data set. Returns its first `run` record, and the finished targets by data set."""
    records = read(directory)
    if not records or records[0]["record"] != "run":
        raise ValueError(f"{directory} contains no run that can be resumed")
    ends = [number for number, record in enumerate(records) if record["record"] == "complete"]
    kept = records[: ends[-1] + 1 if ends else 1]
    file = directory / "results.jsonl"
    shorter = file.with_suffix(".new")
    shorter.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    shorter.replace(file)
    done: dict[str, set[str]] = {}
    for record in kept:
        if record["record"] == "complete":
            done.setdefault(record["name"], set()).update(record["targets"])
    return records[0], done


def read(directory: Path) -> list[dict]:
    """All records of a run, without a last line that an interruption truncated."""
    records = []
    for line in (directory / "results.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
