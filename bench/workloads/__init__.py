"""The registry of experiments. A new one is a module beside this file and a row here."""

from bench.measure import Experiment
from bench.workloads.comments import Comments
from bench.workloads.events import EventsExperiment
from bench.workloads.growth import Growth
from bench.workloads.monitoring import Monitoring
from bench.workloads.persons import Persons
from bench.workloads.records import Records
from bench.workloads.short_reads import ShortReads
from bench.workloads.washers import Washers
from bench.workloads.ycsb import Ycsb

_ALL: tuple[type[Experiment], ...] = (Persons, Comments, Monitoring, ShortReads, Washers, Records, Ycsb, EventsExperiment, Growth)
EXPERIMENTS: dict[str, type[Experiment]] = {experiment.name: experiment for experiment in _ALL}

__all__ = ["EXPERIMENTS", "Experiment"]
