"""A client for every system that speaks MongoDB's protocol, by pymongo."""

from bson import ObjectId
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from bench.targets.base import SYNCED, Client, Row

DATABASE = "diwan_bench"

TRANSLATION = {
    "above": lambda field, value: {field: {"$gt": value}},
    "below": lambda field, value: {field: {"$lt": value}},
    "exists": lambda field, _: {field: {"$exists": True}},
    "any": lambda field, values: {field: values[0]} if len(values) == 1 else {"$or": [{field: v} for v in values]},
}


def to_filter(query) -> dict:
    """The query as a MongoDB filter, conditions on one field merged."""
    merged: dict = {}
    for operator, field, value in query.conditions:
        for key, condition in TRANSLATION[operator](field, value).items():
            if key in merged and not isinstance(condition, dict):
                condition = {"$eq": condition}
            merged[key] = {**merged[key], **condition} if key in merged else condition
    return merged


class MongoAdapter(Client):
    """One pymongo client, hence one connection as long as one thread uses it."""

    def __init__(self, uri: str, durability: str) -> None:
        self._mongo = MongoClient(uri, serverSelectionTimeoutMS=10_000, socketTimeoutMS=600_000)
        # An explicit w: 1 with j: false is acknowledged before fsync; j: true waits for it.
        concern = WriteConcern(w=1, j=durability == SYNCED)
        self._database = self._mongo.get_database(DATABASE, write_concern=concern)
        self._mongo.admin.command("ping")

    def create(self, table: str) -> None:
        self._database.drop_collection(table)
        self._database.create_collection(table, check_exists=False)

    def insert_one(self, table: str, row: Row) -> None:
        self._database[table].insert_one({"_id": ObjectId(row[0]), **row[1]})

    def insert_many(self, table: str, rows: list[Row]) -> None:
        self._database[table].insert_many([{"_id": ObjectId(key), **document} for key, document in rows])

    def find_by_id(self, table: str, key: bytes) -> dict | None:
        return self._database[table].find_one({"_id": ObjectId(key)})

    def count(self, table: str, query) -> int:
        return self._database.command("count", table, query=to_filter(query))["n"]

    def find(self, table: str, query):
        return self._database[table].find(to_filter(query))

    def maintain(self, table: str) -> str:
        done = []
        for name, database, argument in (("fsync", self._mongo.admin, 1), ("compact", self._database, table)):
            try:
                database.command(name, argument)
                done.append(name)
            except OperationFailure as refusal:
                done.append(f"{name} refused ({refusal.code})")
        return ", ".join(done)

    def table_bytes(self, table: str) -> int | None:
        try:
            statistics = self._database.command("collStats", table)
        except OperationFailure:
            return None
        return int(statistics.get("storageSize", 0) + statistics.get("totalIndexSize", 0)) or None

    def version(self) -> str:
        """What the server calls itself."""
        return self._mongo.server_info()["version"]

    def reset(self) -> None:
        """Drops the bench's database, for a server that outlives the run."""
        self._mongo.drop_database(DATABASE)

    def close(self) -> None:
        self._mongo.close()
