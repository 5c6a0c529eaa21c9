"""The persons of the thesis that compared MongoDB 1.6 with CouchDB 1.0: its data, bit for bit, and its five queries.

The published data was drawn by Python 2.7's `random` with the seed 1337. Today's `random` has the same Mersenne Twister but
other derived functions, so this module contains the two required functions of 2.7. A document's keys are in the order drawn.
"""

import math
import random
from collections.abc import Iterator, Sequence

from bench.data import Query

SEED = 1337
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
ANIMALS = ("Albatross", "Horse", "Piranha", "Slow loris", "Panda", "Penguin")
POWERS = ("Force Lightning", "Jedi Mind Trick", "Force Choke", "Force Throw", "Force Insanity")
SHAPES = ("flat", "nested")


class Draws:
    """Python 2.7's `randint` and `sample` over one stream of random numbers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, inclusive."""
        return low + int(self._random() * (high - low + 1))

    def choice(self, values: Sequence[str]) -> str:
        """One of the values."""
        return values[self.integer(0, len(values) - 1)]

    def sample(self, values: Sequence[str], count: int) -> list[str]:
        """`count` distinct values, from a shrinking pool or by rejection, with the same choice as Python 2.7."""
        total = len(values)
        threshold = 21 + (4 ** math.ceil(math.log(count * 3, 4)) if count > 5 else 0)
        drawn = []
        if total <= threshold:
            pool = list(values)
            for left in range(total, total - count, -1):
                index = int(self._random() * left)
                drawn.append(pool[index])
                pool[index] = pool[left - 1]
            return drawn
        seen: set[int] = set()
        for _ in range(count):
            index = int(self._random() * total)
            while index in seen:
                index = int(self._random() * total)
            seen.add(index)
            drawn.append(values[index])
        return drawn


def _phone(draws: Draws) -> str:
    return "".join(draws.sample(DIGITS, 10))


# By version: the extra key and the function that draws one of its values. Version 0 has none.
EXTRAS = {
    1: ("pet", lambda draws: draws.choice(ANIMALS)),
    2: ("fax", _phone),
    3: ("jedi power", lambda draws: draws.choice(POWERS)),
}


def persons(count: int, shape: str) -> Iterator[dict]:
    """The first `count` persons. `nested` persons have lists of one to five values, `flat` ones single values."""
    draws = Draws(SEED)
    for _ in range(count):
        version = draws.integer(0, 3)
        person = {
            "name": "".join(draws.sample(LETTERS, draws.integer(5, 15))),
            "salary": draws.integer(9000, 40000),
            "age": draws.integer(18, 90),
            "telephone": _phone(draws),
        }
        if version in EXTRAS:
            key, draw = EXTRAS[version]
            if shape == "nested":
                person[key] = [draw(draws) for _ in range(draws.integer(1, 5))]
            else:
                person[key] = draw(draws)
        yield person


def keys(count: int) -> list[bytes]:
    """Ids in the layout of a driver's ObjectIds: time, random number of the process, counter. They are the same in every run."""
    process = b"diwan"
    return [
        (0x4D000000 + number // 1000).to_bytes(4, "big") + process + (number % (1 << 24)).to_bytes(3, "big")
        for number in range(count)
    ]


_SALARY = (("above", "salary", 18500), ("below", "salary", 35000))
_ADULT = (*_SALARY, ("above", "age", 25))
_DARK = ("Force Choke", "Force Insanity")

DESCRIBED = (
    Query("Q1", _SALARY),
    Query("Q2", _ADULT),
    Query("Q3", (*_ADULT, ("exists", "fax", None))),
    Query("Q4", (*_ADULT, ("exists", "pet", None), ("any", "pet", ("Penguin",)))),
    Query("Q5", (*_ADULT, ("exists", "jedi power", None), ("any", "jedi power", _DARK))),
)

# The published program names `pet` twice in one dict literal, so it sends only the last condition. It also asks for the key
# `jedi_power`, which is `jedi power` in the data, so it finds no person.
PUBLISHED = (
    *DESCRIBED[:3],
    Query("Q4", (*_ADULT, ("any", "pet", ("Penguin",)))),
    Query("Q5", (*_ADULT, ("exists", "jedi_power", None), ("any", "jedi_power", _DARK))),
)
