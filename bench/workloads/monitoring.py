"""Experiment M, the monitoring service that moved from MySQL to MongoDB in 2009: its load, and each of its complaints.

Each part is a data set on newly started servers: the agents' reports with range reads (`monitoring_agents`), long and short field names,
blocking operations (`monitoring_locks`), kills during writes (`monitoring_kills`), one database per customer and a new replica of a live master
(`monitoring_scale`).
"""

from collections.abc import Callable
from functools import partial

from bench.exhibits import Bars, OverTime
from bench.measure import DataSet, Experiment, Stage
from bench.targets.base import RELAXED, SYNCED
from bench.workloads import monitoring_agents as agents
from bench.workloads import monitoring_kills as kills
from bench.workloads import monitoring_locks as locks
from bench.workloads import monitoring_scale as many

NAMED_ROWS = 1_000_000


class Monitoring(Experiment):
    """The experiment, configured by the command line."""

    name = "monitoring"
    title = "M. A monitoring service, and its complaints"
    about = (
        "Agents report values and nested process lists of servers each simulated minute, while a client reads ranges. Then: the disk "
        "space of long field names; single requests at a steady rate while an index is built and while half of the rows is deleted, on "
        "the same table and on another one (percentiles include the requests that a stall delayed, the maximum is a single request; the goal is "
        "at most 100 ms for each); several `kill -9` during writes, with a search for every acknowledged document after "
        "the restart; one database per customer; a replica that is added to a master under load."
    )
    notes = (
        "A kill ends the process, not the machine. Data that the kernel has received survives, so relaxed writes are lost only if a "
        "system acknowledges them before it has passed them to the kernel. Systems that delete by ids need many commands for the mass "
        "deletion, and therefore block less. The published complaints have only these figures: about 100 bytes of field names per row, "
        "and 64 MB or more pre-allocated per database."
    )
    charts = (
        Bars(
            "The longest request (ms)",
            shape="locks",
            operations=tuple(f"longest request, {phase}" for phase in (locks.QUIET, locks.INDEXING, locks.DELETING)),
            measure="value",
        ),
        OverTime("Inserts while half is deleted, same table", operation=f"insert, same table, {locks.DELETING}"),
        OverTime("Inserts while an index is built, same table", operation=f"insert, same table, {locks.INDEXING}"),
        OverTime("Reports over time", operation=agents.REPORT_SNAPSHOT, measure="count"),
    )

    def data_sets(self) -> list[DataSet]:
        scale = self.options.scale
        named, killed_after = self.scaled(NAMED_ROWS, least=1_000), self.scaled(kills.DOCUMENTS)
        return [
            DataSet("reports", RELAXED, partial(_make, agents.Reports, scale, stages=(self.rounds,))),
            DataSet("short names", RELAXED, partial(_make, agents.Names, False, named)),
            DataSet("long names", RELAXED, partial(_make, agents.Names, True, named)),
            DataSet("locks", RELAXED, partial(_make, locks.Locks, self.scaled(locks.ROWS), _seconds(locks.QUIET_SECONDS, scale))),
            *(
                DataSet(f"kills · {durability}", durability, partial(_make, kills.Kills, killed_after, stages=(self.rounds,)))
                for durability in (RELAXED, SYNCED)
            ),
            DataSet("databases", RELAXED, partial(_make, many.Databases, self.scaled(many.DATABASES, least=3))),
            DataSet("replica", RELAXED, partial(_make, many.Replica, self.scaled(many.ROWS, least=1_000)), replicated=True),
        ]


def _seconds(published: float, scale: float) -> float:
    """A duration at a scale: it shrinks with a smaller scale, down to a minimum, and does not grow with a larger one."""
    return min(published, max(1.0, published * scale))


def _make(part: Callable, *arguments, stages: tuple = ()) -> tuple[dict, list[Stage]]:
    made = part(*arguments)
    return made.about, made.stages(*stages)
