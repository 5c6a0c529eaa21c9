"""SQL Server by its connection string, with one column per field. Nested fields are JSON text.

Texts are compared by code point, and have at most 4,000 characters, because the server cannot index longer ones.
"""

import base64

import pymssql

from bench.data import DATE, FLOAT, INTEGER, NESTED, TEXT, Row, Table, plain
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.targets.given import Given
from bench.targets.sql import Columns, SqlAdapter, Statement, to_json

DATABASE = "diwan_bench"
COLLATION = "collate Latin1_General_100_BIN2"
KEYS = {bytes: "varbinary(255)", str: f"nvarchar(255) {COLLATION}", int: "bigint"}
PORT = "1433"
# Synonyms in connection strings.
NAMES = {
    **dict.fromkeys(("server", "data source", "address", "addr"), "server"),
    **dict.fromkeys(("uid", "user id", "user"), "user"),
    **dict.fromkeys(("pwd", "password"), "password"),
}


def to_address(text: str) -> dict[str, str]:
    """The client's arguments for a connection string such as `Server=host,port;UID=user;PWD=password`. Other settings are ignored."""
    given = {}
    for setting in filter(None, text.split(";")):
        name, _, value = setting.partition("=")
        if argument := NAMES.get(name.strip().lower()):
            given[argument] = value.strip()
    if "server" not in given:
        raise ValueError("a SQL Server connection string has the form Server=host,port;UID=user;PWD=password")
    host, _, port = given["server"].removeprefix("tcp:").partition(",")
    return {**given, "server": host, "port": port or PORT}


def database_name(table: Table) -> str:
    """The database of a table."""
    return f"{DATABASE}_{table.database}" if table.database else DATABASE


class SqlServerLayout(Columns):
    """A column a field."""

    keys = KEYS
    types = {
        TEXT: f"nvarchar(4000) {COLLATION}",
        INTEGER: "bigint",
        FLOAT: "float",
        DATE: "datetime2(3)",
        NESTED: f"nvarchar(max) {COLLATION}",
    }

    @staticmethod
    def quoted(name: str) -> str:
        return "[" + name.replace("]", "]]") + "]"

    def place(self, table: Table) -> str:
        return f"{self.quoted(database_name(table))}.dbo.{self.quoted(table.name)}"

    def make_database(self, table: Table, durability: str) -> list[str]:
        """Creates the table's database if it is missing, and sets its durability."""
        name, delayed = database_name(table), {RELAXED: "forced", SYNCED: "disabled"}[durability]
        make = f"if db_id({self.text(name)}) is null create database {self.quoted(name)}"
        return [make, f"alter database {self.quoted(name)} set delayed_durability = {delayed}"]

    def drop_database(self, name: str) -> list[str]:
        """Drops a database and disconnects its clients."""
        return [
            f"alter database {self.quoted(name)} set single_user with rollback immediate",
            f"drop database {self.quoted(name)}",
        ]

    @staticmethod
    def text(value: str) -> str:
        """A text as SQL."""
        return "N'" + value.replace("'", "''") + "'"

    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        if any(self.kind(table, field) == NESTED for field in fields):
            raise Unsupported("has no index on a list's elements")
        name = self.quoted("_".join((table.name, *fields)))
        return f"create index {name} on {self.place(table)} ({', '.join(map(self.quoted, fields))})"

    def insert_many(self, table: Table) -> str:
        """Inserts rows from a JSON text made by `rows`, because a statement has at most 2,100 parameters."""
        columns = [("id", self.keys[table.key], "k")]
        columns += [(field, self.types[kind], str(place)) for place, (field, kind) in enumerate(table.fields)]
        # The column has the collation; it is not repeated here.
        shape = ", ".join(f"{self.quoted(name)} {kind.removesuffix(COLLATION).strip()} '$.\"{key}\"'" for name, kind, key in columns)
        names = ", ".join(self.quoted(name) for name, _, _ in columns)
        return f"insert into {self.place(table)} ({names}) select {names} from openjson(%s) with ({shape})"

    def rows(self, table: Table, rows: list[Row]) -> str:
        """Rows as JSON: the id as `k`, bytes in base 64, and columns by their numbers."""
        objects = []
        for row in rows:
            key, *values = self.row(table, row)
            named = {str(place): value for place, value in enumerate(values) if value is not None}
            objects.append({"k": base64.b64encode(key).decode() if isinstance(key, bytes) else key, **named})
        return to_json(objects)

    def stored(self, kind: str, value: object) -> object:
        return plain(value) if kind == DATE else super().stored(kind, value)

    def overlaps(self, column: str, values: tuple) -> Statement:
        marks = ", ".join([self.mark] * len(values))
        elements = f"openjson(case when left({column}, 1) = '[' then {column} else '[' + {column} + ']' end)"
        return f"exists (select 1 from {elements} where value in ({marks}))", [*values]

    def limited(self, text: str, limit: str) -> str:
        order = "" if " order by " in text else " order by (select null)"
        return f"{text}{order} offset 0 rows fetch next {limit} rows only"

    def space(self, table: Table) -> str:
        """A select of the bytes of the table and its indexes."""
        system = f"{self.quoted(database_name(table))}.sys"
        return (
            f"select sum(units.total_pages) * 8192 from {system}.partitions as parts join {system}.allocation_units as units"
            f" on units.container_id = parts.partition_id where parts.object_id = object_id({self.text(self.place(table))})"
        )


class SqlServerAdapter(SqlAdapter):
    """One pymssql connection in autocommit mode. The name of a table with its own database includes the database."""

    dialect = "sqlserver"
    layout = SqlServerLayout()

    def __init__(self, address: str, durability: str) -> None:
        super().__init__()
        self._durability = durability
        self._connection = pymssql.connect(**to_address(address), autocommit=True)
        self._cursor = self._connection.cursor()

    def _execute(self, table: Table, text: str, values: list | tuple = ()):
        return self._send(text, values)

    def _send(self, text: str, values: list | tuple = ()):
        # The client sends ASCII bytes as a text, but a bytearray as bytes.
        self._cursor.execute(text, tuple(bytearray(value) if isinstance(value, bytes) else value for value in values))
        return self._cursor

    def create(self, table: Table) -> None:
        for statement in self.layout.make_database(table, self._durability):
            self._send(statement)
        super().create(table)

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        self._send(self.layout.insert_many(table), [self.layout.rows(table, rows)])

    def _drop_database(self, database: str) -> None:
        for statement in self.layout.drop_database(f"{DATABASE}_{database}"):
            self._send(statement)

    def native(self, table: Table, statements: dict[str, object]) -> list:
        self._send(f"use {self.layout.quoted(database_name(table))}")
        try:
            return super().native(table, statements)
        finally:
            self._send("use master")

    def maintain(self, table: Table) -> str:
        self._send(f"alter index all on {self.layout.place(table)} rebuild")
        self._send(f"use {self.layout.quoted(database_name(table))}")
        self._send("checkpoint")
        self._send("use master")
        return "alter index all rebuild, checkpoint"

    def table_bytes(self, table: Table) -> int | None:
        return self._send(self.layout.space(table)).fetchone()[0]

    def version(self) -> str:
        """The server's name and version."""
        return self._send("select cast(serverproperty('ProductVersion') as varchar(100))").fetchone()[0]

    def reset(self) -> None:
        """Drops the bench's databases on a server that continues after the run."""
        found = self._send("select name from sys.databases").fetchall()
        for (name,) in found:
            if name == DATABASE or name.startswith(DATABASE + "_"):
                for statement in self.layout.drop_database(name):
                    self._send(statement)

    def close(self) -> None:
        self._connection.close()


class SqlServer(Given):
    """A running one."""

    name = "sqlserver"
    option = "sqlserver"
    adapter = SqlServerAdapter
    durability = {
        RELAXED: "delayed_durability = forced: acknowledged before the log is written, which happens when its buffer is full",
        SYNCED: "delayed_durability = disabled: acknowledged after the log is on disk",
    }

    @staticmethod
    def listens(address: str) -> tuple[str, int]:
        parts = to_address(address)
        return parts["server"], int(parts["port"])
