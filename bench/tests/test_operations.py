"""Every operation of every client whose system can be started, compared with a Python model."""

import contextlib
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bench.data import ALL, DATE, FLOAT, INTEGER, NESTED, TEXT, Key, Query, Row, Table, plain
from bench.measure import Contestant, concurrent
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.workloads.persons import FIELDS, SCRATCH, SHARED, _insert_share
from bench.workloads.persons_data import DESCRIBED, PUBLISHED, keys, persons

TABLE = Table("things", (("name", TEXT), ("n", INTEGER), ("share", FLOAT), ("made at", DATE), ("tags", NESTED), ("Nest", NESTED)))
START = datetime(2024, 2, 28, 23, 59, 59, 123000, UTC)
WORDS = ("a", "B", "zürich", "it's", 'say "x"', "50%", "back\\slash", "", "数")

KEYS = {
    bytes: [bytes([4, number]) + b"\0'%\\\xff______" for number in range(60)],
    str: [f"key {number:03d}'é" for number in range(60)],
    int: [number * 7 - 100 for number in range(60)],
}

QUERIES = (
    ALL,
    Query("equals", (("equals", "name", "it's"),)),
    Query("range", (("above", "n", -20), ("at most", "n", 50))),
    Query("share", (("at least", "share", 0.25), ("below", "share", 0.75))),
    Query("dates", (("at least", "made at", START + timedelta(hours=5)), ("below", "made at", START + timedelta(hours=30)))),
    Query("exists", (("exists", "tags", None), ("exists", "name", None))),
    Query("either", (("any", "name", ("B", "zürich")),)),
    Query("numbers", (("any", "n", (3, 5, 8)),)),
    Query("tagged", (("any", "tags", ("B", "50%")),)),
    Query("absent", (("any", "nowhere", ("x",)),)),
    Query("some", (("exists", "n", None),), fields=("n", "name"), order="n"),
    Query("first", (("equals", "name", "B"), ("exists", "made at", None)), fields=("made at",), order="made at", limit=3),
    Query("few", (("exists", "name", None),), limit=5),
    Query("last", (("above", "n", 0),), order="n", limit=4),
)


class Model:
    """A model of the operations."""

    def __init__(self) -> None:
        self.documents: dict[Key, dict] = {}

    def matching(self, query: Query) -> list[dict]:
        found = [document for document in self.documents.values() if query.matches(document)]
        if query.order:
            found.sort(key=lambda document: document[query.order])
        return found[: query.limit]

    def delete(self, query: Query) -> int:
        gone = [key for key, document in self.documents.items() if query.matches(document)]
        for key in gone:
            del self.documents[key]
        return len(gone)


def value(draws: random.Random, kind: str) -> object:
    word = draws.choice(WORDS)
    if kind == NESTED:
        return draws.choice(([word, draws.choice(WORDS)], word))
    made = {TEXT: word, INTEGER: draws.randint(-100, 100), FLOAT: round(draws.random(), 6), DATE: START + timedelta(hours=draws.randint(0, 50))}
    return made[kind]


def thing(draws: random.Random) -> dict:
    document = {field: value(draws, kind) for field, kind in TABLE.fields if draws.random() < 0.8}
    if "Nest" in document:
        document["Nest"] = {"deep": [{"er": value(draws, TEXT)}, 1.5, True], "n": 2**40}
    return document


def shown(item, query: Query) -> dict:
    """The query's fields of the rows that a client's `find` returned."""
    found = item if isinstance(item, dict) else dict(zip(query.fields, item[1:]))
    return {field: plain(found[field]) for field in query.fields if found.get(field) is not None}


def compare(client, table: Table, model: Model, query: Query) -> None:
    """Compares a query's count and rows. Rows with equal sort values may have any order."""
    expected = model.matching(query)
    if not query.limit:
        assert client.count(table, query) == len(expected), query
    found = list(client.find(table, query))
    assert len(found) == len(expected), query
    told = [shown(item, query) for item in found]
    right = [{field: plain(document[field]) for field in query.fields if field in document} for document in expected]
    if query.order and query.fields:
        assert [one[query.order] for one in told] == [one[query.order] for one in right], query
    if not query.limit:
        assert sorted(map(str, told)) == sorted(map(str, right)), query


class Life:
    """Runs random operations on a table and on the model. An unsupported operation is left out after its first failure."""

    def __init__(self, client, table: Table, draws: random.Random) -> None:
        self.client, self.table, self.draws, self.model = client, table, draws, Model()
        self.fresh = draws.sample(KEYS[table.key], len(KEYS[table.key]))
        self.missing: set[str] = set()
        client.create(table)

    def run(self, steps: int) -> None:
        operations = (self.insert, self.insert_some, self.read, self.update, self.update, self.delete, self.delete_some, self.ask, self.ask)
        for _ in range(steps):
            operation = self.draws.choice(operations)
            if operation.__name__ not in self.missing:
                self.attempt(operation)
        for key in KEYS[self.table.key]:
            self.read(key)

    def attempt(self, operation, *arguments) -> None:
        try:
            operation(*arguments)
        except Unsupported:
            self.missing.add(operation.__name__)

    def present(self) -> Key | None:
        return self.draws.choice(sorted(self.model.documents)) if self.model.documents else None

    def rows(self, count: int) -> list[Row]:
        return [(self.fresh.pop(), thing(self.draws)) for _ in range(min(count, len(self.fresh)))]

    def insert(self) -> None:
        for row in self.rows(1):
            self.client.insert_one(self.table, row)
            self.model.documents.update([row])

    def insert_some(self) -> None:
        if rows := self.rows(self.draws.randint(1, 9)):
            self.client.insert_many(self.table, rows)
            self.model.documents.update(rows)

    def read(self, key: Key | None = None) -> None:
        key = key or self.draws.choice(KEYS[self.table.key])
        assert plain(self.client.find_by_id(self.table, key)) == plain(self.model.documents.get(key))

    def update(self) -> None:
        if (key := self.present()) is not None:
            field, kind = self.draws.choice(self.table.fields)
            new = value(self.draws, kind)
            self.client.update_field(self.table, key, field, new)
            self.model.documents[key] = {**self.model.documents[key], field: new}
            self.read(key)

    def delete(self) -> None:
        if (key := self.present()) is not None:
            self.client.delete_one(self.table, key)
            del self.model.documents[key]
            self.fresh.insert(0, key)
            self.read(key)

    def delete_some(self) -> None:
        query = self.draws.choice([query for query in QUERIES if query.conditions and not query.limit])
        if self.draws.random() < 0.3:
            expected = self.model.matching(query)
            assert self.client.delete_many(self.table, query) == len(expected), query
            self.fresh += [key for key in sorted(self.model.documents) if query.matches(self.model.documents[key])]
            self.model.delete(query)

    def ask(self) -> None:
        compare(self.client, self.table, self.model, self.draws.choice(QUERIES))

    def read_on(self, start: Key) -> None:
        following = sum(key >= start for key in self.model.documents)
        for limit in (3, 1000):
            assert self.client.read_range(self.table, start, limit) == min(limit, following)


@pytest.fixture
def client(system):
    """A connection."""
    client = system.connector(RELAXED)()
    yield client
    client.close()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.__name__)
def test_random_operations_match_the_model(client, key):
    life = Life(client, replace(TABLE, key=key), random.Random(7))
    life.run(100)
    for fields in (("n",), ("name", "made at"), ("tags",), ("share",)):
        life.attempt(client.create_index, life.table, *fields)
    life.run(100)
    for query in QUERIES:
        life.attempt(compare, client, life.table, life.model, query)
    start = KEYS[key][20]
    life.attempt(life.read_on, start)
    assert client.maintain(life.table)
    assert client.table_bytes(life.table) is None or client.table_bytes(life.table) > 0
    client.create(life.table)
    assert client.find_by_id(life.table, start) is None
    client.drop(life.table)


def test_writes_to_absent_documents_raise(client, system):
    client.create(TABLE)
    client.insert_one(TABLE, (KEYS[bytes][0], {"n": 1}))
    # Over HTTP the answer to a relaxed insert (batch=ok) does not say whether the document already existed.
    taken = contextlib.nullcontext() if system.name == "diwan-http" else pytest.raises(Exception)
    with taken:
        client.insert_one(TABLE, (KEYS[bytes][0], {"n": 2}))
    with pytest.raises(Exception):
        client.update_field(TABLE, KEYS[bytes][1], "n", 2)
    with pytest.raises(Exception):
        client.delete_one(TABLE, KEYS[bytes][1])
    if system.name != "redis":  # its client learns only afterwards that the document already existed
        assert client.find_by_id(TABLE, KEYS[bytes][0]) == {"n": 1}
    client.drop(TABLE)


def test_tables_with_their_own_database_are_separate(client):
    tables = [replace(TABLE, database=f"customer_{number}") for number in range(3)]
    for number, table in enumerate(tables):
        client.create(table)
        client.insert_many(table, [(key, {"n": number}) for key in KEYS[bytes][: number + 1]])
    client.drop(tables[0])
    client.create(tables[0])
    held = [[client.find_by_id(table, key) for key in KEYS[bytes][:3]] for table in tables]
    assert held == [[None] * 3, [{"n": 1}, {"n": 1}, None], [{"n": 2}] * 3]
    for table in tables:
        client.drop(table)


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_person_queries_match_the_model(client, shape):
    table = Table("people", FIELDS)
    rows = list(zip(keys(2_000), persons(2_000, shape)))
    client.create(table)
    client.insert_many(table, rows)
    try:
        for query in (*DESCRIBED, *PUBLISHED):
            expected = sum(query.matches(person) for _, person in rows)
            assert client.count(table, query) == expected, query
            assert sum(1 for _ in client.find(table, query)) == expected, query
    except Unsupported as reason:
        pytest.skip(str(reason))
    finally:
        client.drop(table)


def test_concurrent_clients_insert_all_rows(system):
    contestant = Contestant(system, SYNCED if SYNCED in system.durability else RELAXED)
    contestant.client.create(SHARED)
    contestant.client.create(SCRATCH)
    rows = list(zip(keys(200), persons(200, "flat")))
    try:
        sample = concurrent(contestant, 4, rows, _insert_share)
    except Unsupported as reason:
        contestant.client.close()
        pytest.skip(str(reason))
    assert sample.operations == 200 and sample.wall_seconds > 0
    assert all(contestant.client.find_by_id(SHARED, key) for key, _ in rows)
    # The rows already exist: the failure of every client must reach the caller.
    with pytest.raises(RuntimeError, match="4 of 4 clients failed"):
        concurrent(contestant, 4, rows, _insert_share)
    contestant.client.close()
