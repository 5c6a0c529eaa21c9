"""Checks that several workloads make of what a system holds."""

import time

from bench.data import ALL, Table
from bench.targets import Client

VISIBLE_SECONDS = 30.0


def await_count(client: Client, table: Table, expected: int) -> None:
    """An error unless the table holds so many documents; relaxed writes may be acknowledged a while before they are seen."""
    end = time.monotonic() + VISIBLE_SECONDS
    while (found := client.count(table, ALL)) != expected:
        if found > expected or time.monotonic() > end:
            raise AssertionError(f"{table.name} holds {found} documents where {expected} are right")
        time.sleep(0.1)
