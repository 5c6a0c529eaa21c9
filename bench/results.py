"""A run's directory and its results: JSON lines, one record each, written as they come so that an interrupted run keeps them.

Records: `run` (machine and settings), `target` (version, durability, or why it is absent), `start`, `sample` (one measured
stretch of one operation), `size`, `latency`, `timeline`, `figure`, `memory`, `unsupported`, `failure`, and `complete`: a data set
that is measured, with its targets. What stands between two of these belongs to one data set, so a run that goes on after an
interruption drops what follows the last one, and measures that data set again.
"""

import datetime
import json
import time
from pathlib import Path


def new_directory(root: Path, label: str) -> Path:
    """`<date>-<machine>` below root, numbered from the second of a day on."""
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
        """One record, on disk before this returns to the workload."""
        self._file.write(json.dumps({"record": record, "at": round(time.time(), 3), **fields}) + "\n")
        self._file.flush()

    def complete(self, name: str, targets: list[str]) -> None:
        """Says that a data set is measured; the targets that failed or were not there count too."""
        self.write("complete", name=name, targets=targets)

    def close(self) -> None:
        """Ends the run's file."""
        self._file.close()


def resume(directory: Path) -> tuple[dict, dict[str, set[str]]]:
    """Drops what an interrupted run measured of its last data set; returns its first `run` record, and the targets done by data set."""
    records = read(directory)
    if not records or records[0]["record"] != "run":
        raise ValueError(f"{directory} holds no run that could go on")
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
    """All records of a run; a last line cut by an interruption is left out."""
    records = []
    for line in (directory / "results.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
