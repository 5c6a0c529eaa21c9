"""Checks of a system's contents that several workloads use."""

import time

from bench.data import ALL, Table
from bench.targets import Client

VISIBLE_SECONDS = 30.0


def await_count(client: Client, table: Table, expected: int) -> None:
    """Raises an error unless the table contains `expected` documents. Waits, because relaxed writes may become visible late."""
    end = time.monotonic() + VISIBLE_SECONDS
    while (found := client.count(table, ALL)) != expected:
        if found > expected or time.monotonic() > end:
            raise AssertionError(f"{table.name} contains {found} documents, expected {expected}")
        time.sleep(0.1)
