"""A given MySQL or MariaDB by its URI, with one column per field or with one JSON column."""

from bench.targets.base import RELAXED, SYNCED
from bench.targets.given import Given
from bench.targets.mysql_client import MySQLAdapter, MySQLJsonAdapter, to_address

FLUSH = "innodb_flush_log_at_trx_commit"


class MySQL(Given):
    """With one column per field."""

    name = "mysql"
    baseline = "null-mysql"
    option = "mysql_uri"
    adapter = MySQLAdapter
    # Durability is a setting of the server and not of the connection. The bench does not change a given server; the report shows the setting.
    durability = {
        RELAXED: f"{FLUSH} as set in the server: 2 is as relaxed as the others",
        SYNCED: f"{FLUSH} as set in the server: 1 is as synced as the others",
    }

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = to_address(address)
        return parts["host"], parts["port"]

    def describe(self) -> dict:
        described = super().describe()
        client = self.adapter(self._address, RELAXED)
        try:
            shown = client.variables(FLUSH, "sync_binlog", "innodb_buffer_pool_size")
        finally:
            client.close()
        return {**described, "settings": f"{described['settings']}: {', '.join(f'{name} = {value}' for name, value in shown.items())}"}


class MySQLJson(MySQL):
    """The same with a JSON column."""

    name = "mysql-json"
    baseline = "null-mysql-json"
    adapter = MySQLJsonAdapter
