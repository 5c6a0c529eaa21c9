"""Servers that do nothing, for the clients of SQL that have columns, whose loops differ from those with documents."""

from collections.abc import Callable
from functools import partial

from bench.targets.base import Client
from bench.targets.null import NullPostgres
from bench.targets.postgres_client import RelationalAdapter


class NullPostgresRelational(NullPostgres):
    """What psycopg costs with a parameter a column."""

    name = "null-postgres-relational"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(RelationalAdapter, *super().connector(durability).args)
