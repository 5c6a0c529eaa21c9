"""Servers that do nothing, for clients of SQL; those that send columns cost something else than those that send documents."""

from collections.abc import Callable
from functools import partial

from bench.targets.base import Client
from bench.targets.mysql_client import MySQLAdapter, MySQLJsonAdapter
from bench.targets.null import Null, NullPostgres
from bench.targets.postgres_client import RelationalAdapter


class NullPostgresRelational(NullPostgres):
    """What psycopg costs with a parameter a column."""

    name = "null-postgres-relational"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(RelationalAdapter, *super().connector(durability).args)


class NullMySQL(Null):
    """What MySQL's connector costs with a parameter a column."""

    name = "null-mysql"
    module = "bench.nullmysql"
    protocol = "mysql"
    adapter = MySQLAdapter

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, f"mysql://bench@127.0.0.1:{self.port}/", durability)


class NullMySQLJson(NullMySQL):
    """What it costs with documents as JSON."""

    name = "null-mysql-json"
    adapter = MySQLJsonAdapter
