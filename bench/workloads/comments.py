"""Experiment R, comments: create, update, read and delete, on a single instance and on an instance with a replica.

A batch inserts comments of 1 KB, one per call, updates the content of each by its id, selects those of one article, and deletes each by
its id. Batches are repeated with different ids. With a replica, the measured time of inserts, updates and deletes ends when the replica
has caught up. A check that the replica has the same documents follows outside the measured time.
"""

import json
import random
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b

from bench.data import ALL, DATE, TEXT, Query, Row, Table, plain
from bench.exhibits import BySize, Published, Quotient
from bench.measure import Contestant, DataSet, Experiment, Stage, checked, repeated, stretch
from bench.options import positive
from bench.targets import Client
from bench.targets.base import RELAXED, SYNCED
from bench.workloads.persons_data import keys

TABLE = Table(
    "comments",
    (("article_id", TEXT), ("author", TEXT), ("email", TEXT), ("created_at", DATE), ("title", TEXT), ("content", TEXT)),
)
SIZES = (1_000, 10_000, 100_000)
SINGLE, REPLICATED = "one instance", "with a replica"
COMMENTS_OF_AN_ARTICLE = 100
WARMING = 50
CONTENT = 800  # about 1 KB of BSON together with the other fields

Work = Callable[[], None]
SYLLABLES = "ba be bri ca cre do du el fa gra hu in ka le lo ma mi na no or pa plu qui ra ri sa sta te ti tor un ve wa za".split()


def _text(size: int) -> str:
    """Words of a made-up vocabulary, about as compressible as prose."""
    draw = random.Random(51)
    vocabulary = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(3_000)]
    # A few words make up most of a text.
    words = draw.choices(vocabulary, [1 / rank for rank in range(1, len(vocabulary) + 1)], k=size // 3)
    return " ".join(words)[:size]


class Contents:
    """Contents of comments: pieces of one long text. The same number always gives the same content."""

    def __init__(self) -> None:
        self._text = _text(1 << 20)

    def of(self, number: int) -> str:
        """The content with a number."""
        start = number * 7919 % (len(self._text) - CONTENT)
        return self._text[start : start + CONTENT]


def article(number: int) -> str:
    """An article's id."""
    return f"51c83b56{number:016x}"


def comments(count: int, contents: Contents) -> list[dict]:
    """Documents as in the paper's example. Article ids are texts, because not every system has ObjectIds."""
    articles = max(1, count // COMMENTS_OF_AN_ARTICLE)
    begin = datetime(2013, 6, 24, 12, 47, 1, 308_000)
    return [
        {
            "article_id": article(number % articles),
            "author": f"utilizator{number}",
            "email": f"utilizator{number}@email.com",
            "created_at": begin + timedelta(seconds=number),
            "title": f"title{number}",
            "content": contents.of(number),
        }
        for number in range(count)
    ]


def fingerprint(client: Client) -> tuple[int, int]:
    """The number of documents of a table, and an order-independent checksum to compare two tables."""
    found, total = 0, 0
    for one in client.find(TABLE, ALL):
        text = json.dumps(plain(one), sort_keys=True, default=repr)
        total += int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        found += 1
    return found, total


class Batches:
    """The stages over one number of comments."""

    def __init__(self, size: int, batches: int, replicated: bool) -> None:
        self.about = {"workload": "comments", "shape": REPLICATED if replicated else SINGLE, "size": size}
        self._replicated = replicated
        self._batches = batches
        self._contents = Contents()
        self._documents = comments(size, self._contents)
        self._keys = keys(size * batches)
        self._wanted = Query("of an article", (("equals", "article_id", article(0)),))
        self._expected = sum(map(self._wanted.matches, self._documents))
        self._writes = {"insert": self._inserts, "update": self._updates, "delete": self._deletes}

    def stages(self) -> list[Stage]:
        """Creates the table, starts a replica if required, then runs the batches."""
        stages = [Stage("prepare", 1, self._prepare, record="prepared", null=True)]
        for batch in range(self._batches):
            for operation in ("insert", "update"):
                stages.append(Stage(operation, 1, partial(self._write, operation, batch), null=True))
            # As published: only the first machine reads, also with a replica.
            if not self._replicated:
                stages.append(Stage("select", 1, self._select, null=True))
            stages.append(Stage("delete", 1, partial(self._write, "delete", batch), null=True))
        return stages

    def _prepare(self, contestant: Contestant, _round: int) -> dict:
        contestant.client.create(TABLE)
        if self._is_followed(contestant):
            directory = contestant.directory / "replica"
            directory.mkdir()
            contestant.target.start_replica(directory, [TABLE])
            contestant.target.await_replica()
        warming = [(b"warm" + key[4:], document) for key, document in zip(self._keys[:WARMING], self._documents)]
        for prepare in self._writes.values():
            prepare(contestant.client, warming)()
        return {}

    def _is_followed(self, contestant: Contestant) -> bool:
        # A null server measures the client's loop, which is the same with a replica.
        return self._replicated and contestant.target.kind != "null"

    def _inserts(self, client: Client, rows: list[Row]) -> Work:
        def work() -> None:
            for row in rows:
                client.insert_one(TABLE, row)

        return work

    def _updates(self, client: Client, rows: list[Row]) -> Work:
        changes = [(key, self._contents.of(number)) for number, (key, _) in enumerate(rows, len(rows))]

        def work() -> None:
            for key, content in changes:
                client.update_field(TABLE, key, "content", content)

        return work

    def _deletes(self, client: Client, rows: list[Row]) -> Work:
        def work() -> None:
            for key, _ in rows:
                client.delete_one(TABLE, key)

        return work

    def _write(self, operation: str, batch: int, contestant: Contestant, _round: int) -> list[dict]:
        """A sample of one kind of write. With a replica also the time from the last acknowledgement until the replica has all writes."""
        size = len(self._documents)
        work = self._writes[operation](contestant.client, list(zip(self._keys[batch * size :], self._documents)))
        if not self._is_followed(contestant):
            return [checked(stretch(contestant, size, work), None)]
        lag = 0.0

        def followed() -> None:
            nonlocal lag
            work()
            acknowledged = time.perf_counter()
            contestant.target.await_replica()
            lag = time.perf_counter() - acknowledged

        sample = stretch(contestant, size, followed)
        self._compare(contestant, 0 if operation == "delete" else size)
        figure = {"record": "figure", "operation": f"{operation}, lag of the replica at the end", "value": lag, "unit": "s"}
        return [checked(sample, None), figure]

    @staticmethod
    def _compare(contestant: Contestant, left: int) -> None:
        replica = contestant.target.replica_connector()()
        try:
            here, there = fingerprint(contestant.client), fingerprint(replica)
        finally:
            replica.close()
        if here[0] != left:
            raise AssertionError(f"the instance contains {here[0]} documents, expected {left}")
        if here != there:
            raise AssertionError(f"the {there[0]} documents of the replica differ from the {here[0]} of the instance")

    def _select(self, contestant: Contestant, _round: int) -> dict:
        client = contestant.client
        expected = None if contestant.target.kind == "null" else self._expected

        def work() -> int:
            return sum(1 for _ in client.find(TABLE, self._wanted))

        work()
        return checked(repeated(contestant, work), expected)


def _published(number: str, operation: str, shape: str, rows: dict[str, tuple[float, float, float]]) -> Published:
    return Published(
        source=f"table {number}: {operation}, {shape}",
        unit="ms",
        figures={system: dict(zip(SIZES, figures)) for system, figures in rows.items()},
        operation=operation,
        reference="MongoDB 2.4",
        today=TODAY,
        shape=shape,
        durability=RELAXED,
        remark=BULK if operation != "select" else WHOLE,
    )


TODAY = {
    "SQL Server 2012": "sqlserver",
    "MySQL 5.5": "mariadb",
    "PostgreSQL 9.1": "postgres-relational",
    "MongoDB 2.4": "mongodb",
    "CouchDB 1.5": "couchdb",
    "Couchbase 2.2": "couchbase",
}
BULK = "CouchDB's 1.4 µs per document cannot be separate HTTP requests: its writes were sent in bulk. Here each is a request."
WHOLE = "One query that returns the comments of one article. Their number is not published; here there are 100."


class Comments(Experiment):
    """The experiment, configured by the command line."""

    name = "comments"
    title = "R. Replicated comments"
    about = """
A batch inserts comments of 1 KB, one per call from one client, updates the content of each by its id, selects the comments of one article
(100, without an index), and deletes each by its id. With an asynchronous replica (a second instance on this machine), the measured time of each
kind of write ends when the system reports that the replica has caught up. A check that both instances have the same documents follows outside the
measured time.
"""
    notes = """
- The paper ran master and replica on separate machines. Here they share the cores with the client, so the CPU time of a replica also increases
  wall time. The server CPU shown is that of the followed instance only.
- Published price of replication (replicated ÷ single) of 100,000 inserts: MongoDB 3.7, CouchDB 1.5, PostgreSQL 1.3, MySQL 3.7,
  Couchbase 1.0.
- PostgreSQL's relaxed commits reach a standby only when the log is written, up to 0.6 s later, independent of their number. With few
  documents this wait is most of the time with a replica, and the price of replication is not meaningful. The report also shows the lag at the end of
  each batch.
- Relational systems and MongoDB update a field in place. Over HTTP an update is a read and a write, and a delete reads the revision
  first.
- The paper repeated each batch 50 times; here `--batches` sets the number. SQL Server's replicated figures were published as
  whole seconds.
"""
    published = (
        _published(
            "II",
            "insert",
            SINGLE,
            {
                "SQL Server 2012": (530.1, 5516.2, 51075.7),
                "MySQL 5.5": (757.1, 7326.4, 76705.7),
                "PostgreSQL 9.1": (80.9, 798.7, 10476.7),
                "MongoDB 2.4": (54.9, 533.8, 5282.5),
                "CouchDB 1.5": (1.39, 19.7, 141.95),
                "Couchbase 2.2": (77.5, 783.67, 9188.13),
            },
        ),
        _published(
            "III",
            "insert",
            REPLICATED,
            {
                "SQL Server 2012": (1000, 3000, 28000),
                "MySQL 5.5": (2438.5, 25465.1, 286934.4),
                "PostgreSQL 9.1": (111.2, 1191.3, 13429.1),
                "MongoDB 2.4": (86.7, 914, 19532.3),
                "CouchDB 1.5": (2.47, 22.25, 215.55),
                "Couchbase 2.2": (77.59, 783.67, 9188.13),
            },
        ),
        _published(
            "IV",
            "update",
            SINGLE,
            {
                "SQL Server 2012": (36.1, 286.5, 2764.8),
                "MySQL 5.5": (87.7, 1264, 10620.5),
                "PostgreSQL 9.1": (77.3, 2385.2, 25421.5),
                "MongoDB 2.4": (17.3, 265.4, 2875.9),
                "CouchDB 1.5": (1.56, 18.64, 266.68),
                "Couchbase 2.2": (73.16, 731.39, 10414.85),
            },
        ),
        _published(
            "V",
            "update",
            REPLICATED,
            {
                "SQL Server 2012": (2000, 5000, 55000),
                "MySQL 5.5": (467.3, 6265.4, 62396),
                "PostgreSQL 9.1": (88.9, 3932.5, 42020.3),
                "MongoDB 2.4": (54.4, 583.2, 9741.7),
                "CouchDB 1.5": (2.64, 22.96, 391.55),
                "Couchbase 2.2": (79.6, 779.01, 10737.05),
            },
        ),
        _published(
            "VI",
            "delete",
            SINGLE,
            {
                "SQL Server 2012": (127, 482.9, 5715.4),
                "MySQL 5.5": (78.3, 825.8, 18794.4),
                "PostgreSQL 9.1": (35.5, 582.6, 11479.8),
                "MongoDB 2.4": (9, 133.8, 1530.9),
                "CouchDB 1.5": (1.19, 15.57, 132.7),
                "Couchbase 2.2": (39.37, 405.57, 6579.23),
            },
        ),
        _published(
            "VII",
            "delete",
            REPLICATED,
            {
                "SQL Server 2012": (2000, 6000, 53000),
                "MySQL 5.5": (112, 2529.8, 32897.9),
                "PostgreSQL 9.1": (86.8, 2040.6, 16465.2),
                "MongoDB 2.4": (26.4, 321.4, 7814.6),
                "CouchDB 1.5": (2.1, 18.73, 227.22),
                "Couchbase 2.2": (45.83, 445.72, 7578.98),
            },
        ),
        _published(
            "VIII",
            "select",
            SINGLE,
            {
                "SQL Server 2012": (35.3, 243.6, 2313.4),
                "MySQL 5.5": (4.1, 117.8, 844.8),
                "PostgreSQL 9.1": (3.7, 19.4, 663.5),
                "MongoDB 2.4": (1, 6, 43.5),
                "CouchDB 1.5": (2.14, 30.44, 307.54),
                "Couchbase 2.2": (4.34, 34.89, 345.77),
            },
        ),
    )
    charts = (
        *(
            BySize(f"{operation}, {shape}", operation, shape=shape, durability=RELAXED, caption=f"the paper's figure {figure}")
            for operation, shape, figure in (
                ("insert", SINGLE, 2),
                ("insert", REPLICATED, 3),
                ("update", SINGLE, 4),
                ("update", REPLICATED, 5),
                ("delete", SINGLE, 6),
                ("delete", REPLICATED, 7),
                ("select", SINGLE, 8),
            )
        ),
        Quotient("The price of replication", shape=SINGLE, over=REPLICATED, operations=("insert", "update", "delete")),
    )
    whole = ("select",)

    @classmethod
    def add_arguments(cls, parser) -> None:
        parser.add_argument("--batches", type=positive, help="repetitions of each batch (default 3, below a scale of 0.1: 1; published: 50)")

    def _make(self, size: int, replicated: bool) -> tuple[dict, list[Stage]]:
        batches = Batches(size, self.options.batches or (1 if self.brief else 3), replicated)
        return batches.about, batches.stages()

    def data_sets(self) -> list[DataSet]:
        sizes = self.scaled_sizes(SIZES, COMMENTS_OF_AN_ARTICLE)
        # If each write waits for the disk, the smallest number of documents is enough.
        plan = [*((size, RELAXED) for size in sizes), (self.scaled(SIZES[0], COMMENTS_OF_AN_ARTICLE), SYNCED)]
        return [
            DataSet(
                f"{shape} · {size:,} · {durability}", durability, partial(self._make, size, shape == REPLICATED), shape == REPLICATED
            )
            for size, durability in plan
            for shape in (SINGLE, REPLICATED)
        ]
