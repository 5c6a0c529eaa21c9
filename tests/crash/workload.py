"""Concurrent writers, each with a model of the documents that it owns.

The model knows the outcome of every command with a reply. For a command without a reply it allows two states: the one
before the command and the one after it.
"""

import copy
import random
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from bson import Binary, Int64
from raw_connection import Connection, Lost

DATABASE = "crash"
ORDERS = "orders"
EVENTS = "events"
EVENTS_MAX = 300
CONCERNS = [{"w": 1}, {"w": 1, "j": True}, {"w": "majority"}, None]
MOST_DOCUMENTS = 600


@dataclass
class Pending:
    """A command that was sent, the documents after it (None: deleted), and the expected reply."""

    command: dict
    after: dict[str, dict | None]
    expected: dict


def outcome(reply: dict) -> dict:
    """The part of a reply that must be the same when the command is retried."""
    names = ("n", "nModified", "upserted", "value", "lastErrorObject")
    return {name: reply[name] for name in names if name in reply}


@dataclass
class Writer:
    """Inserts, updates and deletes its own documents."""

    number: int
    random: random.Random
    documents: dict[str, dict] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    pending: Pending | None = None
    # The last retryable command with a reply.
    answered: Pending | None = None
    transaction: int = 0
    created: int = 0
    commands: int = 0

    def __post_init__(self):
        self.session = {"id": Binary(uuid.UUID(int=self.random.getrandbits(128)).bytes, 4)}

    def work(self, port: int, until: threading.Event):
        try:
            with Connection(port) as connection:
                while not until.is_set():
                    self.step(connection)
        except Lost:
            pass

    def step(self, connection: Connection):
        self.pending = self.choose()
        command = dict(self.pending.command)
        if "txnNumber" not in command or self.random.random() < 0.8:
            concern = self.random.choice(CONCERNS)
            if concern:
                command["writeConcern"] = concern
        reply = connection.run(DATABASE, command)
        self.settle(reply)

    def settle(self, reply: dict):
        """Handles the reply to the pending command."""
        assert outcome(reply) == self.pending.expected, (self.pending.command, reply, self.pending.expected)
        self.apply(self.pending.after)
        self.commands += 1
        self.answered = self.pending if "txnNumber" in self.pending.command else self.answered
        self.pending = None

    def apply(self, after: dict[str, dict | None]):
        for name, document in after.items():
            if document is None:
                if self.documents.pop(name, None):
                    self.deleted.append(name)
            else:
                self.documents[name] = document
                if name in self.deleted:
                    self.deleted.remove(name)

    def choose(self) -> Pending:
        """Chooses a command that is possible with the current documents."""
        some = len(self.documents)
        choices: list[Callable[[], Pending]] = [self.insert]
        if some:
            choices += [self.update, self.update, self.delete, self.find_and_modify, self.replace, self.upsert]
        if some > 3:
            choices += [self.update_several, self.update_group]
        if some < MOST_DOCUMENTS:
            choices += [self.insert, self.insert_many]
        else:
            choices += [self.delete_group]
        return self.random.choice(choices)()

    def retryable(self, command: dict) -> dict:
        if self.random.random() < 0.5:
            self.transaction += 1
            command |= {"lsid": self.session, "txnNumber": Int64(self.transaction)}
        return command

    def fresh(self) -> dict:
        if self.deleted and self.random.random() < 0.3:
            name = self.deleted.pop(self.random.randrange(len(self.deleted)))
        else:
            self.created += 1
            name = f"{self.number}-{self.created}"
        return {
            "_id": name,
            "writer": self.number,
            "group": self.random.randrange(20),
            "serial": f"s{name}",
            "n": 0,
            "tags": [self.random.choice("abcdef") for _ in range(self.random.randrange(4))],
            "text": "x" * self.random.randrange(200),
        }

    def any(self) -> dict:
        return copy.deepcopy(self.documents[self.random.choice(list(self.documents))])

    def insert(self) -> Pending:
        document = self.fresh()
        command = self.retryable({"insert": ORDERS, "documents": [document]})
        return Pending(command, {document["_id"]: document}, {"n": 1})

    def insert_many(self) -> Pending:
        # Sometimes more documents than the server commits in one batch.
        count = 1200 if self.random.random() < 0.01 else self.random.randrange(2, 40)
        documents = {document["_id"]: document for document in (self.fresh() for _ in range(count))}
        command = self.retryable({"insert": ORDERS, "documents": list(documents.values())})
        return Pending(command, documents, {"n": len(documents)})

    def changed(self, document: dict) -> tuple[dict, dict]:
        """An update that is visible if it is done twice, and the document after it."""
        tag = self.random.choice("abcdef")
        document["n"] += 1
        document["group"] = self.random.randrange(20)
        document["tags"] = [*document["tags"][-3:], tag]
        return {"$inc": {"n": 1}, "$set": {"group": document["group"], "tags": document["tags"]}}, document

    def update(self) -> Pending:
        update, document = self.changed(self.any())
        statement = {"q": {"_id": document["_id"]}, "u": update}
        command = self.retryable({"update": ORDERS, "updates": [statement]})
        return Pending(command, {document["_id"]: document}, {"n": 1, "nModified": 1})

    def update_several(self) -> Pending:
        names = self.random.sample(list(self.documents), 3)
        after, statements = {}, []
        for name in names:
            update, after[name] = self.changed(copy.deepcopy(self.documents[name]))
            statements.append({"q": {"_id": name}, "u": update})
        command = self.retryable({"update": ORDERS, "updates": statements})
        return Pending(command, after, {"n": 3, "nModified": 3})

    def update_group(self) -> Pending:
        """Updates all documents of a group. Each document has its own commit, so a kill may leave it incomplete."""
        group = self.random.randrange(20)
        chosen = [copy.deepcopy(document) for document in self.documents.values() if document["group"] == group]
        for document in chosen:
            document["n"] += 1
        statement = {"q": {"writer": self.number, "group": group}, "u": {"$inc": {"n": 1}}, "multi": True}
        after = {document["_id"]: document for document in chosen}
        count = {"n": len(chosen), "nModified": len(chosen)}
        return Pending({"update": ORDERS, "updates": [statement]}, after, count)

    def upsert(self) -> Pending:
        document = self.fresh()
        name = document.pop("_id")
        statement = {"q": {"_id": name}, "u": {"$set": document}, "upsert": True}
        command = self.retryable({"update": ORDERS, "updates": [statement]})
        expected = {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": name}]}
        return Pending(command, {name: {"_id": name, **document}}, expected)

    def replace(self) -> Pending:
        document = self.any() | {"text": f"replaced {self.commands}"}
        document["n"] += 1
        statement = {"q": {"_id": document["_id"]}, "u": document}
        command = self.retryable({"update": ORDERS, "updates": [statement]})
        return Pending(command, {document["_id"]: document}, {"n": 1, "nModified": 1})

    def delete(self) -> Pending:
        name = self.random.choice(list(self.documents))
        command = self.retryable({"delete": ORDERS, "deletes": [{"q": {"_id": name}, "limit": 1}]})
        return Pending(command, {name: None}, {"n": 1})

    def delete_group(self) -> Pending:
        group = self.random.randrange(20)
        names = [name for name, document in self.documents.items() if document["group"] == group]
        statement = {"q": {"writer": self.number, "group": group}, "limit": 0}
        return Pending({"delete": ORDERS, "deletes": [statement]}, dict.fromkeys(names), {"n": len(names)})

    def find_and_modify(self) -> Pending:
        before = self.any()
        name = before["_id"]
        if self.random.random() < 0.3:
            command = self.retryable({"findAndModify": ORDERS, "query": {"_id": name}, "remove": True})
            expected = {"lastErrorObject": {"n": 1}, "value": before}
            return Pending(command, {name: None}, expected)
        update, document = self.changed(copy.deepcopy(before))
        command = self.retryable({"findAndModify": ORDERS, "query": {"_id": name}, "update": update, "new": True})
        expected = {"lastErrorObject": {"n": 1, "updatedExisting": True}, "value": document}
        return Pending(command, {name: document}, expected)

    def verify(self, found: dict[str, dict]):
        """Compares the model with the stored documents, and learns the outcome of the pending command."""
        after = self.pending.after if self.pending else {}
        for name in self.documents.keys() | found.keys() | after.keys():
            allowed = [self.documents.get(name)]
            if name in after:
                allowed.append(after[name])
            assert found.get(name) in allowed, (name, found.get(name), allowed, self.pending)
        if self.pending and "txnNumber" not in self.pending.command:
            self.apply({name: found.get(name) for name in after})
            self.pending = None

    def retry(self, connection: Connection):
        """Retries the last retryable command. It must be done once, and each reply must be the same."""
        if self.pending:
            command = self.pending.command
            self.settle(connection.run(DATABASE, command))
        elif self.answered and self.answered.command["txnNumber"] == self.transaction:
            command = self.answered.command
        else:
            return
        for _ in range(2):
            again = connection.run(DATABASE, command)
            assert outcome(again) == self.answered.expected, (command, again, self.answered.expected)


@dataclass
class CappedWriter:
    """Inserts numbers into a capped collection, and checks its order and its bound."""

    written: int = 0
    sent: int = 0

    def work(self, port: int, until: threading.Event):
        try:
            with Connection(port) as connection:
                while not until.is_set():
                    self.sent = self.written + 1
                    connection.run(DATABASE, {"insert": EVENTS, "documents": [{"_id": self.sent}]})
                    self.written = self.sent
        except Lost:
            pass

    def verify(self, connection: Connection):
        found = [event["_id"] for event in connection.find(DATABASE, EVENTS, sort={"$natural": 1})]
        last = found[-1] if found else 0
        assert last in (self.written, self.sent), (last, self.written, self.sent)
        # A kill may come between an insert and the removal of the oldest document.
        assert min(last, EVENTS_MAX) <= len(found) <= EVENTS_MAX + 1
        assert found == list(range(last - len(found) + 1, last + 1))
        self.written = self.sent = last


@dataclass
class CatalogWriter:
    """Creates and drops indexes and collections while the other writers run."""

    random: random.Random
    indexes: set[str] = field(default_factory=set)
    # The number of documents in each collection.
    collections: dict[str, int] = field(default_factory=dict)
    # The name that is being created or dropped.
    doubtful: str | None = None
    done: int = 0

    INDEXES = {
        "by_group": {"key": {"writer": 1, "group": -1}},
        "by_tag": {"key": {"tags": 1, "n": 1}},
        "by_serial": {"key": {"serial": 1}, "unique": True},
        "by_text": {"key": {"text": "hashed"}},
        "big": {"key": {"n": 1}, "partialFilterExpression": {"n": {"$gt": 2}}},
    }

    def work(self, port: int, until: threading.Event):
        try:
            with Connection(port) as connection:
                while not until.is_set():
                    self.step(connection)
        except Lost:
            pass

    def step(self, connection: Connection):
        if self.random.random() < 0.5:
            self.doubtful = name = self.random.choice(list(self.INDEXES))
            if name in self.indexes:
                connection.run(DATABASE, {"dropIndexes": ORDERS, "index": name})
            else:
                specification = {"name": name, **self.INDEXES[name]}
                connection.run(DATABASE, {"createIndexes": ORDERS, "indexes": [specification]})
            self.indexes ^= {name}
        else:
            self.doubtful = name = f"other{self.random.randrange(3)}"
            if name in self.collections:
                connection.run(DATABASE, {"drop": name})
                del self.collections[name]
            else:
                documents = [{"_id": number} for number in range(50)]
                connection.run(DATABASE, {"insert": name, "documents": documents})
                index = {"name": "i", "key": {"a": 1}}
                connection.run(DATABASE, {"createIndexes": name, "indexes": [index]})
                self.collections[name] = len(documents)
        self.doubtful = None
        self.done += 1

    def verify(self, connection: Connection):
        listed = connection.run(DATABASE, {"listIndexes": ORDERS, "cursor": {}})["cursor"]["firstBatch"]
        indexes = {index["name"] for index in listed} - {"_id_"}
        assert indexes ^ self.indexes <= {self.doubtful}, (indexes, self.indexes, self.doubtful)
        listed = connection.run(DATABASE, {"listCollections": 1, "cursor": {}})["cursor"]["firstBatch"]
        collections = {collection["name"] for collection in listed} - {ORDERS, EVENTS}
        assert collections ^ self.collections.keys() <= {self.doubtful}, (collections, self.collections, self.doubtful)
        sizes = {name: len(connection.find(DATABASE, name)) for name in collections}
        for name, size in sizes.items():
            # A collection that was being created may exist without its documents.
            allowed = (0, 50) if name == self.doubtful else (self.collections[name],)
            assert size in allowed, (name, size, allowed)
        self.indexes, self.collections, self.doubtful = indexes, sizes, None


class Workload:
    """All writers."""

    def __init__(self, seed: int, writers: int = 6):
        self.random = random.Random(seed)
        self.writers = [Writer(number, random.Random(seed + number)) for number in range(writers)]
        self.capped = CappedWriter()
        self.catalog = CatalogWriter(random.Random(seed))

    def prepare(self, port: int):
        with Connection(port) as connection:
            connection.run(DATABASE, {"create": ORDERS})
            events = {"create": EVENTS, "capped": True, "size": 1 << 20, "max": EVENTS_MAX}
            connection.run(DATABASE, events)

    def run(self, port: int, seconds: float, end: Callable[[], object]):
        """Runs all writers for a while, calls `end` while they write, and waits until they have stopped."""
        stop, failures = threading.Event(), []

        def guarded(work):
            try:
                work(port, stop)
            except Exception as failure:  # noqa: BLE001: raised by the main thread
                failures.append(failure)

        workers = [*self.writers, self.capped, self.catalog]
        threads = [threading.Thread(target=guarded, args=(worker.work,)) for worker in workers]
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        end()
        stop.set()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def verify(self, port: int):
        """Checks that every acknowledged write is stored, and that retried commands are done exactly once."""
        with Connection(port) as connection:
            self.compare(connection)
            self.capped.verify(connection)
            self.catalog.verify(connection)
            for writer in self.writers:
                writer.retry(connection)
            self.compare(connection)

    def compare(self, connection: Connection):
        found: dict[int, dict[str, dict]] = {writer.number: {} for writer in self.writers}
        documents = connection.find(DATABASE, ORDERS)
        for document in documents:
            found[document["writer"]][document["_id"]] = document
        for writer in self.writers:
            writer.verify(found[writer.number])
        count = connection.run(DATABASE, {"count": ORDERS})["n"]
        assert count == len(documents)

    def commands(self) -> int:
        return sum(writer.commands for writer in self.writers) + self.capped.written + self.catalog.done
