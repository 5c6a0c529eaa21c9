"""A run's directory and its results: JSON lines, one record each, written as they come so that an interrupted run keeps them.

Records: `run` (machine and settings), `target` (version, durability, or why it is absent), `start`, `sample` (one measured
stretch of one operation), `size`, `memory`, `failure`.
"""

import datetime
import json
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
        self._file.write(json.dumps({"record": record, **fields}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Ends the run's file."""
        self._file.close()


def read(directory: Path) -> list[dict]:
    """All records of a run; a last line cut by an interruption is left out."""
    records = []
    for line in (directory / "results.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
