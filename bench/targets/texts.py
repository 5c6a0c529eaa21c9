"""Conversions for systems that store only texts or bytes: ids as bytes, fields as texts according to their kinds, whole documents."""

import json
from datetime import UTC, datetime, timedelta

from bench.data import DATE, FLOAT, INTEGER, NESTED, TEXT, Key, Table, plain

NUMBERS = (INTEGER, FLOAT, DATE)
EPOCH = datetime(1970, 1, 1)
MILLISECOND = timedelta(milliseconds=1)
SIGN = 1 << 63
ONLY_KEYS = "a key-value store finds records only by their keys"


def to_key(key: Key) -> bytes:
    """An id as bytes that sort as the ids do."""
    if isinstance(key, int):
        return (key + SIGN).to_bytes(8, "big")
    return key.encode() if isinstance(key, str) else key


def from_key(table: Table, key: bytes) -> Key:
    """The id from its bytes."""
    if table.key is int:
        return int.from_bytes(key, "big") - SIGN
    return key.decode() if table.key is str else key


def to_json(document: dict) -> bytes:
    """A document as one value."""
    return json.dumps(plain(document), separators=(",", ":"), ensure_ascii=False).encode()


def found(key: Key, document: dict, fields: tuple[str, ...]) -> dict:
    """The result of a search: the id and the query's fields, or all fields if the query names none."""
    return {"_id": key, **({field: document[field] for field in fields if field in document} if fields else document)}


def kind_of(table: Table, field: str) -> str:
    """The kind of a field. A field that the table does not define, and hence no document has, is a text."""
    return dict(table.fields).get(field, TEXT)


def to_text(kind: str, value) -> str:
    """A value as a text. Dates are milliseconds, so that systems can compare them as numbers."""
    if kind == TEXT:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")
        return value
    if kind == NESTED:
        return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)
    if kind == DATE:
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return str((moment - EPOCH) // MILLISECOND)
    return repr(float(value)) if kind == FLOAT else str(int(value))


def from_text(kind: str, text: str):
    """The value from its text."""
    if kind == TEXT:
        return text
    if kind == NESTED:
        return json.loads(text)
    if kind == DATE:
        return EPOCH + int(text) * MILLISECOND
    return float(text) if kind == FLOAT else int(text)


def to_texts(table: Table, document: dict) -> dict[str, str]:
    """A document's fields as texts."""
    kinds = dict(table.fields)
    return {field: to_text(kinds[field], value) for field, value in document.items()}


def from_texts(table: Table, texts: dict[str, str]) -> dict:
    """The document from its fields' texts."""
    kinds = dict(table.fields)
    return {field: from_text(kinds.get(field, TEXT), text) for field, text in texts.items()}
