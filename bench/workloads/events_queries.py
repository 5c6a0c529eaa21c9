"""JSONBench's five queries: as MongoDB's pipelines, in each SQL dialect, as CouchDB's views, and in plain Python for the right answers.

Q1 counts events by collection, Q2 also the different users of those that create something, Q3 counts posts, reposts and likes by hour
of the day, Q4 finds the three users who posted first, Q5 the three whose first and last post lie farthest apart. Statements are those
that JSONBench has for a system where it has any, and say the same elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from bench.workloads.events_data import LIKE, POST, REPOST

HOURLY = (POST, REPOST, LIKE)
HOUR_US = 3_600_000_000
FIRST = 3
TOLERANCE_US = 1_000  # MongoDB's dates have milliseconds, and events microseconds
EPOCH = datetime(1970, 1, 1)


class Answers:
    """The right answers, from the events one after another."""

    def __init__(self) -> None:
        self._all: Counter = Counter()
        self._created: Counter = Counter()
        self._users: dict[str, set[str]] = defaultdict(set)
        self._hours: Counter = Counter()
        self._posted: dict[str, tuple[int, int]] = {}

    def add(self, event: dict) -> None:
        """Takes one event into account."""
        commit = event.get("commit", {})
        collection, user, time_us = commit.get("collection"), event["did"], event["time_us"]
        self._all[collection] += 1
        if event["kind"] != "commit" or commit["operation"] != "create":
            return
        self._created[collection] += 1
        self._users[collection].add(user)
        if collection in HOURLY:
            self._hours[time_us // HOUR_US % 24, collection] += 1
        if collection == POST:
            first, last = self._posted.get(user, (time_us, time_us))
            self._posted[user] = (min(first, time_us), max(last, time_us))

    def check(self, name: str, found: list[tuple]) -> None:
        """An error if rows are not the right answer to a query. Equal counts may stand in any order, for the queries leave it open."""
        if name == "Q1":
            self._same(name, found, list(self._all.items()))
        elif name == "Q2":
            self._same(name, found, [(event, count, len(self._users[event])) for event, count in self._created.items()])
        elif name == "Q3":
            right = [(event, hour, count) for (hour, event), count in sorted(self._hours.items())]
            _require(name, found == right, found, right)
        elif name == "Q4":
            self._close(name, found, {user: first for user, (first, _) in self._posted.items()}, sign=1)
        else:
            self._close(name, found, {user: last - first for user, (first, last) in self._posted.items()}, sign=-1)

    @staticmethod
    def _same(name: str, found: list[tuple], right: list[tuple]) -> None:
        counts = [row[1] for row in found]
        _require(name, set(found) == set(right) and len(found) == len(right), found, right)
        _require(f"{name}'s order", counts == sorted(counts, reverse=True), found, right)

    @staticmethod
    def _close(name: str, found: list[tuple], values: dict[str, int], sign: int) -> None:
        """The first three by value; the users of each row must have the value that it tells."""
        right = sorted(values.items(), key=lambda item: sign * item[1])[:FIRST]
        users = {user for user, _ in found}
        close = all(abs(value - best) <= TOLERANCE_US for (_, value), (_, best) in zip(found, right))
        true = all(user in values and abs(values[user] - value) <= TOLERANCE_US for user, value in found)
        _require(name, len(users) == len(found) == len(right) and close and true, found, right)


def _require(what: str, holds: bool, found: list, right: list) -> None:
    if not holds:
        raise AssertionError(f"{what} is {found[:5]} ({len(found)} rows) where {right[:5]} ({len(right)} rows) is right")


def _microseconds(value: object) -> int:
    """A moment or a span, whatever a driver makes of it, in microseconds."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    return int(value)


@dataclass(frozen=True)
class Question:
    """One query: what it is called, its statement in each dialect, and how a dialect's rows become tuples, as `Answers` has them.

    A dialect in `indexed` is asked so where there is an index; the others are asked alike.
    """

    name: str
    statements: dict[str, object]
    rows: dict[str, Callable[[list], list[tuple]]] = field(default_factory=dict)
    indexed: dict[str, object] = field(default_factory=dict)

    def answer(self, dialect: str, found: list) -> list[tuple]:
        """What a client's `native` returned, as tuples."""
        return self.rows.get(dialect, self.rows["sql"])(found)


# MongoDB

_CREATED = {"kind": "commit", "commit.operation": "create"}
_POSTED = {"$match": {**_CREATED, "commit.collection": POST}}
_MOMENT = {"$toDate": {"$divide": ["$time_us", 1000]}}
_USER_AND_TIME = {"$project": {"user_id": "$did", "timestamp": _MOMENT}}

PIPELINES = {
    "Q1": [{"$group": {"_id": "$commit.collection", "count": {"$sum": 1}}}, {"$sort": {"count": -1}}],
    "Q2": [
        {"$match": _CREATED},
        {"$group": {"_id": "$commit.collection", "count": {"$sum": 1}, "users": {"$addToSet": "$did"}}},
        {"$project": {"event": "$_id", "count": 1, "users": {"$size": "$users"}}},
        {"$sort": {"count": -1}},
    ],
    "Q3": [
        {"$match": {**_CREATED, "commit.collection": {"$in": list(HOURLY)}}},
        {"$project": {"_id": 0, "event": "$commit.collection", "hour_of_day": {"$hour": _MOMENT}}},
        {"$group": {"_id": {"event": "$event", "hour_of_day": "$hour_of_day"}, "count": {"$sum": 1}}},
        {"$sort": {"_id.hour_of_day": 1, "_id.event": 1}},
    ],
    "Q4": [
        _POSTED,
        _USER_AND_TIME,
        {"$group": {"_id": "$user_id", "first_post_ts": {"$min": "$timestamp"}}},
        {"$sort": {"first_post_ts": 1}},
        {"$limit": FIRST},
    ],
    "Q5": [
        _POSTED,
        _USER_AND_TIME,
        {"$group": {"_id": "$user_id", "first": {"$min": "$timestamp"}, "last": {"$max": "$timestamp"}}},
        {"$project": {"activity_span": {"$dateDiff": {"startDate": "$first", "endDate": "$last", "unit": "millisecond"}}}},
        {"$sort": {"activity_span": -1}},
        {"$limit": FIRST},
    ],
}


# SQL


@dataclass(frozen=True)
class Sql:
    """How a dialect says what the queries are made of; `create` and `select` are the same in all of them."""

    event: str
    operation: str
    kind: str
    user: str
    time: str  # the event's time, as something that has a minimum
    hour: str
    span: str  # of `time`'s least and greatest
    select: str = "select"
    limit: str = f"limit {FIRST}"

    def statements(self) -> dict[str, str]:
        """The five queries."""
        created = f"{self.kind} = 'commit' and {self.operation} = 'create'"
        posted = f"{created} and {self.event} = '{POST}'"
        hourly = ", ".join(f"'{collection}'" for collection in HOURLY)
        table = TABLE_NAME
        return {
            "Q1": f"select {self.event} as event, count(*) as total from {table} group by {self.event} order by total desc",
            "Q2": (
                f"select {self.event} as event, count(*) as total, count(distinct {self.user}) as users from {table}"
                f" where {created} group by {self.event} order by total desc"
            ),
            "Q3": (
                f"select {self.event} as event, {self.hour} as hour_of_day, count(*) as total from {table}"
                f" where {created} and {self.event} in ({hourly}) group by {self.event}, {self.hour} order by hour_of_day, event"
            ),
            "Q4": (
                f"{self.select} {self.user} as user_id, min({self.time}) as first_post from {table}"
                f" where {posted} group by {self.user} order by first_post {self.limit}"
            ),
            "Q5": (
                f"{self.select} {self.user} as user_id, {self.span} as activity_span from {table}"
                f" where {posted} group by {self.user} order by activity_span desc {self.limit}"
            ),
        }

    def index(self) -> str:
        """Makes the index that JSONBench allows: on all that the queries ask for."""
        columns = ", ".join(f"({expression})" for expression in (self.kind, self.operation, self.event, self.user, self.time))
        return f"create index {TABLE_NAME}_all on {TABLE_NAME} ({columns})"


TABLE_NAME = "bluesky"


def _postgres(kind: str, user: str, time: str, commit: str) -> Sql:
    moment = f"to_timestamp({time} / 1000000.0)"
    return Sql(
        event=f"{commit} ->> 'collection'",
        operation=f"{commit} ->> 'operation'",
        kind=kind,
        user=user,
        time=moment,
        hour=f"extract(hour from {moment})",
        span=f"extract(epoch from max({moment}) - min({moment})) * 1000000",
    )


def _json(extract: str, hour: str, **more: str) -> Sql:
    """A dialect that has one function for a path in `doc`, and takes times as the numbers they are."""
    paths = dict(event="commit.collection", operation="commit.operation", kind="kind", user="did", time="time_us")
    said = {what: extract.format(path=f"$.{path}") for what, path in paths.items()}
    time = said["time"] = more.pop("time", "{}").format(said["time"])
    return Sql(**said, hour=hour.format(time=time), span=f"max({time}) - min({time})", **more)


DIALECTS = {
    "postgres-jsonb": _postgres("doc ->> 'kind'", "doc ->> 'did'", "(doc -> 'time_us')::bigint", "doc -> 'commit'"),
    "postgres": _postgres("kind", "did", "time_us", '"commit"'),
    "sqlite": _json("json_extract(doc, '{path}')", "{time} / 3600000000 % 24"),
}

INDEXES: dict[str, object] = {dialect: sql.index() for dialect, sql in DIALECTS.items()}
# In the order that MongoDB is told to index them in by JSONBench.
INDEXED_PATHS = ("kind", "commit.operation", "commit.collection", "did", "time_us")


# CouchDB: a view is kept and brought up to date; what a view cannot do, sort by what was counted, is left to the client.

_IF_CREATED = 'if (doc.kind === "commit" && doc.commit.operation === "create")'
_POSTS_BY_USER = {
    "map": f'function (doc) {{ {_IF_CREATED} if (doc.commit.collection === "{POST}") emit(doc.did, doc.time_us); }}',
    "reduce": "_stats",
    "options": {"group": True},
}
_HOURS = (
    f"function (doc) {{ {_IF_CREATED} if (['{POST}', '{REPOST}', '{LIKE}'].indexOf(doc.commit.collection) >= 0)"
    " emit([new Date(doc.time_us / 1000).getUTCHours(), doc.commit.collection], null); }"
)

VIEWS = {
    "Q1": {
        "map": "function (doc) { emit(doc.commit ? doc.commit.collection : null, null); }",
        "reduce": "_count",
        "options": {"group": True},
    },
    "Q2": {
        "map": f"function (doc) {{ {_IF_CREATED} emit([doc.commit.collection, doc.did], null); }}",
        "reduce": "_count",
        "options": {"group": True},
    },
    "Q3": {"map": _HOURS, "reduce": "_count", "options": {"group": True}},
    "Q4": _POSTS_BY_USER,
    "Q5": _POSTS_BY_USER,
}


def _by_count(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=lambda row: row[1], reverse=True)


def _collections_and_users(found: list) -> list[tuple]:
    totals: Counter = Counter()
    users: Counter = Counter()
    for row in found:
        totals[row["key"][0]] += row["value"]
        users[row["key"][0]] += 1
    return _by_count([(event, count, users[event]) for event, count in totals.items()])


# How rows become tuples, by query and dialect; "sql" is how all of SQL's do.
ROWS: dict[str, dict[str, Callable[[list], list[tuple]]]] = {
    "Q1": {
        "mongodb": lambda found: [(row["_id"], row["count"]) for row in found],
        "couchdb": lambda found: _by_count([(row["key"], row["value"]) for row in found]),
        "sql": lambda found: [tuple(row) for row in found],
    },
    "Q2": {
        "mongodb": lambda found: [(row["_id"], row["count"], row["users"]) for row in found],
        "couchdb": _collections_and_users,
        "sql": lambda found: [tuple(row) for row in found],
    },
    "Q3": {
        "mongodb": lambda found: [(row["_id"]["event"], row["_id"]["hour_of_day"], row["count"]) for row in found],
        "couchdb": lambda found: [(row["key"][1], row["key"][0], row["value"]) for row in found],
        "sql": lambda found: [(event, int(hour), count) for event, hour, count in found],
    },
    "Q4": {
        "mongodb": lambda found: [(row["_id"], _microseconds(row["first_post_ts"])) for row in found],
        "couchdb": lambda found: sorted(((row["key"], row["value"]["min"]) for row in found), key=lambda row: row[1])[:FIRST],
        "sql": lambda found: [(user, _microseconds(first)) for user, first in found],
    },
    "Q5": {
        "mongodb": lambda found: [(row["_id"], row["activity_span"] * 1000) for row in found],
        "couchdb": lambda found: _by_count([(row["key"], row["value"]["max"] - row["value"]["min"]) for row in found])[:FIRST],
        "sql": lambda found: [(user, _microseconds(span)) for user, span in found],
    },
}

QUESTIONS = tuple(
    Question(
        name,
        {"mongodb": PIPELINES[name], **{dialect: sql.statements()[name] for dialect, sql in DIALECTS.items()}},
        ROWS[name],
        {"couchdb": VIEWS[name]},
    )
    for name in PIPELINES
)
