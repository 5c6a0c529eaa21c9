"""Null servers for SQL clients. Clients that send columns have other costs than clients that send documents."""

from collections.abc import Callable
from functools import partial

from bench.targets.base import Client
from bench.targets.mysql_client import MySQLAdapter, MySQLJsonAdapter
from bench.targets.null import Null, NullPostgres
from bench.targets.postgres_client import RelationalAdapter


class NullPostgresRelational(NullPostgres):
    """The cost of psycopg with one parameter per column."""

    name = "null-postgres-relational"

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(RelationalAdapter, *super().connector(durability).args)


class NullMySQL(Null):
    """The cost of MySQL's connector with one parameter per column."""

    name = "null-mysql"
    module = "bench.nullmysql"
    protocol = "mysql"
    adapter = MySQLAdapter

    def connector(self, durability: str) -> Callable[[], Client]:
        return partial(self.adapter, f"mysql://bench@127.0.0.1:{self.port}/", durability)


class NullMySQLJson(NullMySQL):
    """The cost of MySQL's connector with documents as JSON."""

    name = "null-mysql-json"
    adapter = MySQLJsonAdapter
