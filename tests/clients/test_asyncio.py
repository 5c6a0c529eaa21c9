"""pymongo's asyncio client."""

import asyncio

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError


async def test_concurrent_tasks_share_a_client(server, db):
    async with AsyncMongoClient(server.uri) as client:
        collection = client[db.name].c
        await collection.create_index("n", unique=True)

        async def work(task):
            for i in range(25):
                await collection.insert_one({"_id": task * 100 + i, "n": task * 100 + i, "hits": 0})
                await collection.update_one({"_id": task * 100 + i}, {"$inc": {"hits": 1}})
                await collection.update_one({"_id": "total"}, {"$inc": {"n": -1, "hits": 1}}, upsert=True)

        await collection.insert_one({"_id": "total", "n": -1, "hits": 0})
        await asyncio.gather(*(work(task) for task in range(20)))
        assert await collection.count_documents({"hits": 1}) == 500
        assert (await collection.find_one({"_id": "total"}))["hits"] == 500
        with pytest.raises(DuplicateKeyError):
            await collection.insert_one({"n": 1924})


async def test_async_cursors_aggregation_and_bulk_writes(server, db):
    async with AsyncMongoClient(server.uri) as client:
        collection = client[db.name].c
        await collection.insert_many([{"_id": i, "k": i % 4} for i in range(1000)])
        assert [d["_id"] async for d in collection.find({"k": 1}).sort("_id", -1).batch_size(7).limit(50)][0] == 997
        cursor = await collection.aggregate([{"$group": {"_id": "$k", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
        assert await cursor.to_list() == [{"_id": k, "n": 250} for k in range(4)]
        async with client.start_session() as session:
            assert (await collection.delete_many({"k": 0}, session=session)).deleted_count == 250
