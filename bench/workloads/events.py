"""JSONBench: a million events of a social network in one table, and five queries that read all of them.

The queries run twice: without an index, and with the single index that JSONBench allows, over all fields of the queries.
CouchDB's protocol supports such queries only as views, which are indexes. There the queries run on views, and the first part is
unsupported. Events are generated slice by slice before each measured load, because a million of them need too much memory.
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
    """The stages for one number of events."""

    def __init__(self, count: int, rounds: int) -> None:
        self.about = {"workload": "events", "shape": "JSONBench", "size": count}
        self._count = count
        self._rounds = rounds
        self._events = Events(count)
        self._keys = keys(count)
        self._answers = Answers()
        self._slice: tuple[int, list[Row]] = (-1, [])

    def stages(self) -> list[Stage]:
        """The stages: the load in slices, size, queries, the index, its size, queries."""
        return [
            Stage("prepare", 1, lambda contestant, _: contestant.client.create(TABLE), record="prepared", null=True),
            Stage(LOAD, -(-self._count // SLICE), self._load, null=True),
            Stage("size", 1, lambda contestant, _: sizes(contestant, TABLE), record="size"),
            *(Stage(question.name, self._rounds, partial(self._ask, question, False)) for question in QUESTIONS),
            Stage(INDEX, 1, self._index),
            *(Stage(f"{question.name}, {INDEXED}", self._rounds, partial(self._ask, question, True)) for question in QUESTIONS),
        ]

    def _rows(self, number: int) -> list[Row]:
        """The rows of a slice, generated once for all targets. Its events are then added to the expected answers."""
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
            raise Unsupported("supports such queries only as views, which are indexes")
        return statements

    def _ask(self, question: Question, indexed: bool, contestant: Contestant, number: int) -> Fields:
        client = contestant.client
        statements = self._statements(question, client, indexed)
        answer: list[tuple] = []

        def work() -> int:
            # Work that a system leaves to its client is part of the query.
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
        # Maintenance updates the statistics, so that query planners use the new index.
        grown = sizes(contestant, TABLE)["maintained_bytes"]
        return [sample, {"record": "figure", "operation": f"size, {INDEXED}", "value": grown, "unit": "bytes"}]


def _names(*suffix: str) -> tuple[str, ...]:
    return tuple(", ".join((question.name, *suffix)) for question in QUESTIONS)


class EventsExperiment(Experiment):
    """The experiment, configured by the command line."""

    name = "events"
    title = "JSONBench"
    about = """
ClickHouse's JSONBench: its five queries over events in the format of Bluesky's Jetstream. The events are generated: 478 bytes of JSON
each, fourteen kinds of records, creates, updates and deletes, with users and shares as in the first million of the published data,
spread over one day. Q1 counts events by collection. Q2 also counts their distinct users. Q3 counts posts, reposts and likes by hour of the day. Q4 finds the three
users who posted first. Q5 finds the three users with the longest time between their first and last post. Each query
runs without an index, and again with one index over kind, operation, collection, user and time.
"""
    notes = """
- JSONBench publishes times of systems on a machine with 32 cores, for 1 million to 1,000 million real events, cold and hot. These times
  are hot, with one client, over generated events. Ratios between systems can be compared with the published ones; times cannot.
- CouchDB's protocol answers such queries only from views. The row of the index contains the time to build them. The client sorts by the
  counts, and this is part of the query.
- PostgreSQL with columns stores `commit`, which differs by the kind of record, as `jsonb`. JSONBench itself does not allow columns.
- Dates in MongoDB's pipelines have milliseconds, so answers to Q4 and Q5 are accepted if they are exact to the millisecond.
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
