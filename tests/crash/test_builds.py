"""The server is killed while it builds indexes of a large collection under writes. The indexes must stay complete."""

import os
import random
import threading
import time

from raw_connection import Connection, Lost
from test_crash import SEED, assert_clean
from workload import DATABASE

ROUNDS = int(os.environ.get("DIWAN_CRASH_ROUNDS", "50")) // 4
THINGS = "things"
# Enough documents for the bulk index build.
DOCUMENTS = 15_000
INDEXES = {
    "by_n": {"n": 1},
    "by_tag": {"tags": 1, "text": -1},
    "everything": {"$**": 1},
}


def document(number: int, n: float) -> dict:
    return {"_id": number, "n": n, "tags": [number % 7, number % 5], "text": f"document {number}"}


class Builder:
    """Builds and drops indexes, and knows which must exist."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.indexes: set[str] = set()
        self.doubtful: str | None = None
        self.built = 0

    def work(self, port: int):
        with Connection(port) as connection:
            while True:
                self.doubtful = name = self.random.choice(list(INDEXES))
                if name in self.indexes:
                    connection.run(DATABASE, {"dropIndexes": THINGS, "index": name})
                else:
                    index = {"name": name, "key": INDEXES[name]}
                    connection.run(DATABASE, {"createIndexes": THINGS, "indexes": [index]})
                    self.built += 1
                self.indexes ^= {name}
                self.doubtful = None

    def verify(self, connection: Connection):
        listed = connection.run(DATABASE, {"listIndexes": THINGS, "cursor": {}})["cursor"]["firstBatch"]
        indexes = {index["name"] for index in listed} - {"_id_"}
        assert indexes ^ self.indexes <= {self.doubtful}, (indexes, self.indexes, self.doubtful)
        self.indexes, self.doubtful = indexes, None


def write_continuously(port: int, numbers: random.Random):
    with Connection(port) as connection:
        while True:
            number = numbers.randrange(DOCUMENTS)
            one, concern = {"_id": number}, {"w": 1, "j": numbers.random() < 0.1}
            match numbers.randrange(3):
                case 0:
                    update = {"$inc": {"n": numbers.choice([1, 1.0])}, "$pop": {"tags": 1}}
                    statement = {"q": one, "u": update}
                    connection.run(DATABASE, {"update": THINGS, "updates": [statement], "writeConcern": concern})
                case 1:
                    delete = {"q": one, "limit": 1}
                    connection.run(DATABASE, {"delete": THINGS, "deletes": [delete], "writeConcern": concern})
                case _:
                    statement = {"q": one, "u": document(number, float(number)), "upsert": True}
                    connection.run(DATABASE, {"update": THINGS, "updates": [statement], "writeConcern": concern})


def test_kill_during_index_builds_leaves_complete_indexes(server):
    print(f"seed {SEED}")
    server.start()
    with Connection(server.port) as connection:
        for first in range(0, DOCUMENTS, 5000):
            documents = [document(number, number) for number in range(first, first + 5000)]
            connection.run(DATABASE, {"insert": THINGS, "documents": documents})
        begun = time.monotonic()
        everything = {"name": "everything", "key": INDEXES["everything"]}
        connection.run(DATABASE, {"createIndexes": THINGS, "indexes": [everything]})
        build_seconds = time.monotonic() - begun
        connection.run(DATABASE, {"dropIndexes": THINGS, "index": "everything"})
    builder, failures = Builder(SEED), []

    def guarded(work, *arguments):
        try:
            work(server.port, *arguments)
        except Lost:
            pass
        except Exception as failure:  # noqa: BLE001: raised by the main thread
            failures.append(failure)

    for round_number in range(ROUNDS):
        works = [(builder.work,), *((write_continuously, random.Random(SEED + round_number * 10 + n)) for n in range(3))]
        threads = [threading.Thread(target=guarded, args=work) for work in works]
        for thread in threads:
            thread.start()
        # Beside writes a build takes longer; kills during builds and after some are both wanted.
        time.sleep(builder.random.uniform(0.1, 4) * build_seconds)
        server.kill()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert_clean(server.data)
        server.start()
        with Connection(server.port) as connection:
            builder.verify(connection)
    server.kill()
    assert_clean(server.data)
    assert builder.built > 0
