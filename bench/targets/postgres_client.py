"""The client of PostgreSQL, and its two layouts of documents: one `jsonb` column, or one column per field."""

import psycopg
from psycopg.types.json import Jsonb, set_json_dumps

from bench.data import DATE, FLOAT, INTEGER, NESTED, TEXT, Row, Table, plain
from bench.targets.base import SYNCED
from bench.targets.sql import Columns, Layout, SqlAdapter, Statement, to_json

KEYS = {bytes: "bytea", str: "text", int: "bigint"}
CONNECTIONS = 32  # most connections of a client to separate databases; PostgreSQL's default limit is 100 for all clients


def text_of(name: str) -> str:
    """A field's name as an SQL string."""
    return "'" + name.replace("'", "''") + "'"


def overlaps(value: str, operands: tuple) -> Statement:
    """A condition: the jsonb value is one of the operands, or a list that contains one of them."""
    if all(isinstance(operand, str) for operand in operands):
        return f"{value} ?| %s", [list(operands)]
    # In jsonb a list contains its elements, and a scalar contains itself.
    return f"{value} @> any(%s::jsonb[])", [[Jsonb(operand) for operand in operands]]


class JsonbLayout(Layout):
    """`id` and `doc`. Numbers are read from `doc` without a conversion to text. Dates are texts of one width."""

    driver_decodes = True

    def create(self, table: Table) -> list[str]:
        name = self.place(table)
        return [f"drop table if exists {name}", f"create table {name} (id {KEYS[table.key]} primary key, doc jsonb not null)"]

    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        if any(self.kind(table, field) == NESTED for field in fields):
            (field,) = fields
            return f"create index on {self.place(table)} using gin ((doc->{text_of(field)}))"
        expressions = ", ".join(f"({self.expression(table, field)})" for field in fields)
        return f"create index on {self.place(table)} ({expressions})"

    def insert(self, table: Table) -> str:
        return f"insert into {self.place(table)} values (%s, %s)"

    def insert_many(self, table: Table) -> str:
        """Inserts the rows of arrays, one for each column."""
        return f"insert into {self.place(table)} select * from unnest(%s::{KEYS[table.key]}[], %s::jsonb[])"

    def row(self, table: Table, row: Row) -> list:
        return [row[0], Jsonb(row[1])]

    def assignment(self, table: Table, field: str, value: object) -> Statement:
        return "doc = jsonb_set(doc, %s, %s)", [[field], Jsonb(value)]

    def whole(self, table: Table) -> str:
        return "doc"

    def document(self, table: Table, columns: tuple) -> dict:
        return columns[0]

    def expression(self, table: Table, field: str) -> str:
        match self.kind(table, field):
            case "integer":
                return f"(doc->{text_of(field)})::int8"
            case "float":
                return f"(doc->{text_of(field)})::float8"
            case "nested":
                return f"doc->{text_of(field)}"
            case _:
                return f"doc->>{text_of(field)}"

    def exists(self, table: Table, field: str) -> str:
        return f"doc ? {text_of(field)}"

    def any(self, table: Table, field: str, values: tuple) -> Statement:
        if self.kind(table, field) == NESTED:
            return overlaps(self.expression(table, field), values)
        return f"{self.expression(table, field)} = any(%s)", [[plain(value) for value in values]]

    def value(self, table: Table, field: str, value: object) -> object:
        return Jsonb(value) if self.kind(table, field) == NESTED else plain(value)


class ColumnsLayout(Columns):
    """One column per field. Nested fields are `jsonb`."""

    driver_decodes = True
    keys = KEYS
    types = {TEXT: "text", INTEGER: "bigint", FLOAT: "double precision", DATE: "timestamptz", NESTED: "jsonb"}

    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        method = "using gin " if any(self.kind(table, field) == NESTED for field in fields) else ""
        return f"create index on {self.place(table)} {method}({', '.join(map(self.quoted, fields))})"

    def insert_many(self, table: Table) -> str:
        """Inserts the rows of arrays, one for each column."""
        kinds = [KEYS[table.key], *(self.types[kind] for _, kind in table.fields)]
        arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
        return f"insert into {self.place(table)} (id, {self.whole(table)}) select * from unnest({arrays})"

    def stored(self, kind: str, value: object) -> object:
        return Jsonb(value) if kind == NESTED else value

    def loaded(self, kind: str, value: object) -> object:
        return value

    def overlaps(self, column: str, values: tuple) -> Statement:
        return overlaps(column, values)


class PostgresAdapter(SqlAdapter):
    """psycopg connections in autocommit mode. psycopg prepares repeated statements."""

    dialect = "postgres-jsonb"
    layout: JsonbLayout | ColumnsLayout = JsonbLayout()

    def __init__(self, address: str, durability: str) -> None:
        super().__init__()
        self._address = address
        self._synced = durability == SYNCED
        self._main = self._connect("")
        self._cursors: dict[str, psycopg.Cursor] = {}

    def _connect(self, database: str) -> psycopg.Cursor:
        connection = psycopg.connect(self._address, autocommit=True, **({"dbname": database} if database else {}))
        connection.execute(f"set synchronous_commit = {'on' if self._synced else 'off'}; set timezone = 'UTC'")
        set_json_dumps(to_json, connection)
        return connection.cursor()

    def _cursor(self, database: str) -> psycopg.Cursor:
        """The cursor for a table with its own database. If there are too many connections, the least recently used one is closed."""
        if cursor := self._cursors.pop(database, None):
            self._cursors[database] = cursor
            return cursor
        if len(self._cursors) >= CONNECTIONS:
            self._cursors.pop(next(iter(self._cursors))).connection.close()
        return self._cursors.setdefault(database, self._connect(database))

    def _execute(self, table: Table, text: str, values: list | tuple = ()):
        cursor = self._cursor(table.database) if table.database else self._main
        return cursor.execute(text, values or None)

    def create(self, table: Table) -> None:
        if table.database:
            known = self._main.execute("select 1 from pg_database where datname = %s", [table.database]).fetchone()
            if not known:
                self._main.execute(f"create database {self.layout.quoted(table.database)}")
        super().create(table)

    def _drop_database(self, database: str) -> None:
        if cursor := self._cursors.pop(database, None):
            cursor.connection.close()
        self._main.execute(f"drop database {self.layout.quoted(database)} with (force)")

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        encoded = [self.layout.row(table, row) for row in rows]
        self._execute(table, self.layout.insert_many(table), [list(column) for column in zip(*encoded)])

    def maintain(self, table: Table) -> str:
        self._execute(table, f"vacuum analyze {self.layout.place(table)}")
        self._main.execute("checkpoint")
        return "vacuum analyze, checkpoint"

    def table_bytes(self, table: Table) -> int | None:
        size = "select pg_total_relation_size(%s::regclass)"
        return self._execute(table, size, [self.layout.place(table)]).fetchone()[0]

    def close(self) -> None:
        for cursor in (self._main, *self._cursors.values()):
            cursor.connection.close()
        self._cursors.clear()


class RelationalAdapter(PostgresAdapter):
    """The same with one column per field."""

    dialect = "postgres"
    layout = ColumnsLayout()
