"""What a simulated run counts, from the end of its warm-up on."""

from dataclasses import dataclass, field


def percentile(ordered: list[float], percent: float) -> float:
    """The smallest of these ascending values that at least this share of them does not exceed; not a number without values."""
    if not ordered:
        return float("nan")
    # Integers: 99 % of 100 values are exactly 99.
    rank = -(-len(ordered) * round(percent * 100) // 10_000)
    return ordered[max(rank, 1) - 1]


@dataclass
class Results:
    """Counts and durations of one run."""

    seconds: float = 0.0
    """How long was counted."""
    counting: bool = False
    groups: int = 0
    writes: int = 0
    """Committed writes."""
    stale_groups: int = 0
    evaluated_again: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    durations: dict[str, list[float]] = field(default_factory=lambda: {"write": [], "read": []})
    lock_share: float = 0.0
    """The share of the time for which the head rows were locked, at the mean."""
    server_cores_used: float = 0.0
    syncs: int = 0
    unanswered: int = 0
    """Operations that had no answer at the end."""

    def count(self, what: str) -> None:
        """Counts one of these."""
        if self.counting:
            self.counts[what] = self.counts.get(what, 0) + 1

    def committed(self, writes: int, is_stale: bool) -> None:
        """Counts a group."""
        if self.counting:
            self.groups += 1
            self.writes += writes
            self.stale_groups += is_stale
            self.evaluated_again += writes if is_stale else 0

    def answered(self, kind: str, seconds: float) -> None:
        """Records how long an operation took."""
        if self.counting:
            self.durations[kind].append(seconds)

    def per_second(self, number: float) -> float:
        """This number for each counted second."""
        return number / self.seconds

    @property
    def commits_per_second(self) -> float:
        """Groups, that is transactions of PostgreSQL."""
        return self.per_second(self.groups)

    @property
    def writes_per_second(self) -> float:
        """Writes of clients."""
        return self.per_second(self.writes)

    @property
    def reads_per_second(self) -> float:
        """Reads of clients."""
        return self.per_second(len(self.durations["read"]))

    @property
    def group_size(self) -> float:
        """Writes of a group, at the mean."""
        return self.writes / self.groups if self.groups else 0.0

    @property
    def stale_share(self) -> float:
        """The share of groups that were evaluated twice."""
        return self.stale_groups / self.groups if self.groups else 0.0

    def latency(self, kind: str, percent: float) -> float:
        """A percentile of the durations of writes or reads, in seconds."""
        return percentile(sorted(self.durations[kind]), percent)
