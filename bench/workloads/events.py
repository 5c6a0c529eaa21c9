"""JSONBench: a million events of a social network in one table, and five queries that read all of them.

The queries run twice: over documents alone, and with the one index that JSONBench allows a system to have, over all that they ask
for. CouchDB's protocol has queries of this kind as views only, which are indexes, so there they run with them, and the first part is
not offered. Events are made slice by slice before each measured load, because a million of them do not lie in memory well.
"""

from functools import partial
from itertools import islice

from bench.data import INTEGER, NESTED, TEXT, Row, Table
from bench.exhibits import Bars
from bench.measure import Contestant, DataSet, Experiment, Fields, Stage, checked, repeated, sizes, stretch
from bench.targets.base import RELAXED, Client, Unsupported
from bench.workloads.events_data import Events
from bench.workloads.events_queries import INDEXED_PATHS, INDEXES, QUESTIONS, TABLE_NAME, VIEWS, Answers, Question
from bench.workloads.persons_data import keys

FIELDS = (("did", TEXT), ("time_us", INTEGER), ("kind", TEXT), ("commit", NESTED), ("identity", NESTED), ("account", NESTED))
TABLE = Table(TABLE_NAME, FIELDS)
PUBLISHED = 1_000_000
LEAST = 500
BATCH = 1_000
SLICE = 50_000
LOAD, INDEX, INDEXED = f"load, {BATCH:,} a command", "index", "indexed"


class Queries:
    """All stages over one number of events."""

    def __init__(self, count: int, rounds: int) -> None:
        self.about = {"workload": "events", "shape": "JSONBench", "size": count}
        self._count = count
        self._rounds = rounds
        self._events = Events(count)
        self._keys = keys(count)
        self._answers = Answers()
        self._slice: tuple[int, list[Row]] = (-1, [])

    def stages(self) -> list[Stage]:
        """The load in slices, size, queries, the index, its size, queries."""
        return [
            Stage("prepare", 1, lambda contestant, _: contestant.client.create(TABLE), record="prepared", null=True),
            Stage(LOAD, -(-self._count // SLICE), self._load, null=True),
            Stage("size", 1, lambda contestant, _: sizes(contestant, TABLE), record="size"),
            *(Stage(question.name, self._rounds, partial(self._ask, question, False)) for question in QUESTIONS),
            Stage(INDEX, 1, self._index),
            *(Stage(f"{question.name}, {INDEXED}", self._rounds, partial(self._ask, question, True)) for question in QUESTIONS),
        ]

    def _rows(self, number: int) -> list[Row]:
        """A slice's rows. Targets take the same slice in turn, so each is made once, and its events are taken into account then."""
        if number != self._slice[0]:
            start, end = number * SLICE, min((number + 1) * SLICE, self._count)
            rows = list(zip(self._keys[start:end], self._events.at(start, end)))
            for _, event in rows:
                self._answers.add(event)
            self._slice = (number, rows)
        return self._slice[1]

    def _load(self, contestant: Contestant, number: int) -> Fields:
        rows = self._rows(number)

        def work() -> None:
            remaining = iter(rows)
            while batch := list(islice(remaining, BATCH)):
                contestant.client.insert_many(TABLE, batch)

        return checked(stretch(contestant, len(rows), work), None)

    @staticmethod
    def _statements(question: Question, client: Client, indexed: bool) -> dict[str, object]:
        statements = {**question.statements, **(question.indexed if indexed else {})}
        if client.dialect in question.indexed and client.dialect not in statements:
            raise Unsupported("asks such questions of views only, which are indexes")
        return statements

    def _ask(self, question: Question, indexed: bool, contestant: Contestant, number: int) -> Fields:
        client = contestant.client
        statements = self._statements(question, client, indexed)
        answer: list[tuple] = []

        def work() -> int:
            # What a system leaves to its client belongs to the query.
            answer[:] = question.answer(client.dialect, client.native(TABLE, statements))
            return len(answer)

        if number == 0:
            work()
        sample = repeated(contestant, work)
        self._answers.check(question.name, answer)
        return checked(sample, len(answer))

    @staticmethod
    def _build_index(client: Client) -> None:
        if client.dialect == "mongodb":
            client.create_index(TABLE, *INDEXED_PATHS)
        elif client.dialect == "couchdb":
            for view in VIEWS.values():
                client.native(TABLE, {"couchdb": view})
        else:
            client.native(TABLE, INDEXES)

    def _index(self, contestant: Contestant, _round: int) -> Fields:
        sample = checked(stretch(contestant, self._count, lambda: self._build_index(contestant.client)), None)
        # What plans queries learns of a new index when it is told to look at the table again, which maintenance does.
        grown = sizes(contestant, TABLE)["maintained_bytes"]
        return [sample, {"record": "figure", "operation": f"size, {INDEXED}", "value": grown, "unit": "bytes"}]


def _names(*suffix: str) -> tuple[str, ...]:
    return tuple(", ".join((question.name, *suffix)) for question in QUESTIONS)


class EventsExperiment(Experiment):
    """The whole experiment."""

    name = "events"
    title = "JSONBench"
    about = """
ClickHouse's JSONBench: its five queries over events as Bluesky's Jetstream tells them, here generated: 478 bytes of JSON each, fourteen
kinds of records, creates, updates and deletes, users and shares as in the first million of the published data, one day of them. Q1
counts events by collection; Q2 also their different users; Q3 counts posts, reposts and likes by hour of the day; Q4 finds the three
who posted first; Q5 the three longest between their first and last post. Each query runs over the documents alone, and again with one
index over kind, operation, collection, user and time.
"""
    notes = """
- JSONBench publishes times of whole systems on a machine of 32 cores, for 1 million to 1,000 million real events, cold and hot; these
  are hot, one client, over generated events. Ratios between systems can stand beside the published ones; times cannot.
- CouchDB's protocol answers such queries from views only; building them is the row of the index. Sorting by what was counted is left
  to the client there, and part of the query.
- PostgreSQL with columns keeps `commit`, which differs by the kind of record, as `jsonb`; JSONBench itself allows no such columns.
- Dates in MongoDB's pipelines have milliseconds, so Q4 and Q5 are held right within one.
"""
    charts = (
        Bars("JSONBench: the queries without an index", operations=_names()),
        Bars("JSONBench: the queries with an index", operations=_names(INDEXED)),
        Bars("JSONBench: the server's CPU time without an index", operations=_names(), measure="server_cpu_seconds"),
        Bars("JSONBench: load and index, a document", operations=(LOAD, INDEX)),
    )
    whole = tuple(question.name for question in QUESTIONS)

    def _make(self, count: int) -> tuple[dict, list[Stage]]:
        queries = Queries(count, self.rounds)
        return queries.about, queries.stages()

    def data_sets(self) -> list[DataSet]:
        count = self.scaled(PUBLISHED, LEAST)
        return [DataSet(f"{count:,} events", RELAXED, partial(self._make, count))]
