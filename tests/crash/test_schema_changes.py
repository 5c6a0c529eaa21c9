"""Collections are created, renamed, dropped, indexed and replaced over both faces, under writes and kills.

Each round draws the kinds of operations that run at the same time. Afterwards `diwan check` must succeed, and after a restart:
no document is in two collections unless $out copied it; each acknowledged insert is stored unless an operation that removes
documents ended after the insert began; each collection name can be used. DIWAN_STRESS_ROUNDS sets the number of rounds.
"""

import http.client
import itertools
import json
import os
import random
import threading
import time

from raw_connection import Connection, Lost
from test_crash import assert_clean

ROUNDS = int(os.environ.get("DIWAN_STRESS_ROUNDS", "40"))
SEED = int(os.environ.get("DIWAN_STRESS_SEED", str(time.time_ns() % 1_000_000)))
DATABASE = "schema"
NAMES = ["a", "b", "c"]
THREADS = 4
# Codes with which an operation may fail because of a concurrent one. Any other code is a fault.
REFUSED = {20, 26, 27, 48, 67, 85, 86, 121, 125, 166, 171, 175, 276, 11000, 17152}
REMOVALS = {"rename_over", "drop", "drop_database", "out", "http_delete"}

WRITES = ["insert", "upsert", "update", "delete", "http_put", "http_bulk"]
CHANGES = [
    "build_plain", "build_unique", "http_index", "drop_indexes", "hide_index", "validate", "create", "http_create", "rename",
    "rename_over", "drop", "drop_database", "http_delete", "to_capped", "out",
]


class Model:
    """The guarantees that follow from the acknowledged operations."""

    def __init__(self):
        self.ids = itertools.count()
        self.inserted: dict[int, float] = {}
        self.deleted: set[int] = set()
        self.cleared = 0.0

    def check(self, found: dict[int, list[str]]) -> None:
        for identifier, names in found.items():
            assert len(names) == 1 or self.cleared, f"{identifier} is in {names}"
        lost = [
            identifier
            for identifier, begun in self.inserted.items()
            if identifier not in found and identifier not in self.deleted and begun > self.cleared
        ]
        assert not lost, f"acknowledged inserts are lost: {lost}"


class Worker:
    """One client of both faces."""

    def __init__(self, server, model: Model, kinds: list[str], choice: random.Random):
        self.server, self.model, self.kinds, self.random = server, model, kinds, choice
        self.failure: BaseException | None = None

    def work(self, until: threading.Event) -> None:
        try:
            with Connection(self.server.port) as self.connection:
                self.http = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=30)
                while not until.is_set():
                    kind = self.random.choice(self.kinds)
                    try:
                        getattr(self, kind)(self.random.choice(NAMES))
                    finally:
                        # An operation without an answer may have been done.
                        if kind in REMOVALS:
                            self.model.cleared = max(self.model.cleared, time.monotonic())
        except (Lost, OSError, http.client.HTTPException):
            pass
        except BaseException as failure:  # raised by the main thread
            self.failure = failure

    def run(self, command: dict, database: str = DATABASE) -> dict:
        reply = self.connection.command(database, command)
        errors = [reply] if not reply["ok"] else reply.get("writeErrors", [])
        assert all(error["code"] in REFUSED for error in errors), (command, reply)
        return reply

    def ask(self, method: str, path: str, body=None) -> tuple[int, object]:
        headers = {"Content-Type": "application/json"}
        self.http.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.http.getresponse()
        return answer.status, json.loads(answer.read() or b"null")

    def document(self) -> dict:
        identifier = next(self.model.ids)
        m = [1, 2, identifier] if self.random.random() < 0.3 else identifier
        return {"_id": identifier, "n": self.random.randrange(40), "u": self.random.randrange(80), "m": m}

    # Writes.

    def insert(self, name: str) -> None:
        documents = [self.document() for _ in range(self.random.randrange(1, 5))]
        begun = time.monotonic()
        reply = self.run({"insert": name, "documents": documents, "ordered": False, "writeConcern": {"w": 1}})
        if reply["ok"]:
            refused = {error["index"] for error in reply.get("writeErrors", [])}
            accepted = [document["_id"] for at, document in enumerate(documents) if at not in refused]
            self.model.inserted.update((identifier, begun) for identifier in accepted)

    def upsert(self, name: str) -> None:
        document = self.document()
        identifier = document.pop("_id")
        begun = time.monotonic()
        reply = self.run({"update": name, "updates": [{"q": {"_id": identifier}, "u": {"$set": document}, "upsert": True}]})
        if reply.get("upserted"):
            self.model.inserted[identifier] = begun

    def update(self, name: str) -> None:
        change = self.random.choice([{"$set": {"u": self.random.randrange(80)}}, {"$inc": {"n": 1}}, {"$set": {"m": [1, 2]}}])
        self.run({"update": name, "updates": [{"q": {"n": self.random.randrange(40)}, "u": change, "multi": self.random.random() < 0.5}]})

    def delete(self, name: str) -> None:
        identifier = self.random.randrange(max(self.model.inserted, default=0) + 1)
        self.model.deleted.add(identifier)
        self.run({"delete": name, "deletes": [{"q": {"_id": identifier}, "limit": 1}]})

    def http_document(self) -> tuple[int, dict]:
        document = self.document()
        identifier = document["_id"]
        document["_id"] = "~" + json.dumps({"$numberInt": str(identifier)}, separators=(",", ":"))
        return identifier, document

    def http_put(self, name: str) -> None:
        self.http_bulk(name, 1)

    def http_bulk(self, name: str, count: int = 3) -> None:
        documents = [self.http_document() for _ in range(count)]
        begun = time.monotonic()
        status, rows = self.ask("POST", f"/{DATABASE}%2F{name}/_bulk_docs", {"docs": [document for _, document in documents]})
        assert status in (201, 404), (status, rows)
        if status == 201:
            for (identifier, _), row in zip(documents, rows, strict=True):
                assert row.get("ok") or row["error"] in ("conflict", "forbidden", "not_found"), row
                if row.get("ok"):
                    self.model.inserted[identifier] = begun

    # Changes of the schema.

    def build(self, name: str, key: dict, index: str, **options) -> None:
        self.run({"createIndexes": name, "indexes": [{"key": key, "name": index, **options}]})

    def build_plain(self, name: str) -> None:
        self.build(name, {"m": 1}, "m")
        self.build(name, {"n": 1, "u": -1}, "nu")

    def build_unique(self, name: str) -> None:
        self.build(name, {"u": 1}, "u", unique=True)

    def http_index(self, name: str) -> None:
        index = {"index": {"fields": ["n"]}, "name": "n", "ddoc": "n", "type": "json"}
        status, reply = self.ask("POST", f"/{DATABASE}%2F{name}/_index", index)
        assert status in (200, 404, 409), (status, reply)

    def drop_indexes(self, name: str) -> None:
        self.run({"dropIndexes": name, "index": self.random.choice(["m", "nu", "u"])})

    def hide_index(self, name: str) -> None:
        self.run({"collMod": name, "index": {"name": "m", "hidden": self.random.random() < 0.5}})

    def validate(self, name: str) -> None:
        self.run({"collMod": name, "validator": {"n": {"$lt": 1000 + self.random.randrange(10)}}})

    def create(self, name: str) -> None:
        self.run({"create": name})

    def http_create(self, name: str) -> None:
        status, reply = self.ask("PUT", f"/{DATABASE}%2F{name}")
        assert status in (201, 412), (status, reply)

    def rename(self, name: str, over: bool = False) -> None:
        target = self.random.choice(NAMES)
        self.run({"renameCollection": f"{DATABASE}.{name}", "to": f"{DATABASE}.{target}", "dropTarget": over}, "admin")

    def rename_over(self, name: str) -> None:
        self.rename(name, True)

    def drop(self, name: str) -> None:
        self.run({"drop": name})

    def drop_database(self, _: str) -> None:
        self.run({"dropDatabase": 1})

    def http_delete(self, name: str) -> None:
        status, reply = self.ask("DELETE", f"/{DATABASE}%2F{name}")
        assert status in (200, 404), (status, reply)

    def to_capped(self, name: str) -> None:
        self.run({"convertToCapped": name, "size": 64 << 20})

    def out(self, name: str) -> None:
        self.run({"aggregate": name, "pipeline": [{"$out": self.random.choice(NAMES)}], "cursor": {}})


def draw(choice: random.Random) -> list[str]:
    """The kinds of operations of a round. Every pair of changes, and every pair of a change and a write, occurs."""
    kinds = [choice.choice(CHANGES), choice.choice(WRITES), "insert", "http_bulk"]
    if choice.random() < 0.6:
        kinds.append(choice.choice(CHANGES))
    return kinds


def documents(server) -> dict[int, list[str]]:
    """The collections of each document. Checks that every index returns all documents."""
    found: dict[int, list[str]] = {}
    with Connection(server.port) as connection:
        for name in NAMES:
            stored = connection.find(DATABASE, name)
            for document in stored:
                if isinstance(document["_id"], int):
                    found.setdefault(document["_id"], []).append(name)
            existing = connection.command(DATABASE, {"listIndexes": name})
            for index in existing["cursor"]["firstBatch"] if existing["ok"] else []:
                if not index.get("hidden"):
                    by_index = connection.find(DATABASE, name, hint=index["name"])
                    assert len(by_index) == len(stored), (name, index)
    return found


def clear(server) -> None:
    """Checks that each collection name can be used, and drops the database."""
    with Connection(server.port) as connection:
        for name in NAMES:
            connection.run(DATABASE, {"insert": name, "documents": [{"_id": "works", "n": 0, "u": "works"}]})
        connection.run(DATABASE, {"dropDatabase": 1})
        assert connection.run(DATABASE, {"listCollections": 1})["cursor"]["firstBatch"] == []


def test_schema_changes_under_writes_and_kills_lose_nothing(server):
    print(f"seed {SEED}")
    choice = random.Random(SEED)
    server.start()
    for round_number in range(ROUNDS):
        kinds = draw(choice)
        context = f"seed {SEED} round {round_number} {kinds}"
        model = Model()
        until = threading.Event()
        workers = [Worker(server, model, kinds, random.Random(choice.random())) for _ in range(THREADS)]
        threads = [threading.Thread(target=worker.work, args=(until,)) for worker in workers]
        for thread in threads:
            thread.start()
        time.sleep(choice.uniform(0.05, 0.5))
        if choice.random() < 0.5:
            server.kill()
        until.set()
        for thread in threads:
            thread.join()
        for worker in workers:
            if worker.failure:
                raise AssertionError(context) from worker.failure
        server.kill()
        try:
            assert_clean(server.data)
            server.start()
            model.check(documents(server))
            clear(server)
        except AssertionError as failure:
            raise AssertionError(context) from failure
