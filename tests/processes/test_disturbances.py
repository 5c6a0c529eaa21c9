"""Three processes, one PostgreSQL, 24 clients of both faces, while things go wrong: nothing acknowledged is lost, nothing happens twice."""

import os
import random
import subprocess
import threading
import time

import pytest
import requests
from pymongo import WriteConcern
from pymongo.errors import DuplicateKeyError, PyMongoError
from server_process import binary

ROUNDS = int(os.environ.get("PROCESS_ROUNDS", 6))
WIRE_CLIENTS, HTTP_CLIENTS = 16, 8
CALM_SECONDS = 1.5

own_server = pytest.mark.skipif(bool(os.environ.get("DIWAN_TEST_POSTGRES")), reason="it starts its own PostgreSQL")


class Clients:
    """Writers of both faces, and what they were told."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.inserted: set[str] = set()
        self.owned: dict[int, list[str]] = {}
        self.counted, self.perhaps = 0, 0
        self.documents: dict[str, int] = {}
        self.failures = 0
        self.errors: list[str] = []
        self.next_number = 0
        run = [threading.Thread(target=self.guarded, args=(self.wire, number)) for number in range(WIRE_CLIENTS)]
        run += [threading.Thread(target=self.guarded, args=(self.http, number)) for number in range(HTTP_CLIENTS)]
        self.threads = run
        for thread in run:
            thread.start()

    def guarded(self, work, number):
        try:
            work(number)
        except Exception as error:  # reported by the test
            self.errors.append(f"{work.__name__} {number}: {error!r}")

    def wire(self, number):
        client = self.cluster.client()
        database = client.get_database("test", write_concern=WriteConcern("majority"))
        count = 0
        while not self.stopped.is_set():
            count += 1
            try:
                kind = random.random()
                if kind < 0.5:
                    identity = f"w{number}-{count}"
                    database.things.insert_one({"_id": identity, "client": number})
                    with self.lock:
                        self.inserted.add(identity)
                elif kind < 0.75:
                    with self.lock:
                        self.perhaps += 1
                    result = database.counters.update_one({"_id": "n"}, {"$inc": {"n": 1}})
                    with self.lock:
                        self.counted += result.modified_count
                        self.perhaps -= 1
                else:
                    with self.lock:
                        self.next_number += random.randrange(2)
                        wanted = self.next_number
                    identity = f"u{number}-{count}"
                    try:
                        database.unique.insert_one({"_id": identity, "u": wanted})
                        with self.lock:
                            self.owned.setdefault(wanted, []).append(identity)
                    except DuplicateKeyError:
                        pass
            except PyMongoError:
                self.failures += 1
                time.sleep(0.05)
        client.close()

    def http(self, number):
        session = requests.Session()
        count = 0
        revisions: dict[str, str] = {}
        while not self.stopped.is_set():
            count += 1
            url = random.choice(self.cluster.processes).url + "docs"
            identity = f"h{number}-{random.randrange(40)}"
            body = {"n": count}
            if revision := revisions.get(identity):
                body["_rev"] = revision
            try:
                answer = session.put(f"{url}/{identity}", json=body, timeout=60)
                if answer.status_code in (201, 202):
                    revisions[identity] = answer.json()["rev"]
                    with self.lock:
                        self.documents[identity] = count
                elif answer.status_code == 409:
                    # An earlier write without an answer has been made.
                    found = session.get(f"{url}/{identity}", timeout=60)
                    if found.status_code == 200:
                        revisions[identity] = found.json()["_rev"]
                        assert found.json()["n"] >= self.documents.get(identity, 0), (identity, found.json())
                else:
                    self.failures += 1
                    time.sleep(0.05)
            except requests.RequestException:
                self.failures += 1
                time.sleep(0.05)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a client hangs"
        assert not self.errors, self.errors


class Follower(threading.Thread):
    """Follows the changes of a collection, at one process after another."""

    def __init__(self, cluster, name):
        super().__init__()
        self.cluster, self.name_of = cluster, name
        self.since, self.seen, self.numbers = "0", {}, []
        self.stopped = threading.Event()
        self.error = None
        self.start()

    def step(self, process):
        answer = requests.get(
            f"{process.url}{self.name_of}/_changes", params={"since": self.since, "limit": 200}, timeout=60
        )
        if answer.status_code != 200:
            return 0
        body = answer.json()
        for row in body["results"]:
            number = int(str(row["seq"]).split("-")[0])
            if self.numbers and number <= self.numbers[-1]:
                raise AssertionError(f"sequence {number} comes after {self.numbers[-1]}")
            self.numbers.append(number)
            self.seen[row["id"]] = row["changes"][0]["rev"]
        self.since = body["last_seq"]
        return len(body["results"])

    def run(self):
        try:
            while not self.stopped.is_set():
                try:
                    self.step(random.choice(self.cluster.processes))
                except (requests.RequestException, ValueError):
                    pass
                time.sleep(0.05)
        except AssertionError as error:
            self.error = error

    def finish(self):
        self.stopped.set()
        self.join()
        if self.error:
            raise self.error
        while self.step(self.cluster.processes[0]):
            pass


def wait_until_calm(cluster):
    deadline = time.monotonic() + 60
    for process in cluster.processes:
        while True:
            try:
                if requests.get(f"{process.url}_up", timeout=10).status_code == 200:
                    break
            except requests.RequestException:
                pass
            assert time.monotonic() < deadline, "a process does not answer"
            time.sleep(0.1)


class Work:
    """Clients and followers at work."""

    def __init__(self, cluster):
        self.cluster = cluster
        database = cluster.client().get_database("test", write_concern=WriteConcern("majority"))
        database.counters.insert_one({"_id": "n", "n": 0})
        database.unique.create_index("u", unique=True)
        database.things.insert_one({"_id": "first"})
        assert requests.put(cluster.processes[1].url + "docs", timeout=60).status_code == 201
        self.clients, self.docs = Clients(cluster), Follower(cluster, "docs")
        self.things = Follower(cluster, "test%2Fthings")

    def disturb(self, kind):
        """Something goes wrong, and writes go on after it."""
        time.sleep(random.uniform(0.2, CALM_SECONDS))
        before = len(self.clients.inserted)
        done = kind()
        deadline = time.monotonic() + 60
        while len(self.clients.inserted) < before + 10:
            assert time.monotonic() < deadline, f"nothing is written after {done or kind.__name__}"
            time.sleep(0.02)
        return done

    def verify(self):
        """Ends the work and compares what each process shows with what the clients were told."""
        wait_until_calm(self.cluster)
        clients = self.clients
        clients.stop()
        self.docs.finish()
        self.things.finish()
        print(f"\n{len(clients.inserted)} inserts, {clients.counted} counted, {len(clients.owned)} unique keys,", end=" ")
        print(f"{len(clients.documents)} documents, {clients.failures} failures", end="")
        for number in range(len(self.cluster.processes)):
            verify(self.cluster, number, clients, self.docs, self.things)
        for process in self.cluster.processes:
            assert process.stop() == 0
        check = [binary(), "check", "--store", self.cluster.store]
        checked = subprocess.run(check, capture_output=True, text=True, timeout=300)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@own_server
def test_disturbances_lose_nothing_and_repeat_nothing(cluster):
    work = Work(cluster)
    print(f"\n{[work.disturb(cluster.disturb) for _ in range(ROUNDS)]}", end="")
    work.verify()


@own_server
def test_a_failover_to_a_standby_loses_nothing_and_repeats_nothing(replicated):
    work = Work(replicated)
    work.disturb(replicated.kill_process)
    work.disturb(replicated.fail_over)
    work.disturb(replicated.kill_process)
    work.verify()


def verify(cluster, number, clients, follower, things):
    """What one process shows."""
    database = cluster.single(number).test
    found = {document["_id"] for document in database.things.find({}, {"_id": 1})}
    assert clients.inserted <= found, sorted(clients.inserted - found)[:10]
    for name in ("things", "unique"):
        assert database[name].estimated_document_count() == database[name].count_documents({}), name
    assert set(things.seen) == found
    counter = database.counters.find_one({"_id": "n"})["n"]
    assert clients.counted <= counter <= clients.counted + clients.perhaps, (counter, clients.counted, clients.perhaps)
    by_key: dict[int, str] = {}
    for document in database.unique.find():
        assert document["u"] not in by_key, document
        by_key[document["u"]] = document["_id"]
    for key, owners in clients.owned.items():
        assert owners == [by_key.get(key)], (key, owners, by_key.get(key))
    assert set(by_key.values()) == {document["_id"] for document in database.unique.find().hint("u_1")}
    docs = requests.get(f"{cluster.processes[number].url}docs/_all_docs", params={"include_docs": "true"}, timeout=60).json()
    shown = {row["id"]: row["doc"] for row in docs["rows"]}
    for identity, least in clients.documents.items():
        assert shown[identity]["n"] >= least, (identity, shown[identity], least)
    assert {identity: document["_rev"] for identity, document in shown.items()} == follower.seen
