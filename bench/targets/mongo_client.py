"""A client for every system with MongoDB's protocol. It uses pymongo."""

from bson import ObjectId
from pymongo import ASCENDING, MongoClient, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from bench.data import Key, Query, Row, Table
from bench.targets.base import SYNCED, Client, Unsupported

DATABASE = "diwan_bench"

TRANSLATION = {
    "equals": lambda field, value: {field: value},
    "above": lambda field, value: {field: {"$gt": value}},
    "below": lambda field, value: {field: {"$lt": value}},
    "at least": lambda field, value: {field: {"$gte": value}},
    "at most": lambda field, value: {field: {"$lte": value}},
    "exists": lambda field, _: {field: {"$exists": True}},
    "any": lambda field, values: {field: values[0]} if len(values) == 1 else {"$or": [{field: v} for v in values]},
}


def to_filter(query: Query) -> dict:
    """The query as a MongoDB filter. Conditions on one field are merged."""
    merged: dict = {}
    for operator, field, value in query.conditions:
        for key, condition in TRANSLATION[operator](field, value).items():
            if key in merged and not isinstance(condition, dict):
                condition = {"$eq": condition}
            merged[key] = {**merged[key], **condition} if key in merged else condition
    return merged


def to_id(key: Key) -> ObjectId | Key:
    """An id as stored."""
    return ObjectId(key) if isinstance(key, bytes) and len(key) == 12 else key


def database_name(table: Table) -> str:
    """The database of a table."""
    return f"{DATABASE}_{table.database}" if table.database else DATABASE


class MongoAdapter(Client):
    """One pymongo client, which has one connection because one thread uses it."""

    dialect = "mongodb"

    def __init__(self, uri: str, durability: str) -> None:
        self._mongo = MongoClient(uri, serverSelectionTimeoutMS=3_000, socketTimeoutMS=600_000)
        # An explicit w: 1 with j: false is acknowledged before fsync; j: true waits for it.
        self._concern = WriteConcern(w=1, j=durability == SYNCED)
        self._collections: dict[Table, Collection] = {}
        self._mongo.admin.command("ping")

    def _collection(self, table: Table) -> Collection:
        if table not in self._collections:
            database = self._mongo.get_database(database_name(table), write_concern=self._concern)
            self._collections[table] = database[table.name]
        return self._collections[table]

    def create(self, table: Table) -> None:
        database = self._collection(table).database
        database.drop_collection(table.name)
        database.create_collection(table.name, check_exists=False)

    def drop(self, table: Table) -> None:
        collection = self._collection(table)
        if table.database:
            self._mongo.drop_database(collection.database.name)
        else:
            collection.drop()

    def create_index(self, table: Table, *fields: str) -> None:
        self._collection(table).create_index([(field, ASCENDING) for field in fields])

    def insert_one(self, table: Table, row: Row) -> None:
        self._collection(table).insert_one({"_id": to_id(row[0]), **row[1]})

    def insert_many(self, table: Table, rows: list[Row]) -> None:
        self._collection(table).insert_many([{"_id": to_id(key), **document} for key, document in rows])

    def update_field(self, table: Table, key: Key, field: str, value: object) -> None:
        done = self._collection(table).update_one({"_id": to_id(key)}, {"$set": {field: value}})
        if done.matched_count != 1:
            raise LookupError(f"no document {key!r} to update")

    def delete_one(self, table: Table, key: Key) -> None:
        if self._collection(table).delete_one({"_id": to_id(key)}).deleted_count != 1:
            raise LookupError(f"no document {key!r} to delete")

    def delete_many(self, table: Table, query: Query) -> int:
        return self._collection(table).delete_many(to_filter(query)).deleted_count

    def find_by_id(self, table: Table, key: Key) -> dict | None:
        found = self._collection(table).find_one({"_id": to_id(key)})
        if found is not None:
            del found["_id"]
        return found

    def count(self, table: Table, query: Query) -> int:
        return self._collection(table).database.command("count", table.name, query=to_filter(query))["n"]

    def find(self, table: Table, query: Query):
        cursor = self._collection(table).find(to_filter(query), list(query.fields) or None)
        if query.order:
            cursor = cursor.sort(query.order, ASCENDING)
        return cursor.limit(query.limit) if query.limit else cursor

    def read_range(self, table: Table, start: Key, limit: int) -> int:
        found = self._collection(table).find({"_id": {"$gte": to_id(start)}}, sort=[("_id", ASCENDING)], limit=limit)
        return sum(1 for _ in found)

    def native(self, table: Table, statements: dict[str, object]) -> list:
        if self.dialect not in statements:
            raise Unsupported("the workload has no pipeline")
        return list(self._collection(table).aggregate(statements[self.dialect], allowDiskUse=True))

    def maintain(self, table: Table) -> str:
        done = []
        own = self._collection(table).database
        for name, database, argument in (("fsync", self._mongo.admin, 1), ("compact", own, table.name)):
            try:
                database.command(name, argument)
                done.append(name)
            except OperationFailure as refusal:
                done.append(f"{name} refused ({refusal.code})")
        return ", ".join(done)

    def table_bytes(self, table: Table) -> int | None:
        try:
            statistics = self._collection(table).database.command("collStats", table.name)
        except OperationFailure:
            return None
        return int(statistics.get("storageSize", 0) + statistics.get("totalIndexSize", 0)) or None

    def version(self) -> str:
        """The server's name and version."""
        info = self._mongo.server_info()
        own = info.get("ferretdb", {}).get("version")
        return f"FerretDB {own}, speaks as {info['version']}" if own else info["version"]

    def reset(self) -> None:
        """Drops the bench's databases on a server that continues after the run."""
        for name in self._mongo.list_database_names():
            if name == DATABASE or name.startswith(DATABASE + "_"):
                self._mongo.drop_database(name)

    def close(self) -> None:
        self._mongo.close()
