"""The client of MariaDB and MySQL, and their two layouts of documents: one column per field, or one JSON column.

Both layouts use only features that the two systems share. Texts are compared by code point, as in all systems of the bench.
"""

import json
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import mysql.connector
from mysql.connector.constants import ClientFlag
from mysql.connector.cursor import MySQLCursor

from bench.data import DATE, FLOAT, INTEGER, NESTED, TEXT, Row, Table, plain
from bench.targets.base import Unsupported
from bench.targets.sql import Columns, Layout, SqlAdapter, Statement, to_json

DATABASE = "diwan_bench"
KEYS = {bytes: "varbinary(255)", str: "varchar(255)", int: "bigint"}
INDEXED = 255  # characters of a text in an index: these systems do not index whole texts
LONGEST_NAME = 64
PORT = 3306
MARIADB_COLLATION, MYSQL_COLLATION = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"


def database_name(table: Table) -> str:
    """The database of a table."""
    return f"{DATABASE}_{table.database}" if table.database else DATABASE


def path(field: str) -> str:
    """A field's place in a JSON document, as SQL text."""
    return "'$.\"" + field.replace("'", "''") + "\"'"


def to_address(uri: str) -> dict:
    """The connector's arguments for `mysql://user:password@host:port/`."""
    parts = urlsplit(uri)
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname:
        raise ValueError("a MySQL URI has the form mysql://user:password@host:port/")
    given = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    return {"host": parts.hostname, "port": parts.port or PORT, **{name: value for name, value in given.items() if value}}


class MyLayout(Layout):
    """The statements that both layouts share."""

    def __init__(self, collation: str) -> None:
        self._collation = collation

    @staticmethod
    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def place(self, table: Table) -> str:
        return f"{self.quoted(database_name(table))}.{self.quoted(table.name)}"

    def made(self, table: Table, columns: list[str]) -> list[str]:
        """The statements that create a table anew."""
        place, all_columns = self.place(table), ", ".join([f"id {KEYS[table.key]} primary key", *columns])
        return [
            f"create database if not exists {self.quoted(database_name(table))}",
            f"drop table if exists {place}",
            f"create table {place} ({all_columns}) character set utf8mb4 collate {self._collation}",
        ]

    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        if any(self.kind(table, field) == NESTED for field in fields):
            raise Unsupported("has no index on a list's elements")
        name = self.quoted("_".join((table.name, *fields))[:LONGEST_NAME])
        parts = (self.quoted(field) + (f"({INDEXED})" if self.kind(table, field) == TEXT else "") for field in fields)
        return f"create index {name} on {self.place(table)} ({', '.join(parts)})"

    def insert(self, table: Table) -> str:
        return self.insert_many(table, 1)

    def insert_many(self, table: Table, count: int) -> str:
        """Inserts `count` rows."""
        columns = self.inserted(table)
        row = f"({', '.join([self.mark] * (1 + len(columns)))})"
        named = ", ".join(["id", *map(self.quoted, columns)])
        return f"insert into {self.place(table)} ({named}) values {', '.join([row] * count)}"

    def inserted(self, table: Table) -> list[str]:
        """The columns of an insert, after the id."""
        raise NotImplementedError


class ColumnsLayout(MyLayout, Columns):
    """One column per field. Nested fields are JSON."""

    keys = KEYS
    types = {TEXT: "mediumtext", INTEGER: "bigint", FLOAT: "double", DATE: "datetime(3)", NESTED: "json"}

    def create(self, table: Table) -> list[str]:
        return self.made(table, [f"{self.quoted(field)} {self.types[kind]}" for field, kind in table.fields])

    def inserted(self, table: Table) -> list[str]:
        return [field for field, _ in table.fields]

    def stored(self, kind: str, value: object) -> object:
        if isinstance(value, datetime) and value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None)
        return super().stored(kind, value)

    def overlaps(self, column: str, values: tuple) -> Statement:
        return f"json_overlaps({column}, %s)", [to_json(values)]


class JsonLayout(MyLayout):
    """`id` and `doc`, and a virtual column for each field with a single value. A virtual column takes no space and can be indexed."""

    # Expressions from JSON to a column. A text may be longer than the result of `json_value` in MySQL.
    VIRTUAL = {
        TEXT: "mediumtext as (json_unquote(json_extract(doc, {})))",
        INTEGER: "bigint as (json_value(doc, {}))",
        FLOAT: "double as (json_value(doc, {}))",
        DATE: "varchar(24) as (json_value(doc, {}))",
    }

    def create(self, table: Table) -> list[str]:
        virtual = [(field, self.VIRTUAL[kind].format(path(field))) for field, kind in table.fields if kind != NESTED]
        return self.made(table, ["doc json not null", *(f"{self.quoted(field)} {made} virtual" for field, made in virtual)])

    def inserted(self, table: Table) -> list[str]:
        return ["doc"]

    def row(self, table: Table, row: Row) -> list:
        return [row[0], to_json(row[1])]

    def assignment(self, table: Table, field: str, value: object) -> Statement:
        if self.kind(table, field) == NESTED:
            return f"doc = json_set(doc, {path(field)}, json_extract(%s, '$'))", [to_json(value)]
        return f"doc = json_set(doc, {path(field)}, %s)", [plain(value)]

    def whole(self, table: Table) -> str:
        return "doc"

    def document(self, table: Table, columns: tuple) -> dict:
        return json.loads(columns[0])

    def expression(self, table: Table, field: str) -> str:
        return f"json_extract(doc, {path(field)})" if self.kind(table, field) == NESTED else self.quoted(field)

    def exists(self, table: Table, field: str) -> str:
        return f"json_contains_path(doc, 'one', {path(field)})"

    def any(self, table: Table, field: str, values: tuple) -> Statement:
        if self.kind(table, field) == NESTED:
            return f"json_overlaps({self.expression(table, field)}, %s)", [to_json(values)]
        marks = ", ".join([self.mark] * len(values))
        return f"{self.expression(table, field)} in ({marks})", [plain(value) for value in values]

    def value(self, table: Table, field: str, value: object) -> object:
        return plain(value)


class MySQLAdapter(SqlAdapter):
    """One connection of the vendor's C connector, in autocommit mode. The name of a table with its own database includes the database."""

    dialect = "mysql"
    layouts: type[MyLayout] = ColumnsLayout

    def __init__(self, uri: str, _durability: str) -> None:
        super().__init__()
        # Matching rows are counted instead of changed ones, so that an update to the same value counts as found.
        flags = [ClientFlag.FOUND_ROWS]
        settings = {"charset": "utf8mb4", "collation": "utf8mb4_general_ci", "autocommit": True, "use_pure": False}
        self._connection = mysql.connector.connect(**to_address(uri), **settings, client_flags=flags)
        self._cursor = self._connection.cursor(buffered=True)
        self.is_mariadb = "MariaDB" in self._connection.server_info
        self.layout = self.layouts(MARIADB_COLLATION if self.is_mariadb else MYSQL_COLLATION)

    def _execute(self, table: Table, text: str, values: list | tuple = ()) -> MySQLCursor:
        self._cursor.execute(text, values)
        return self._cursor

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        values = [value for row in rows for value in self.layout.row(table, row)]
        self._execute(table, self.layout.insert_many(table, len(rows)), values)

    def _drop_database(self, database: str) -> None:
        self.ask(f"drop database {self.layout.quoted(f'{DATABASE}_{database}')}")

    def native(self, table: Table, statements: dict[str, object]) -> list:
        self.ask(f"use {self.layout.quoted(database_name(table))}")
        return super().native(table, statements)

    def maintain(self, table: Table) -> str:
        rows = self.ask(f"optimize table {self.layout.place(table)}")
        return f"optimize table: {rows[-1][-1]}"

    def table_bytes(self, table: Table) -> int | None:
        tables = "innodb_sys_tablespaces" if self.is_mariadb else "innodb_tablespaces"
        statement = f"select allocated_size from information_schema.{tables} where name = %s"
        found = self.ask(statement, (f"{database_name(table)}/{table.name}",))
        return int(found[0][0]) if found else None

    def version(self) -> str:
        """The server's name and version."""
        return self.variables("version")["version"]

    def variables(self, *names: str) -> dict[str, str]:
        """The server's settings."""
        (values,) = self.ask(f"select {', '.join('@@global.' + name for name in names)}")
        return dict(zip(names, map(str, values)))

    def ask(self, statement: str, values: tuple = ()) -> list[tuple]:
        """Sends a statement about the server, not about documents; returns its rows, if any."""
        self._cursor.execute(statement, values)
        return self._cursor.fetchall() if self._cursor.with_rows else []

    def reset(self) -> None:
        """Drops the bench's databases on a server that continues after the run."""
        for (name,) in self.ask("show databases"):
            if name == DATABASE or name.startswith(DATABASE + "_"):
                self.ask(f"drop database {self.layout.quoted(name)}")

    def close(self) -> None:
        self._connection.close()


class MySQLJsonAdapter(MySQLAdapter):
    """The same with a JSON column."""

    dialect = "mysql-json"
    layouts = JsonLayout
