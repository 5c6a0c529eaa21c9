"""MySQL by its URI, or a MariaDB that runs already: a column a field, or one JSON column."""

from bench.targets.base import RELAXED, SYNCED
from bench.targets.given import Given
from bench.targets.mysql_client import MySQLAdapter, MySQLJsonAdapter, to_address

FLUSH = "innodb_flush_log_at_trx_commit"


class MySQL(Given):
    """With a column a field."""

    name = "mysql"
    baseline = "null-mysql"
    option = "mysql_uri"
    adapter = MySQLAdapter
    # It is the server's setting, not the connection's, and a server that others use is not changed: the settings tell what it is.
    durability = {
        RELAXED: f"{FLUSH} as the server has it: 2 is as relaxed as the others",
        SYNCED: f"{FLUSH} as the server has it: 1 is as synced as the others",
    }

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = to_address(address)
        return parts["host"], parts["port"]

    def describe(self) -> dict:
        told = super().describe()
        client = self.adapter(self._address, RELAXED)
        try:
            shown = client.variables(FLUSH, "sync_binlog", "innodb_buffer_pool_size")
        finally:
            client.close()
        return {**told, "settings": f"{told['settings']}: {', '.join(f'{name} = {value}' for name, value in shown.items())}"}


class MySQLJson(MySQL):
    """The same with a JSON column."""

    name = "mysql-json"
    baseline = "null-mysql-json"
    adapter = MySQLJsonAdapter
