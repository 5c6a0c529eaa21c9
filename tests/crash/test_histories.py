"""Transactions of many clients of both faces, while the server is killed: their history has snapshot isolation."""

import os
import random
import threading
import time

import pytest
import requests
from histories import FAILED, OK, UNKNOWN, Anomaly, Transaction, check, from_registers
from http_client import Http
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

KEYS = 8
WIRE_CLIENTS, HTTP_CLIENTS = 10, 6
SECONDS = float(os.environ.get("HISTORY_SECONDS", 12))
BANK_ROUNDS = int(os.environ.get("BANK_ROUNDS", 40))


def ok(client, *operations):
    return Transaction(client, list(operations), OK)


@pytest.mark.parametrize(
    ("name", "history", "final"),
    [
        ("lost update", [ok(1, ("append", "x", 1))], {"x": []}),
        ("aborted write", [Transaction(1, [("append", "x", 1)], FAILED)], {"x": [1]}),
        ("dirty read", [ok(1, ("append", "x", 1)), Transaction(2, [("append", "x", 2)], FAILED), ok(3, ("read", "x", [1, 2]))], {"x": [1]}),
        ("intermediate", [ok(1, ("append", "x", 1), ("append", "x", 2)), ok(2, ("read", "x", [1]))], {"x": [1, 2]}),
        ("non-repeatable", [ok(1, ("append", "x", 1)), ok(2, ("read", "x", []), ("read", "x", [1]))], {"x": [1]}),
        ("own writes", [ok(1, ("append", "x", 1), ("read", "x", []))], {"x": [1]}),
        ("a part", [Transaction(1, [("append", "x", 1), ("append", "y", 2)])], {"x": [1], "y": []}),
        ("cycle", [ok(1, ("append", "x", 1), ("read", "y", [2])), ok(2, ("append", "y", 2), ("read", "x", [1]))], {"x": [1], "y": [2]}),
        ("cycle", [ok(1, ("append", "x", 1), ("append", "y", 1)), ok(2, ("read", "x", [1]), ("read", "y", []))], {"x": [1], "y": [1]}),
        (
            "cycle",
            [ok(1, ("read", "x", []), ("append", "x", 1)), ok(2, ("read", "x", []), ("append", "x", 2))],
            {"x": [1, 2]},
        ),
    ],
)
def test_checker_finds_each_anomaly(name, history, final):
    with pytest.raises(Anomaly, match=name):
        check(history, final)


def test_checker_allows_write_skew_and_nothing_odd():
    skew = [ok(1, ("read", "x", []), ("append", "y", 1)), ok(2, ("read", "y", []), ("append", "x", 2))]
    assert check(skew, {"x": [2], "y": [1]})["write skew"] == 1
    unknown = [Transaction(1, [("append", "x", 1)]), Transaction(2, [("append", "x", 2)]), ok(3, ("read", "x", [2]))]
    assert check(unknown, {"x": [2]}) == {"transactions": 2, "edges": 1, "write skew": 0}
    registers = [ok(1, ("read", "x", None), ("append", "x", 1)), ok(2, ("read", "x", None), ("append", "x", 2))]
    with pytest.raises(Anomaly, match="lost update|cycle"):
        check(registers, from_registers(registers, {"x": 2}))


class Workload:
    """Clients that run transactions until they are stopped."""

    def __init__(self, server, kind):
        self.server, self.kind = server, kind
        self.history: list[Transaction] = []
        self.stopped = threading.Event()
        self.values = iter(range(1, 1 << 60))
        self.lock = threading.Lock()

    def next_value(self):
        with self.lock:
            return next(self.values)

    def record(self, transaction):
        with self.lock:
            self.history.append(transaction)

    def shown(self, document):
        if self.kind == "list":
            return list((document or {}).get("list", []))
        return (document or {}).get("value")

    def changed(self, document, value):
        if self.kind == "list":
            return {**document, "list": [*document.get("list", []), value]}
        return {**document, "value": value}

    def run(self):
        threads = [threading.Thread(target=self.over_wire, args=(n,)) for n in range(WIRE_CLIENTS)]
        threads += [threading.Thread(target=self.over_http, args=(100 + n,)) for n in range(HTTP_CLIENTS)]
        [thread.start() for thread in threads]
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(random.uniform(0.8, 2))
            self.server.kill()
            self.server.start()
        self.stopped.set()
        [thread.join() for thread in threads]

    def over_wire(self, number):
        dice = random.Random(number)
        options = {"serverSelectionTimeoutMS": 10_000, "socketTimeoutMS": 10_000, "retryWrites": False}
        with MongoClient(self.server.uri, **options) as client:
            keys = client.test.keys
            while not self.stopped.is_set():
                transaction = Transaction(number, [])
                try:
                    with client.start_session() as session:
                        session.start_transaction(read_concern=ReadConcern(dice.choice(["local", "snapshot"])))
                        self.statements(keys, session, dice, transaction)
                        self.commit(session, transaction)
                except ConnectionFailure:
                    # Without a commit nothing can be there.
                    if transaction.outcome != UNKNOWN or not getattr(transaction, "committing", False):
                        transaction.outcome = FAILED
                except OperationFailure:
                    if not getattr(transaction, "committing", False):
                        transaction.outcome = FAILED
                except PyMongoError:
                    pass
                self.record(transaction)

    def statements(self, keys, session, dice, transaction):
        for _ in range(dice.randint(1, 4)):
            key = dice.randrange(KEYS)
            document = keys.find_one({"_id": str(key)}, session=session)
            transaction.operations.append(("read", key, self.shown(document)))
            if dice.random() < 0.5:
                value = self.next_value()
                change = {"$push": {"list": value}} if self.kind == "list" else {"$set": {"value": value}}
                transaction.operations.append(("append", key, value))
                keys.update_one({"_id": str(key)}, change, upsert=True, session=session)

    def commit(self, session, transaction):
        transaction.committing = True
        for attempt in range(3):
            try:
                session.commit_transaction()
                transaction.outcome = OK
                return
            except ConnectionFailure:
                if attempt == 2:
                    raise
            except OperationFailure as error:
                # After a restart the session has no open transaction: it was aborted, or an earlier attempt has committed it.
                if error.has_error_label("TransientTransactionError"):
                    transaction.outcome = FAILED
                    return
                raise

    def over_http(self, number):
        dice = random.Random(number)
        while not self.stopped.is_set():
            transaction = Transaction(number, [])
            try:
                self.exchange(Http(self.server.url), dice, transaction)
            except requests.RequestException:
                if not getattr(transaction, "committing", False):
                    transaction.outcome = FAILED
                time.sleep(0.05)
            self.record(transaction)

    def exchange(self, http, dice, transaction):
        database = http.database("keys")
        if dice.random() < 0.3:
            key = dice.randrange(KEYS)
            answer = database.get(str(key), timeout=10)
            transaction.operations.append(("read", key, self.shown(answer.json() if answer.status_code == 200 else {})))
            transaction.outcome = OK if answer.status_code in (200, 404) else FAILED
            return
        docs = []
        for key in dice.sample(range(KEYS), dice.randint(1, 3)):
            answer = database.get(str(key), timeout=10)
            if answer.status_code not in (200, 404):
                transaction.outcome = FAILED
                return
            document = answer.json() if answer.status_code == 200 else {"_id": str(key)}
            value = self.next_value()
            transaction.operations += [("read", key, self.shown(document)), ("append", key, value)]
            docs.append({"db": "keys", "doc": self.changed(document, value)})
        transaction.committing = True
        answer = http.post("_transaction", json={"docs": docs}, timeout=15)
        if answer.status_code == 201:
            transaction.outcome = OK
        elif answer.status_code in (409, 503):
            transaction.outcome = FAILED

    def final(self):
        with MongoClient(self.server.uri) as client:
            found = {int(d["_id"]): self.shown(d) for d in client.test["keys"].find()}
        return found


@pytest.mark.parametrize("kind", ["list", "register"])
def test_history_has_snapshot_isolation(stored_server, kind):
    workload = Workload(stored_server, kind)
    workload.run()
    final = workload.final()
    history = workload.history
    if kind == "register":
        final = from_registers(history, final)
    outcomes = {name: sum(t.outcome == name for t in history) for name in (OK, FAILED, UNKNOWN)}
    summary = check(history, final)
    print(kind, outcomes, summary)
    assert outcomes[OK] > 100, outcomes


def test_bank_keeps_its_sum_through_every_kill(stored_server):
    accounts, each = 100, 100
    with MongoClient(stored_server.uri) as client:
        client.test.bank.insert_many({"_id": str(i), "balance": each} for i in range(accounts))
    errors, counts = [], {"transfers": 0, "snapshots": 0}
    for round_number in range(BANK_ROUNDS):
        stopped = threading.Event()

        def transfer_over_wire(seed):
            dice = random.Random(seed)
            with MongoClient(stored_server.uri, serverSelectionTimeoutMS=500) as client:
                bank = client.test.bank
                while not stopped.is_set():
                    one, other = dice.sample(range(accounts), 2)
                    try:
                        with client.start_session() as session, session.start_transaction():
                            source = bank.find_one({"_id": str(one)}, session=session)
                            amount = dice.randint(0, source["balance"])
                            bank.update_one({"_id": str(one)}, {"$inc": {"balance": -amount}}, session=session)
                            bank.update_one({"_id": str(other)}, {"$inc": {"balance": amount}}, session=session)
                        counts["transfers"] += 1
                    except PyMongoError:
                        pass

        def transfer_over_http(seed):
            dice = random.Random(seed)
            http = Http(stored_server.url)
            while not stopped.is_set():
                try:
                    docs = [http.database("bank").get(str(n), timeout=5).json() for n in dice.sample(range(accounts), 2)]
                    amount = dice.randint(0, docs[0]["balance"])
                    docs[0]["balance"] -= amount
                    docs[1]["balance"] += amount
                    body = {"docs": [{"db": "bank", "doc": doc} for doc in docs]}
                    counts["transfers"] += http.post("_transaction", json=body, timeout=5).status_code == 201
                except (requests.RequestException, KeyError):
                    pass

        def audit():
            with MongoClient(stored_server.uri, serverSelectionTimeoutMS=500) as client:
                while not stopped.is_set():
                    try:
                        with client.start_session(snapshot=True) as session:
                            found = [d["balance"] for d in client.test.bank.find({}, session=session, batch_size=30)]
                    except PyMongoError:
                        continue
                    counts["snapshots"] += 1
                    if sum(found) != accounts * each or min(found) < 0:
                        errors.append((round_number, sum(found), min(found)))

        threads = [threading.Thread(target=transfer_over_wire, args=(round_number * 10 + n,)) for n in range(4)]
        threads += [threading.Thread(target=transfer_over_http, args=(round_number * 10 + 5 + n,)) for n in range(2)]
        threads += [threading.Thread(target=audit)]
        [thread.start() for thread in threads]
        time.sleep(random.uniform(0.1, 0.5))
        stored_server.kill()
        stopped.set()
        [thread.join() for thread in threads]
        stored_server.start()
        with MongoClient(stored_server.uri) as client:
            balances = [d["balance"] for d in client.test.bank.find()]
            assert (len(balances), sum(balances)) == (accounts, accounts * each)
    assert not errors
    print(counts)
    assert counts["transfers"] > BANK_ROUNDS and counts["snapshots"] > BANK_ROUNDS / 4
    with MongoClient(stored_server.uri) as client:
        assert client.test.command("validate", "bank")["valid"]
