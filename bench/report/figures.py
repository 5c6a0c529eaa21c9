"""Groups a run's records by data set, operation and target, and computes the figures of the report.

A figure is the median of an operation's samples. "Less null" is the wall time of an operation minus the wall time of the same client loop
with a server that does nothing.
"""

from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from bench.exhibits import SIZE

WALL, SERVER, CLIENT = "wall_seconds", "server_cpu_seconds", "client_cpu_seconds"
MEASURED = ("sample", "latency", "timeline", "figure", "size", "unsupported")


class Set(NamedTuple):
    """The key of a data set. Its order is the order of the report."""

    workload: str
    durability: str
    shape: str
    size: int

    @classmethod
    def of(cls, record: dict) -> "Set":
        """The key of a record's data set."""
        return cls(record.get("workload", ""), record.get("durability", ""), str(record.get("shape", "")), record.get("size", 0))

    @property
    def label(self) -> str:
        """The key as text for headings and table cells."""
        return f"{self.shape} · {self.size:,} · {self.durability}"


class Figures:
    """The records of a run."""

    def __init__(self, records: list[dict]) -> None:
        self.records = records
        self.kinds: dict[str, str] = {}  # by target, in the order of the command line
        self.baselines: dict[str, str] = {}
        self._found: dict[str, dict[Set, dict[str, dict[str, list[dict]]]]] = {kind: {} for kind in MEASURED}
        for record in records:
            if record["record"] == "target":
                self.kinds.setdefault(record["target"], record["kind"])
                if record.get("baseline"):
                    self.baselines[record["target"]] = record["baseline"]
            if record["record"] in MEASURED:
                # Size records are stored under one name, independent of their stage's name.
                operation = SIZE if record["record"] == "size" else record["operation"]
                by_target = self._found[record["record"]].setdefault(Set.of(record), {}).setdefault(operation, {})
                by_target.setdefault(record["target"], []).append(record)

    def of(self, kind: str, workload: str | None = None) -> list[dict]:
        """All records of a kind, or those of one experiment."""
        return [one for one in self.records if one["record"] == kind and workload in (None, one.get("workload"))]

    def workloads(self) -> list[str]:
        """The experiments with records, in their order."""
        return list(dict.fromkeys(one["workload"] for one in self.records if one.get("workload")))

    def sets(self, workload: str, kind: str, shape: str | None = None, durability: str | None = None) -> list[Set]:
        """The data sets with records of a kind."""
        chosen = (one for one in self._found[kind] if one.workload == workload)
        return sorted(one for one in chosen if shape in (None, one.shape) and durability in (None, one.durability))

    def found(self, kind: str, key: Set) -> dict[str, dict[str, list[dict]]]:
        """Operation → target → records of a kind, in the order of measurement."""
        return self._found[kind].get(key, {})

    def real(self, names: Iterable[str]) -> list[str]:
        """The targets among `names` that are not null servers, in the run's order."""
        names = set(names)
        return [name for name, kind in self.kinds.items() if name in names and kind != "null"]

    def seconds(self, key: Set, operation: str, target: str, field: str = WALL) -> list[float]:
        """A field of each sample divided by the sample's operations; empty if there are no samples."""
        samples = self.found("sample", key).get(operation, {}).get(target, [])
        return [sample[field] / sample["operations"] for sample in samples if sample[field] is not None and sample["operations"]]

    def typical(self, key: Set, operation: str, target: str, field: str = WALL) -> float | None:
        """The median of `seconds`; for a field that is not a time, the median of its values."""
        if field in (WALL, SERVER, CLIENT):
            values = self.seconds(key, operation, target, field)
        else:
            values = [record[field] for record in self._told(key, operation, target) if record.get(field) is not None]
        return median(values) if values else None

    def _told(self, key: Set, operation: str, target: str) -> Iterator[dict]:
        for kind in ("sample", "latency", "figure"):
            yield from self.found(kind, key).get(operation, {}).get(target, [])

    def less_null(self, key: Set, operation: str, target: str) -> float | None:
        """Wall time minus the null server's wall time."""
        mine = self.typical(key, operation, target)
        null = self.typical(key, operation, self.baselines.get(target, ""))
        return None if mine is None or null is None else mine - null

    def bytes(self, key: Set, target: str) -> float | None:
        """The bytes of a data set on disk after maintenance, or as the system reports them if its directory is not accessible."""
        sizes = []
        for record in self.found("size", key).get(SIZE, {}).get(target, []):
            kept = record["maintained_bytes"] if record["maintained_bytes"] is not None else record["table_bytes"]
            if kept is not None:
                sizes.append(kept)
        return median(sizes) if sizes else None
