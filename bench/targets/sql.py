"""SQL for documents: the statements of one relational system, and the client that sends them.

A `Layout` maps documents to tables and builds statements. It never sends one, so it can be tested without a server.
An `SqlAdapter` sends a layout's statements over one connection. Values are parameters; names are quoted and inserted into the text.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial

from bench.data import NESTED, Key, Query, Row, Table, plain
from bench.targets.base import Client, Unsupported

Statement = tuple[str, list]

COMPARISONS = {"equals": "=", "above": ">", "below": "<", "at least": ">=", "at most": "<="}

# `plain` is called only for types that JSON lacks.
to_json = partial(json.dumps, default=plain, separators=(",", ":"), ensure_ascii=False)


class Layout(ABC):
    """Builds the statements for one layout of documents in one system. A table has the column `id` and columns for the document."""

    mark = "%s"  # the parameter mark in statements
    driver_decodes = False  # whether the driver returns decoded documents

    @staticmethod
    def quoted(name: str) -> str:
        """A name as SQL text."""
        return '"' + name.replace('"', '""') + '"'

    @staticmethod
    def kind(table: Table, field: str) -> str:
        """The kind of a field. A query may name a field that no document has."""
        return dict(table.fields).get(field, NESTED)

    def place(self, table: Table) -> str:
        """The qualified name of a table, as SQL text."""
        return self.quoted(table.name)

    @abstractmethod
    def create(self, table: Table) -> list[str]:
        """The statements that create the table anew."""

    @abstractmethod
    def index(self, table: Table, fields: tuple[str, ...]) -> str:
        """The statement that creates an index on fields."""

    @abstractmethod
    def insert(self, table: Table) -> str:
        """Inserts one row of `row`'s values."""

    @abstractmethod
    def row(self, table: Table, row: Row) -> list:
        """A row as the values of an insert."""

    @abstractmethod
    def assignment(self, table: Table, field: str, value: object) -> Statement:
        """The assignment after `set` in an update of one field."""

    @abstractmethod
    def whole(self, table: Table) -> str:
        """The columns of a document."""

    @abstractmethod
    def document(self, table: Table, columns: tuple) -> dict:
        """The document from the columns of `whole`."""

    @abstractmethod
    def expression(self, table: Table, field: str) -> str:
        """The expression for a field's value, in the type of its kind, the same as in an index on the field."""

    @abstractmethod
    def exists(self, table: Table, field: str) -> str:
        """A condition: the document has the field."""

    @abstractmethod
    def any(self, table: Table, field: str, values: tuple) -> Statement:
        """A condition: the field is one of the values, or a list that contains one of them."""

    def value(self, table: Table, field: str, value: object) -> object:
        """A value for comparison with `expression`."""
        return value

    def wanted(self, table: Table, field: str) -> str:
        """A field's value as a query returns it."""
        return self.expression(table, field)

    def condition(self, table: Table, query: Query) -> Statement:
        """The condition after `where`."""
        texts, values = [], []
        for operator, field, operand in query.conditions:
            if operator == "exists":
                texts.append(self.exists(table, field))
            elif operator == "any":
                text, more = self.any(table, field, operand)
                texts.append(text)
                values += more
            else:
                texts.append(f"{self.expression(table, field)} {COMPARISONS[operator]} {self.mark}")
                values.append(self.value(table, field, operand))
        return " and ".join(texts) or "1 = 1", values

    def limited(self, text: str, limit: str) -> str:
        """A select with an order and a limit."""
        return f"{text} limit {limit}"

    def find(self, table: Table, query: Query) -> Statement:
        """A select of the id and the document's columns, or of the query's fields."""
        columns = ", ".join(self.wanted(table, field) for field in query.fields) or self.whole(table)
        condition, values = self.condition(table, query)
        text = f"select id, {columns} from {self.place(table)} where {condition}"
        if query.order:
            text += f" order by {self.expression(table, query.order)}"
        return (self.limited(text, str(query.limit)), values) if query.limit else (text, values)

    def count(self, table: Table, query: Query) -> Statement:
        """A select of the number of matching documents."""
        condition, values = self.condition(table, query)
        return f"select count(*) from {self.place(table)} where {condition}", values

    def delete(self, table: Table, query: Query) -> Statement:
        """The statement that deletes the matching documents."""
        condition, values = self.condition(table, query)
        return f"delete from {self.place(table)} where {condition}", values

    def delete_one(self, table: Table) -> str:
        """The statement that deletes the document with an id."""
        return f"delete from {self.place(table)} where id = {self.mark}"

    def find_by_id(self, table: Table) -> str:
        """A select of the document with an id."""
        return f"select {self.whole(table)} from {self.place(table)} where id = {self.mark}"

    def update_field(self, table: Table, field: str, value: object) -> Statement:
        """The update of one field of a document. Its id is the remaining parameter."""
        assignment, values = self.assignment(table, field, value)
        return f"update {self.place(table)} set {assignment} where id = {self.mark}", values

    def read_range(self, table: Table) -> str:
        """A select of documents in id order. Its parameters are the first id and the limit."""
        text = f"select {self.whole(table)} from {self.place(table)} where id >= {self.mark} order by id"
        return self.limited(text, self.mark)


class Columns(Layout):
    """One column per field; null if a document does not have the field."""

    types: dict[str, str]  # by kind
    keys: dict[type, str]  # by type of id

    def create(self, table: Table) -> list[str]:
        name = self.place(table)
        columns = "".join(f", {self.quoted(field)} {self.types[kind]}" for field, kind in table.fields)
        return [f"drop table if exists {name}", f"create table {name} (id {self.keys[table.key]} primary key{columns})"]

    def insert(self, table: Table) -> str:
        marks = ", ".join([self.mark] * (1 + len(table.fields)))
        return f"insert into {self.place(table)} (id, {self.whole(table)}) values ({marks})"

    def row(self, table: Table, row: Row) -> list:
        key, document = row
        values = [self.stored(kind, document[field]) if field in document else None for field, kind in table.fields]
        if len(values) - values.count(None) != len(document):
            raise ValueError(f"{table.name} has no column for a field of the document {key!r}, or its value is null")
        return [key, *values]

    def stored(self, kind: str, value: object) -> object:
        """A value converted for its column."""
        return to_json(value) if kind == NESTED else value

    def value(self, table: Table, field: str, value: object) -> object:
        return self.stored(self.kind(table, field), value)

    def loaded(self, kind: str, value: object) -> object:
        """A value converted from its column."""
        return json.loads(value) if kind == NESTED else value

    def assignment(self, table: Table, field: str, value: object) -> Statement:
        return f"{self.quoted(field)} = {self.mark}", [self.stored(self.kind(table, field), value)]

    def whole(self, table: Table) -> str:
        return ", ".join(self.quoted(field) for field, _ in table.fields)

    def document(self, table: Table, columns: tuple) -> dict:
        named = zip(table.fields, columns)
        return {field: self.loaded(kind, value) for (field, kind), value in named if value is not None}

    def expression(self, table: Table, field: str) -> str:
        return self.quoted(field)

    def exists(self, table: Table, field: str) -> str:
        return f"{self.quoted(field)} is not null"

    def condition(self, table: Table, query: Query) -> Statement:
        columns = dict(table.fields)
        if any(field not in columns for _, field, _ in query.conditions):
            return "1 = 0", []  # no document has the field
        return super().condition(table, query)

    def any(self, table: Table, field: str, values: tuple) -> Statement:
        if self.kind(table, field) == NESTED:
            return self.overlaps(self.quoted(field), values)
        return f"{self.quoted(field)} in ({', '.join([self.mark] * len(values))})", [*values]

    @abstractmethod
    def overlaps(self, column: str, values: tuple) -> Statement:
        """A condition: a nested column is one of the values, or a list that contains one of them."""


class SqlAdapter(Client):
    """One connection in autocommit mode, and another one for each separate database in use."""

    layout: Layout

    def __init__(self) -> None:
        self._texts: dict[Table, tuple[str, str]] = {}

    @abstractmethod
    def _execute(self, table: Table, text: str, values: list | tuple = ()):
        """Sends a statement to the table's database; returns a DB-API cursor."""

    def _text(self, table: Table) -> tuple[str, str]:
        """The statements for a single insert and a point read, built once per table."""
        if table not in self._texts:
            self._texts[table] = (self.layout.insert(table), self.layout.find_by_id(table))
        return self._texts[table]

    def create(self, table: Table) -> None:
        for statement in self.layout.create(table):
            self._execute(table, statement)

    def drop(self, table: Table) -> None:
        if table.database:
            self._drop_database(table.database)
        else:
            self._execute(table, f"drop table {self.layout.place(table)}")

    @abstractmethod
    def _drop_database(self, database: str) -> None:
        """Drops a database that was created for one table."""

    def create_index(self, table: Table, *fields: str) -> None:
        self._execute(table, self.layout.index(table, fields))

    def insert_one(self, table: Table, row: Row) -> None:
        self._execute(table, self._text(table)[0], self.layout.row(table, row))

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        text, values = self.layout.update_field(table, field, value)
        if self._execute(table, text, [*values, key]).rowcount != 1:
            raise LookupError(f"no document {key!r} to update")

    def delete_one(self, table: Table, key: Key) -> None:
        if self._execute(table, self.layout.delete_one(table), [key]).rowcount != 1:
            raise LookupError(f"no document {key!r} to delete")

    def delete_many(self, table: Table, query: Query) -> int:
        return self._execute(table, *self.layout.delete(table, query)).rowcount

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        found = self._execute(table, self._text(table)[1], [key]).fetchone()
        return self.layout.document(table, found) if found else None

    def count(self, table: Table, query: Query) -> int:
        return self._execute(table, *self.layout.count(table, query)).fetchone()[0]

    def find(self, table: Table, query: Query) -> Iterable[object]:
        found = self._execute(table, *self.layout.find(table, query))
        if query.fields or self.layout.driver_decodes:
            return found
        document = self.layout.document
        return ((key, document(table, columns)) for key, *columns in found)

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        found = self._execute(table, self.layout.read_range(table), [start, limit])
        if self.layout.driver_decodes:
            return sum(1 for _ in found)
        document = self.layout.document
        return sum(document(table, columns) is not None for columns in found)

    def native(self, table: Table, statements: dict[str, object]) -> list:
        if self.dialect not in statements:
            raise Unsupported("the workload has no statement for this SQL dialect")
        cursor = self._execute(table, statements[self.dialect])
        return list(cursor.fetchall()) if cursor.description else []  # a statement that creates an index has no rows
