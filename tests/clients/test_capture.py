"""Change data capture, as Debezium does it: a copy of what is there, then every change, from the last token on."""

import random
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

SOURCE = "source"
NAMESPACES = [f"{SOURCE}.a", f"{SOURCE}.b"]

# Names the namespace before it is matched, and shows the event again afterwards.
PIPELINE = [
    {"$replaceRoot": {"newRoot": {"namespace": {"$concat": ["$ns.db", ".", "$ns.coll"]}, "event": "$$ROOT"}}},
    {"$match": {"namespace": {"$in": NAMESPACES}}},
    {"$match": {"event.operationType": {"$in": ["insert", "update", "replace", "delete"]}}},
    {"$replaceRoot": {"newRoot": "$event"}},
]


class Connector:
    """Keeps a copy of the collections, and with it the token of the last change that the copy has."""

    def __init__(self, uri):
        self.uri = uri
        self.copy: dict[tuple, dict] = {}
        self.token = None
        self.applied = 0

    def open(self, client):
        start = {} if self.token is None else {"resume_after": self.token}
        return client.watch(PIPELINE, full_document="updateLookup", max_await_time_ms=50, batch_size=20, **start)

    def take_snapshot(self):
        with MongoClient(self.uri) as client, self.open(client) as stream:
            self.token = stream.resume_token
            for namespace in NAMESPACES:
                collection = namespace.split(".")[1]
                self.copy |= {(collection, d["_id"]): d for d in client[SOURCE][collection].find()}

    def apply(self, event):
        key = (event["ns"]["coll"], event["documentKey"]["_id"])
        document = event.get("fullDocument")
        if event["operationType"] == "delete" or document is None:
            self.copy.pop(key, None)
        else:
            self.copy[key] = document
        self.applied += 1

    def run(self, is_over):
        """Follows the changes until there are no more, through any loss of the connection."""
        while True:
            try:
                with MongoClient(self.uri, serverSelectionTimeoutMS=1000) as client, self.open(client) as stream:
                    while True:
                        over = is_over()
                        event = stream.try_next()
                        if event is not None:
                            self.apply(event)
                        elif over:
                            return
                        self.token = stream.resume_token
            except PyMongoError:
                time.sleep(0.05)


def write(uri, seed, end):
    """Any writes, also in transactions; which of them fail does not matter."""
    dice = random.Random(seed)
    with MongoClient(uri, serverSelectionTimeoutMS=500) as client:
        db = client[SOURCE]
        while time.monotonic() < end:
            collection = db[dice.choice("abc")]
            key = {"_id": dice.randrange(40)}
            try:
                match dice.randrange(5):
                    case 0:
                        collection.insert_one({**key, "n": dice.random()})
                    case 1:
                        collection.update_one(key, {"$set": {"n": dice.random()}}, upsert=True)
                    case 2:
                        collection.replace_one(key, {"n": dice.random(), "list": [1, 2]}, upsert=True)
                    case 3:
                        collection.delete_one(key)
                    case _:
                        with client.start_session() as session, session.start_transaction():
                            db.a.update_one(key, {"$inc": {"both": 1}}, upsert=True, session=session)
                            db.b.update_one(key, {"$inc": {"both": 1}}, upsert=True, session=session)
            except PyMongoError:
                pass


def test_copy_equals_the_source_after_kills(stored_server):
    uri = stored_server.uri
    with MongoClient(uri) as client:
        for name in "abc":
            client[SOURCE][name].insert_many({"_id": number, "n": 0} for number in range(0, 40, 3))
    connector = Connector(uri)
    connector.take_snapshot()
    end = time.monotonic() + 5
    writers = [threading.Thread(target=write, args=(uri, seed, end)) for seed in range(4)]
    reader = threading.Thread(target=connector.run, args=(lambda: not any(w.is_alive() for w in writers),))
    [thread.start() for thread in [*writers, reader]]
    for _ in range(3):
        time.sleep(1.2)
        stored_server.kill()
        stored_server.start()
    [thread.join() for thread in [*writers, reader]]
    with MongoClient(uri) as client:
        source = {(name, d["_id"]): d for name in "ab" for d in client[SOURCE][name].find()}
    assert connector.copy == source
    assert connector.applied > 200
