"""Describes the machine of a run: processor, memory, kernel, and the versions of the client libraries."""

import datetime
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


# The client libraries. Their own cost is part of every wall time.
CLIENTS = ("pymongo", "couchdb", "couchbase", "psycopg", "mysql-connector-python", "pymssql", "redis", "hiredis")


def _versions() -> Iterator[tuple[str, str]]:
    for name in CLIENTS:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue  # a target that needs it reports that it is missing


def describe() -> dict:
    """The fields about machine and client libraries in a `run` record."""
    fields = dict(
        (key.strip(), value.strip())
        for key, _, value in (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        if value
    )
    return {
        "processor": fields.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        # Other work on the machine falsifies even CPU times, because cores share caches and execution units.
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "clients": dict(_versions()),
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def label() -> str:
    """A short, anonymous name of the machine for a run's directory."""
    return f"{platform.machine()}-{len(os.sched_getaffinity(0))}cores"
