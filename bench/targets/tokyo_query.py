"""Tokyo Cabinet's table databases, by the library or by Tokyo Tyrant: columns and conditions as they want them.

A record's columns are texts. Conditions compare numbers, or match texts; there is no order of texts to compare by.
"""

import re

from bench.data import NESTED, TEXT, Query, Table
from bench.targets.base import Unsupported
from bench.targets.texts import NUMBERS, from_texts, kind_of, to_text

# Operators of conditions, kinds of orders and of indexes, by their numbers in the library's interface.
TEXT_EQUALS, TEXT_BEGINS, TEXT_MATCHES = 0, 2, 7
NUMBER_BETWEEN, NUMBER_AMONG = 13, 14
NUMBER = {"equals": 8, "above": 9, "at least": 10, "below": 11, "at most": 12}
ORDER_TEXT, ORDER_NUMBER = 0, 2
INDEX_TEXT, INDEX_NUMBER = 0, 1

# What an empty text is stored as: the library ends the process when it indexes an empty column.
EMPTY = "\1"

Condition = tuple[str, int, str]  # column (the empty name is the record's key), operator, operand


def to_column(kind: str, value) -> str:
    """A value as a column's text."""
    text = to_text(kind, value)
    if "\0" in text or text == EMPTY:
        raise ValueError("a table database's columns cannot hold a zero character, nor what stands for an empty text here")
    return text or EMPTY


def to_columns(table: Table, document: dict) -> list[bytes]:
    """A document as names and values in turn."""
    kinds = dict(table.fields)
    return [part.encode() for field, value in document.items() for part in (field, to_column(kinds[field], value))]


def from_columns(table: Table, columns: list[bytes]) -> dict:
    """The document whose columns these are."""
    texts = [part.decode() for part in columns]
    return from_texts(table, {name: "" if text == EMPTY else text for name, text in zip(texts[::2], texts[1::2])})


def to_conditions(table: Table, query: Query) -> list[Condition]:
    """The query's conditions; both ends of a range become one, which an index can serve as one."""
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
        # Values that are lists are JSON text, in which a text stands in quotes; so it does when it is the only value.
        among = "|".join(_literal(to_column(kind, one)) for one in value)
        return TEXT_MATCHES, f"({among})" if kind == NESTED else f"^({among})$"
    if operator == "equals":
        return TEXT_EQUALS, to_column(kind, value)
    raise Unsupported("compares numbers, of texts only their equality")


def _literal(text: str) -> str:
    return re.sub(r"([\\.\[\]*^$+?(){}|])", r"\\\1", text)


def to_order(table: Table, field: str) -> int:
    """How results are sorted by a field."""
    return ORDER_NUMBER if kind_of(table, field) in NUMBERS else ORDER_TEXT


def to_index(table: Table, field: str) -> int:
    """The kind of index that serves a field's conditions."""
    kind = kind_of(table, field)
    if kind not in (*NUMBERS, TEXT):
        raise Unsupported("indexes no lists or documents")
    return INDEX_NUMBER if kind in NUMBERS else INDEX_TEXT
