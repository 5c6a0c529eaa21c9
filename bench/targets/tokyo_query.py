"""Columns and conditions of Tokyo Cabinet's table databases, for the library and for Tokyo Tyrant.

A record's columns are texts. Conditions compare numbers or match texts. Texts cannot be compared by order.
"""

import re

from bench.data import NESTED, TEXT, Query, Table
from bench.targets.base import Unsupported
from bench.targets.texts import NUMBERS, from_texts, kind_of, to_text

# Numbers of operators, orders and index kinds in the library's interface.
TEXT_EQUALS, TEXT_BEGINS, TEXT_MATCHES = 0, 2, 7
NUMBER_BETWEEN, NUMBER_AMONG = 13, 14
NUMBER = {"equals": 8, "above": 9, "at least": 10, "below": 11, "at most": 12}
ORDER_TEXT, ORDER_NUMBER = 0, 2
INDEX_TEXT, INDEX_NUMBER = 0, 1

# The stored form of an empty text, because the library aborts the process when it indexes an empty column.
EMPTY = "\1"

Condition = tuple[str, int, str]  # column (the empty name is the record's key), operator, operand


def to_column(kind: str, value) -> str:
    """A value as a column's text."""
    text = to_text(kind, value)
    if "\0" in text or text == EMPTY:
        raise ValueError("a column of a table database cannot contain a zero character or the stored form of an empty text")
    return text or EMPTY


def to_columns(table: Table, document: dict) -> list[bytes]:
    """A document as alternating names and values."""
    kinds = dict(table.fields)
    return [part.encode() for field, value in document.items() for part in (field, to_column(kinds[field], value))]


def from_columns(table: Table, columns: list[bytes]) -> dict:
    """The document from its columns."""
    texts = [part.decode() for part in columns]
    return from_texts(table, {name: "" if text == EMPTY else text for name, text in zip(texts[::2], texts[1::2])})


def to_conditions(table: Table, query: Query) -> list[Condition]:
    """The query's conditions. Both ends of a range become one condition, so that one index lookup can serve it."""
    conditions, ends = [], {}
    for operator, field, value in query.conditions:
        kind = kind_of(table, field)
        if kind in NUMBERS and operator in ("at least", "at most"):
            ends.setdefault(field, {})[operator] = to_column(kind, value)
        else:
            conditions.append((field, *_condition(kind, operator, value)))
    for field, end in ends.items():
        if len(end) == 2:
            conditions.append((field, NUMBER_BETWEEN, f"{end['at least']} {end['at most']}"))
        else:
            conditions.extend((field, NUMBER[operator], text) for operator, text in end.items())
    return conditions


def _condition(kind: str, operator: str, value) -> tuple[int, str]:
    if operator == "exists":
        return TEXT_BEGINS, ""
    if kind in NUMBERS:
        if operator == "any":
            return NUMBER_AMONG, " ".join(to_column(kind, one) for one in value)
        return NUMBER[operator], to_column(kind, value)
    if operator == "any":
        # Lists are JSON text, in which a text is quoted. A single value is quoted too.
        among = "|".join(_literal(to_column(kind, one)) for one in value)
        return TEXT_MATCHES, f"({among})" if kind == NESTED else f"^({among})$"
    if operator == "equals":
        return TEXT_EQUALS, to_column(kind, value)
    raise Unsupported("compares numbers by order, but texts only for equality")


def _literal(text: str) -> str:
    return re.sub(r"([\\.\[\]*^$+?(){}|])", r"\\\1", text)


def to_order(table: Table, field: str) -> int:
    """The sort order of results by a field."""
    return ORDER_NUMBER if kind_of(table, field) in NUMBERS else ORDER_TEXT


def to_index(table: Table, field: str) -> int:
    """The kind of index for a field's conditions."""
    kind = kind_of(table, field)
    if kind not in (*NUMBERS, TEXT):
        raise Unsupported("cannot index lists or documents")
    return INDEX_NUMBER if kind in NUMBERS else INDEX_TEXT
