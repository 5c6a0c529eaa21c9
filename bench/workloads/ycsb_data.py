"""What YCSB's core workloads are made of: keys, records, request distributions and the six mixes of operations.

Written after YCSB's published definitions: keys are the FNV-1a hash of a counter, records have ten fields of a hundred letters,
popular keys are drawn by Gray's method from ten thousand million ranks and scattered over the keys there are by the same hash.
"""

import random
from dataclasses import dataclass

from bench.data import Row

FIELDS = tuple(f"field{number}" for number in range(10))
FIELD_BYTES = 100
MOST_SCANNED = 100
ZIPFIAN_CONSTANT = 0.99
# Popular ranks are drawn from this many, whatever the number of records, so that growth changes nobody's popularity. Their zeta
# is known, since summing it takes minutes.
RANKS, RANKS_ZETA = 10_000_000_000, 26.46902820178302

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 1099511628211, (1 << 64) - 1


def scatter(number: int) -> int:
    """FNV-1a over a number's eight bytes, lowest first, as the absolute value of a signed 64-bit number."""
    hashed = _OFFSET
    for octet in number.to_bytes(8, "little"):
        hashed = (hashed ^ octet) * _PRIME & _MASK
    return hashed if hashed < 1 << 63 else (1 << 64) - hashed


def key_name(number: int) -> str:
    """The key of the record of a number."""
    return f"user{scatter(number)}"


def zeta(items: int, constant: float = ZIPFIAN_CONSTANT) -> float:
    """What the ranks' weights, 1 / rank ** constant, sum up to."""
    return sum((rank + 1) ** -constant for rank in range(items))


class Zipfian:
    """Ranks from 0 on, the first the most popular, by the method of Gray et al., "Quickly generating billion-record databases"."""

    def __init__(self, items: int, total: float | None = None) -> None:
        self._items = items
        self._total = zeta(items) if total is None else total
        self._first_two = zeta(2)
        self._alpha = 1 / (1 - ZIPFIAN_CONSTANT)
        # Two items or fewer never get as far as the power.
        self._eta = (1 - (2 / items) ** (1 - ZIPFIAN_CONSTANT)) / (1 - self._first_two / self._total) if items > 2 else 0.0

    def rank(self, uniform: float) -> int:
        """The rank that a number from [0, 1) stands for."""
        weighted = uniform * self._total
        if weighted < 1.0:
            return 0
        if weighted < self._first_two:
            return 1
        return int(self._items * (self._eta * uniform - self._eta + 1) ** self._alpha)


POPULAR = Zipfian(RANKS, RANKS_ZETA)


def popular(draw: random.Random, keys: int) -> int:
    """The number of a record, of so many, with the popular ones scattered among them."""
    return scatter(POPULAR.rank(draw.random())) % keys


READ, UPDATE, INSERT, SCAN, MODIFY = "read", "update", "insert", "scan", "read-modify-write"


@dataclass(frozen=True)
class Mix:
    """A core workload: which share of the operations is of which kind, and whether the latest records are the popular ones."""

    name: str
    shares: tuple[tuple[str, float], ...]
    latest: bool = False

    def share(self, kind: str) -> float:
        """Which part of all operations is of a kind."""
        return dict(self.shares).get(kind, 0.0)

    def kinds(self, operations: int, draw: random.Random) -> list[str]:
        """Kinds of so many operations in random order; the first of the mix takes what rounding leaves."""
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
    """Fields' values: a mark that says whose field it is and whether it was updated, and letters without a pattern.

    The letters are pieces of a text of a megabyte, because drawing a hundred of them costs a client more than some requests do; no
    two pieces near each other overlap, so that a system that compresses finds what it would find in YCSB's own.
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
        """A whole record as it is loaded."""
        key = key_name(number)
        return key, {name: self.value(key, field, LOADED) for field, name in enumerate(FIELDS)}


def wrong(key: str, document: dict | None) -> str | None:
    """What is wrong about a record that was read; a record of another key is found out 999 times of 1,000."""
    if document is None:
        return f"no record {key}"
    for field, name in enumerate(FIELDS):
        value = document.get(name)
        if value is None or len(value) != FIELD_BYTES or not value.startswith(f"{key[-3:]}{field}"):
            return f"{name} of {key} is {value!r}"
    return None
