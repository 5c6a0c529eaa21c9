"""The parts of YCSB's core workloads: keys, records, request distributions and the six mixes of operations.

Written after YCSB's published definitions: keys are the FNV-1a hash of a counter, records have ten fields of a hundred letters,
popular keys are drawn by Gray's method from ten thousand million ranks and scattered over the existing keys by the same hash.
"""

import random
from dataclasses import dataclass

from bench.data import Row

FIELDS = tuple(f"field{number}" for number in range(10))
FIELD_BYTES = 100
MOST_SCANNED = 100
ZIPFIAN_CONSTANT = 0.99
# The number of ranks, independent of the number of records, so that growth does not change the popularity of a key. Its zeta
# value is a constant, because computing it takes minutes.
RANKS, RANKS_ZETA = 10_000_000_000, 26.46902820178302

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 1099511628211, (1 << 64) - 1


def scatter(number: int) -> int:
    """FNV-1a over the eight bytes of a number, little-endian, as the absolute value of a signed 64-bit number."""
    hashed = _OFFSET
    for octet in number.to_bytes(8, "little"):
        hashed = (hashed ^ octet) * _PRIME & _MASK
    return hashed if hashed < 1 << 63 else (1 << 64) - hashed


def key_name(number: int) -> str:
    """The key of the record with a number."""
    return f"user{scatter(number)}"


def zeta(items: int, constant: float = ZIPFIAN_CONSTANT) -> float:
    """The sum of the ranks' weights, 1 / rank ** constant."""
    return sum((rank + 1) ** -constant for rank in range(items))


class Zipfian:
    """Ranks from 0, the most popular, by the method of Gray et al., "Quickly generating billion-record databases"."""

    def __init__(self, items: int, total: float | None = None) -> None:
        self._items = items
        self._total = zeta(items) if total is None else total
        self._first_two = zeta(2)
        self._alpha = 1 / (1 - ZIPFIAN_CONSTANT)
        # With two items or fewer the power is never computed.
        self._eta = (1 - (2 / items) ** (1 - ZIPFIAN_CONSTANT)) / (1 - self._first_two / self._total) if items > 2 else 0.0

    def rank(self, uniform: float) -> int:
        """The rank for a number in [0, 1)."""
        weighted = uniform * self._total
        if weighted < 1.0:
            return 0
        if weighted < self._first_two:
            return 1
        return int(self._items * (self._eta * uniform - self._eta + 1) ** self._alpha)


POPULAR = Zipfian(RANKS, RANKS_ZETA)


def popular(draw: random.Random, keys: int) -> int:
    """The number of one of `count` records; popular ones are scattered."""
    return scatter(POPULAR.rank(draw.random())) % keys


READ, UPDATE, INSERT, SCAN, MODIFY = "read", "update", "insert", "scan", "read-modify-write"


@dataclass(frozen=True)
class Mix:
    """A core workload: the share of each kind of operation, and whether the latest records are the popular ones."""

    name: str
    shares: tuple[tuple[str, float], ...]
    latest: bool = False

    def share(self, kind: str) -> float:
        """The share of a kind in all operations."""
        return dict(self.shares).get(kind, 0.0)

    def kinds(self, operations: int, draw: random.Random) -> list[str]:
        """The kinds of `count` operations in random order. The first kind of the mix gets the remainder of rounding."""
        (first, _), *others = self.shares
        kinds = [kind for kind, share in others for _ in range(round(operations * share))]
        kinds += [first] * (operations - len(kinds))
        draw.shuffle(kinds)
        return kinds


A = Mix("A, update heavy", ((READ, 0.5), (UPDATE, 0.5)))
B = Mix("B, read mostly", ((READ, 0.95), (UPDATE, 0.05)))
C = Mix("C, read only", ((READ, 1.0),))
D = Mix("D, read latest", ((READ, 0.95), (INSERT, 0.05)), latest=True)
E = Mix("E, short ranges", ((SCAN, 0.95), (INSERT, 0.05)))
F = Mix("F, read-modify-write", ((READ, 0.5), (MODIFY, 0.5)))

LOADED, UPDATED = "L", "U"


class Values:
    """Values of fields: a mark with the record, the field and whether it was updated, then random letters.

    The letters are pieces of a text of a megabyte, because drawing a hundred letters costs a client more than some requests. Neighbouring
    pieces do not overlap, so the values compress like YCSB's own.
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        letters = bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[octet & 63] for octet in range(256))
        self._text = self._draw.randbytes(1 << 20).translate(letters).decode()
        self._last = len(self._text) - FIELD_BYTES

    def value(self, key: str, field: int, state: str) -> str:
        """A value of a hundred letters for one field."""
        start = int(self._draw.random() * self._last)
        return f"{key[-3:]}{field}{state}{self._text[start + 5 : start + FIELD_BYTES]}"

    def record(self, number: int) -> Row:
        """A complete record as loaded."""
        key = key_name(number)
        return key, {name: self.value(key, field, LOADED) for field, name in enumerate(FIELDS)}


def wrong(key: str, document: dict | None) -> str | None:
    """Describes an error in a record that was read. It detects a record with another key in 999 of 1,000 cases."""
    if document is None:
        return f"no record {key}"
    for field, name in enumerate(FIELDS):
        value = document.get(name)
        if value is None or len(value) != FIELD_BYTES or not value.startswith(f"{key[-3:]}{field}"):
            return f"{name} of {key} is {value!r}"
    return None
