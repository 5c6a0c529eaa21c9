"""What clients of several processes rely on: transactions, change streams, views and users, also while a process is killed."""

import random
import threading
import time

import pytest
import requests
from bson import ObjectId
from pymongo import MongoClient, WriteConcern
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

ACCOUNTS = 12


def together(*works):
    """Runs functions in threads, and raises the first error."""
    errors = []

    def run(work):
        try:
            work()
        except Exception as error:  # raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_transfers_keep_the_sum_while_processes_are_killed(cluster):
    client = cluster.client()
    accounts = client.bank.get_collection("accounts", write_concern=WriteConcern("majority"))
    accounts.insert_many([{"_id": number, "balance": 100} for number in range(ACCOUNTS)])
    ended = threading.Event()
    done = []

    def transfer():
        own = cluster.client()
        while not ended.is_set():
            source, target = random.sample(range(ACCOUNTS), 2)

            def move(session, source=source, target=target):
                own.bank.accounts.update_one({"_id": source}, {"$inc": {"balance": -1}}, session=session)
                own.bank.accounts.update_one({"_id": target}, {"$inc": {"balance": 1}}, session=session)
                own.bank.log.insert_one({"from": source, "to": target}, session=session)

            try:
                with own.start_session() as session:
                    session.with_transaction(move, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))
                done.append(1)
            except PyMongoError:
                pass
        own.close()

    def look():
        while not ended.is_set():
            try:
                total = list(client.bank.accounts.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$balance"}}}]))
            except PyMongoError:
                continue
            assert total[0]["sum"] == 100 * ACCOUNTS

    def disturb():
        try:
            for _ in range(4):
                time.sleep(1.5)
                cluster.kill_process()
            time.sleep(1)
        finally:
            ended.set()

    client.bank.create_collection("log")
    together(*[transfer] * 6, look, disturb)
    assert done
    for number in range(len(cluster.processes)):
        bank = cluster.single(number).bank
        assert sum(account["balance"] for account in bank.accounts.find()) == 100 * ACCOUNTS
        moved = bank.log.count_documents({})
        assert len(done) <= moved
        spent = {row["_id"]: row["n"] for row in bank.log.aggregate([{"$group": {"_id": "$from", "n": {"$sum": 1}}}])}
        got = {row["_id"]: row["n"] for row in bank.log.aggregate([{"$group": {"_id": "$to", "n": {"$sum": 1}}}])}
        for account in bank.accounts.find():
            assert account["balance"] == 100 - spent.get(account["_id"], 0) + got.get(account["_id"], 0)


def test_a_transaction_conflicts_with_what_another_process_has_written(cluster):
    one, other = cluster.single(0), cluster.single(1)
    one.test.c.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
    one.test.c.create_index("u", unique=True, sparse=True)
    changes = {
        "update": lambda: other.test.c.update_one({"_id": 1}, {"$inc": {"n": 1}}),
        "delete": lambda: other.test.c.delete_one({"_id": 1}),
        "unique key": lambda: other.test.c.insert_one({"u": "taken"}),
        "new index": lambda: other.test.c.create_index("n"),
        "rename": lambda: other.test.c.rename("d"),
    }
    for name, change in changes.items():
        with one.start_session() as session:
            session.start_transaction()
            one.test.c.update_one({"_id": 1}, {"$set": {"u": "taken"}}, session=session)
            change()
            with pytest.raises(OperationFailure) as refused:
                session.commit_transaction()
            assert refused.value.code == 112 and refused.value.has_error_label("TransientTransactionError"), name
        if name == "delete":
            one.test.c.insert_one({"_id": 1, "n": 0})
        if name == "unique key":
            one.test.c.delete_one({"u": "taken"})
    with one.start_session() as session:
        session.start_transaction()
        one.test.d.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
        other.test.d.update_one({"_id": 2}, {"$set": {"x": 2}})
        session.commit_transaction()
    assert [document["x"] for document in other.test.d.find({"x": {"$exists": True}}).sort("_id")] == [1, 2]


def test_a_change_stream_shows_each_change_once_while_processes_are_killed(cluster):
    client = cluster.client()
    things = client.test.things
    things.insert_one({"_id": "first"})
    ended = threading.Event()
    written, seen = [], []

    def write(part):
        own = cluster.client()
        number = 0
        while not ended.is_set():
            number += 1
            identity = f"{part}-{number}"
            try:
                own.test.get_collection("things", write_concern=WriteConcern("majority")).insert_one({"_id": identity})
                written.append(identity)
            except DuplicateKeyError:
                written.append(identity)
            except PyMongoError:
                pass

    def read():
        token = None
        until = None
        while until is None or time.monotonic() < until and not set(written) <= set(seen):
            if ended.is_set() and until is None:
                until = time.monotonic() + 30
            try:
                with client.test.things.watch(resume_after=token, max_await_time_ms=200) as stream:
                    started.set()
                    for _ in range(50):
                        event = stream.try_next()
                        if event:
                            seen.append(event["documentKey"]["_id"])
                        token = stream.resume_token
            except PyMongoError:
                time.sleep(0.1)

    def disturb():
        try:
            started.wait(30)
            for _ in range(4):
                time.sleep(1.5)
                cluster.kill_process()
        finally:
            ended.set()

    started = threading.Event()
    reading = threading.Thread(target=read)
    reading.start()
    started.wait(30)
    together(lambda: write("a"), lambda: write("b"), lambda: write("c"), disturb)
    reading.join()
    assert len(seen) == len(set(seen)), "an event was shown twice"
    missing = set(written) - set(seen)
    assert not missing, sorted(missing)[:5]
    for part in "abc":
        numbers = [int(identity.split("-")[1]) for identity in seen if identity.startswith(part)]
        assert numbers == sorted(numbers)


def test_views_are_right_at_every_process(cluster):
    urls = [f"{process.url}docs" for process in cluster.processes]
    assert requests.put(urls[0], timeout=60).status_code == 201
    design = {"views": {"by_n": {"map": "function (doc) { emit(doc.n % 7, doc.n) }", "reduce": "_sum"}}}
    assert requests.put(f"{urls[1]}/_design/d", json=design, timeout=60).status_code == 201
    total = threading.Lock()
    numbers = []

    def work(url, part):
        session = requests.Session()
        for at in range(20):
            docs = [{"_id": f"{part}-{at}-{n}", "n": n} for n in range(10)]
            rows = session.post(f"{url}/_bulk_docs", json={"docs": docs}, timeout=60).json()
            assert all("rev" in row for row in rows), rows
            with total:
                numbers.extend(range(10))
                least = len(numbers)
            answer = session.get(f"{url}/_design/d/_view/by_n", params={"reduce": "false", "limit": 0}, timeout=60)
            assert answer.status_code == 200, answer.text
            assert answer.json()["total_rows"] >= least - 20 * len(urls)

    together(*[lambda url=url, part=part: work(url, part) for part, url in enumerate(urls)])
    answers = [requests.get(f"{url}/_design/d/_view/by_n", params={"group": "true"}, timeout=60).json() for url in urls]
    expected = [{"key": key, "value": sum(n for n in numbers if n % 7 == key)} for key in range(7)]
    for answer in answers:
        assert answer["rows"] == expected


def test_users_and_rights_hold_at_every_process_at_once(cluster):
    admin = cluster.single(0)
    admin.admin.command("createUser", "root", pwd="secret", roles=["root"])
    for number in range(3):
        with pytest.raises(OperationFailure) as refused:
            cluster.single(number).test.c.find_one()
        assert refused.value.code == 13
    signed = cluster.client(username="root", password="secret")
    signed.test.c.insert_one({"_id": ObjectId()})
    process = cluster.processes[1]
    first = MongoClient(cluster.processes[0].uri, username="root", password="secret")
    first.test.command("createUser", "app", pwd="pwd", roles=["read"])
    app = MongoClient(process.uri, username="app", password="pwd", authSource="test")
    assert app.test.c.count_documents({}) == 1
    session = requests.Session()
    assert session.post(f"{process.url}_session", json={"name": "root", "password": "secret"}, timeout=60).status_code == 200
    for other in cluster.processes:
        shown = requests.get(f"{other.url}_session", cookies=session.cookies.get_dict(), timeout=60).json()
        assert shown["userCtx"]["name"] == "root"
    first.test.command("dropUser", "app")
    with pytest.raises(OperationFailure):
        app.test.c.find_one()
