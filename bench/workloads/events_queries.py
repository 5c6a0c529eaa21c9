"""JSONBench's five queries: as MongoDB pipelines, in each SQL dialect, as CouchDB views, and in plain Python for the expected answers.

Q1 counts events by collection. Q2 does so for creations and also counts their distinct users. Q3 counts posts, reposts and likes by hour
of the day. Q4 finds the three users who posted first. Q5 finds the three users with the longest time between first and last post. If JSONBench has
statements for a system, they are used; other systems have equivalent ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bench.workloads.events_data import LIKE, POST, REPOST

TABLE_NAME = "bluesky"
HOURLY = (POST, REPOST, LIKE)
HOUR_US = 3_600_000_000
FIRST = 3
TOLERANCE_US = 1_000  # MongoDB's dates have milliseconds; events have microseconds
EPOCH = datetime(1970, 1, 1)


class Answers:
    """Computes the expected answers from the events, one event at a time."""

    def __init__(self) -> None:
        self._all: Counter = Counter()
        self._created: Counter = Counter()
        self._users: dict[str, set[str]] = defaultdict(set)
        self._hours: Counter = Counter()
        self._posted: dict[str, tuple[int, int]] = {}

    def add(self, event: dict) -> None:
        """Adds one event."""
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
        """Raises an error if rows are not the expected answer to a query. The order of rows with equal counts is free."""
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
        """Checks the first three rows by value. The user of each row must have the row's value."""
        right = sorted(values.items(), key=lambda item: sign * item[1])[:FIRST]
        users = {user for user, _ in found}
        close = all(abs(value - best) <= TOLERANCE_US for (_, value), (_, best) in zip(found, right))
        true = all(user in values and abs(values[user] - value) <= TOLERANCE_US for user, value in found)
        _require(name, len(users) == len(found) == len(right) and close and true, found, right)


def _require(what: str, holds: bool, found: list, right: list) -> None:
    if not holds:
        raise AssertionError(f"{what} is {found[:5]} ({len(found)} rows), expected {right[:5]} ({len(right)} rows)")


def _microseconds(value: object) -> int:
    """A time or a time span in any type that a driver returns, in microseconds."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    return int(value)


@dataclass(frozen=True)
class Question:
    """One query: its name, its statement in each dialect, and the conversion of a dialect's rows to the tuples of `Answers`.

    `indexed` contains the dialects that need another statement if there is an index.
    """

    name: str
    statements: dict[str, object]
    indexed: dict[str, object]
    rows: dict[str, Callable[[list], list[tuple]]]

    def answer(self, dialect: str, found: list) -> list[tuple]:
        """The result of a client's `native`, as tuples."""
        return self.rows[dialect if dialect in self.rows else "sql"](found)


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
    """The parts of the queries that differ between SQL dialects."""

    event: str
    operation: str
    kind: str
    user: str
    time: str  # the event's time, in a type that has a minimum
    hour: str  # of `time`, which is inserted at the braces
    span: str = "max({time}) - min({time})"
    source: str = TABLE_NAME

    def statements(self) -> dict[str, str]:
        """The five queries."""
        created = f"{self.kind} = 'commit' and {self.operation} = 'create'"
        posted = f"{created} and {self.event} = '{POST}'"
        hourly = ", ".join(f"'{collection}'" for collection in HOURLY)
        hour, span = (text.format(time=self.time) for text in (self.hour, self.span))
        return {
            "Q1": f"select {self.event} as event, count(*) as total from {self.source} group by {self.event} order by total desc",
            "Q2": (
                f"select {self.event} as event, count(*) as total, count(distinct {self.user}) as persons from {self.source}"
                f" where {created} group by {self.event} order by total desc"
            ),
            "Q3": (
                f"select {self.event} as event, {hour} as hour_of_day, count(*) as total from {self.source}"
                f" where {created} and {self.event} in ({hourly}) group by {self.event}, {hour} order by hour_of_day, event"
            ),
            "Q4": (
                f"select {self.user} as person, min({self.time}) as first_post from {self.source}"
                f" where {posted} group by {self.user} order by first_post limit {FIRST}"
            ),
            "Q5": (
                f"select {self.user} as person, {span} as activity_span from {self.source}"
                f" where {posted} group by {self.user} order by activity_span desc limit {FIRST}"
            ),
        }

    def index(self) -> str:
        """Creates the index that JSONBench allows, on all fields of the queries."""
        columns = ", ".join(f"({expression})" for expression in (self.kind, self.operation, self.event, self.user, self.time))
        return f"create index {TABLE_NAME}_all on {TABLE_NAME} ({columns})"

    def with_columns(self) -> tuple[str, "Sql"]:
        """The same for a system that can index only columns: adds virtual columns, and uses them in the queries."""
        types = {"kind": "varchar(16)", "operation": "varchar(16)", "event": "varchar(64)", "user": "varchar(64)", "time": "bigint"}
        columns = {name: f"the_{name}" for name in types}
        made = [f"add column {columns[name]} {kind} as ({getattr(self, name)}) virtual" for name, kind in types.items()]
        altered = f"alter table {TABLE_NAME} {', '.join(made)}, add index {TABLE_NAME}_all ({', '.join(columns.values())})"
        return altered, replace(self, **columns)


def _postgres(kind: str, user: str, time: str, commit: str) -> Sql:
    return Sql(
        event=f"{commit} ->> 'collection'",
        operation=f"{commit} ->> 'operation'",
        kind=kind,
        user=user,
        time=f"to_timestamp({time} / 1000000.0)",
        hour="extract(hour from {time})",
        span="extract(epoch from max({time}) - min({time})) * 1000000",
    )


def _mysql(kind: str, user: str, time: str, commit: str) -> Sql:
    # Texts without a length limit would be grouped on disk.
    text = "cast({} as char(64))".format
    return Sql(
        event=text(f"json_value({commit}.collection')"),
        operation=text(f"json_value({commit}.operation')"),
        kind=text(kind),
        user=text(user),
        time=time,
        hour="{time} div 3600000000 % 24",
    )


DIALECTS = {
    "postgres-jsonb": _postgres("doc ->> 'kind'", "doc ->> 'did'", "(doc -> 'time_us')::bigint", "doc -> 'commit'"),
    "postgres": _postgres("kind", "did", "time_us", '"commit"'),
    "mysql-json": _mysql("kind", "did", "time_us", "doc, '$.commit"),
    "mysql": _mysql("kind", "did", "time_us", "`commit`, '$"),
    "sqlite": Sql(
        event="json_extract(doc, '$.commit.collection')",
        operation="json_extract(doc, '$.commit.operation')",
        kind="json_extract(doc, '$.kind')",
        user="json_extract(doc, '$.did')",
        time="json_extract(doc, '$.time_us')",
        hour="{time} / 3600000000 % 24",
    ),
    "sql++": Sql(
        event="doc.`commit`.collection",
        operation="doc.`commit`.operation",
        kind="doc.kind",
        user="doc.did",
        time="doc.time_us",
        hour="idiv({time}, 3600000000) % 24",
        source=f"{TABLE_NAME} as doc",
    ),
}
_WITH_COLUMNS = {dialect: DIALECTS[dialect].with_columns() for dialect in ("mysql-json", "mysql")}

INDEXES: dict[str, object] = {
    **{dialect: sql.index() for dialect, sql in DIALECTS.items()},
    **{dialect: altered for dialect, (altered, _) in _WITH_COLUMNS.items()},
    "sql++": f"create index {TABLE_NAME}_all on {TABLE_NAME}(kind, `commit`.operation, `commit`.collection, did, time_us)",
}
# The field order of JSONBench's index for MongoDB.
INDEXED_PATHS = ("kind", "commit.operation", "commit.collection", "did", "time_us")


# CouchDB: a view is stored and kept up to date. A view cannot sort by counts, so the client does.

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


def _named(*names: str) -> Callable[[list], list[tuple]]:
    # A field that no document of a group has is missing in its row.
    return lambda found: [tuple(row.get(name) for name in names) for row in found]


def _moments(found: list) -> list[tuple]:
    return [(user, _microseconds(value)) for user, value in found]


# The conversion of rows to tuples, by query and dialect; "sql" applies to dialects without an entry.
ROWS: dict[str, dict[str, Callable[[list], list[tuple]]]] = {
    "Q1": {
        "mongodb": _named("_id", "count"),
        "couchdb": lambda found: _by_count([(row["key"], row["value"]) for row in found]),
        "sql++": _named("event", "total"),
        "sql": lambda found: [tuple(row) for row in found],
    },
    "Q2": {
        "mongodb": _named("_id", "count", "users"),
        "couchdb": _collections_and_users,
        "sql++": _named("event", "total", "persons"),
        "sql": lambda found: [tuple(row) for row in found],
    },
    "Q3": {
        "mongodb": lambda found: [(row["_id"]["event"], row["_id"]["hour_of_day"], row["count"]) for row in found],
        "couchdb": lambda found: [(row["key"][1], row["key"][0], row["value"]) for row in found],
        "sql++": _named("event", "hour_of_day", "total"),
        "sql": lambda found: [(event, int(hour), count) for event, hour, count in found],
    },
    "Q4": {
        "mongodb": lambda found: _moments([(row["_id"], row["first_post_ts"]) for row in found]),
        "couchdb": lambda found: sorted(((row["key"], row["value"]["min"]) for row in found), key=lambda row: row[1])[:FIRST],
        "sql++": _named("person", "first_post"),
        "sql": _moments,
    },
    "Q5": {
        "mongodb": lambda found: [(row["_id"], row["activity_span"] * 1_000) for row in found],
        "couchdb": lambda found: _by_count([(row["key"], row["value"]["max"] - row["value"]["min"]) for row in found])[:FIRST],
        "sql++": _named("person", "activity_span"),
        "sql": _moments,
    },
}

QUESTIONS = tuple(
    Question(
        name,
        statements={"mongodb": PIPELINES[name], **{dialect: sql.statements()[name] for dialect, sql in DIALECTS.items()}},
        indexed={"couchdb": VIEWS[name], **{dialect: sql.statements()[name] for dialect, (_, sql) in _WITH_COLUMNS.items()}},
        rows=ROWS[name],
    )
    for name in PIPELINES
)
