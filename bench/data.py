"""How workloads describe their tables and queries, independently of any system; each client translates the descriptions."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

# A document's id: 12 bytes become an ObjectId if the system has this type; strings and numbers are stored unchanged.
Key = bytes | str | int
Row = tuple[Key, dict]  # the id, the same for every system, and the document without it

# The kinds of fields. Relational systems create columns from them; other systems ignore them.
TEXT, INTEGER, FLOAT, DATE, NESTED = "text", "integer", "float", "date", "nested"


@dataclass(frozen=True)
class Table:
    """A table or collection. `fields` are those a document may have, any of which may be missing; `key` is the type of its ids."""

    name: str
    fields: tuple[tuple[str, str], ...]
    key: type = bytes
    database: str = ""  # the name of a separate database, for workloads that create many databases

    def kind(self, field: str) -> str:
        """The kind of a field."""
        return dict(self.fields)[field]


COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "equals": lambda value, operand: value == operand,
    "above": lambda value, operand: value > operand,
    "below": lambda value, operand: value < operand,
    "at least": lambda value, operand: value >= operand,
    "at most": lambda value, operand: value <= operand,
}


@dataclass(frozen=True)
class Query:
    """A search: all conditions must hold. A condition is (operator, field, operand).

    Operators are those of `COMPARISONS`, `exists` (no operand), and `any`: the field is one of the operand's values, or a list that
    contains one of them.
    """

    name: str
    conditions: tuple[tuple[str, str, object], ...] = ()
    fields: tuple[str, ...] = ()  # the fields to return; empty: all
    order: str | None = None  # a field, ascending
    limit: int | None = None

    def matches(self, document: dict) -> bool:
        """Whether a document matches, by MongoDB's rules."""
        return all(self._holds(document, *condition) for condition in self.conditions)

    @staticmethod
    def _holds(document: dict, operator: str, field: str, operand) -> bool:
        if field not in document:
            return False
        value = document[field]
        if operator == "exists":
            return True
        if operator == "any":
            return any(one in operand for one in (value if isinstance(value, list) else [value]))
        return COMPARISONS[operator](value, operand)


ALL = Query("all")


def plain(value):
    """A value converted to JSON types: dates become texts of one width, which sort as the dates do."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value
