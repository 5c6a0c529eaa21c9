"""motor: transactions and change streams of an asyncio client."""

import asyncio

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import OperationFailure


@pytest.fixture
async def people(server, database_name):
    client = AsyncIOMotorClient(server.uri)
    yield client[database_name].people
    client.close()


async def test_with_transaction_commits_or_leaves_nothing(people):
    async with await people.database.client.start_session() as session:

        async def move(session):
            await people.insert_one({"_id": 1}, session=session)
            await people.insert_one({"_id": 2}, session=session)

        await session.with_transaction(move)
        with pytest.raises(ZeroDivisionError):
            async with session.start_transaction():
                await people.delete_many({}, session=session)
                assert await people.count_documents({}, session=session) == 0
                raise ZeroDivisionError
    assert await people.distinct("_id") == [1, 2]


async def test_streams_are_read_beside_the_writer_and_resume(people):
    async def write():
        for number in range(50):
            await people.insert_one({"_id": number})

    async with people.watch([{"$match": {"operationType": "insert"}}]) as stream:
        writer = asyncio.create_task(write())
        seen = [(await stream.next())["documentKey"]["_id"] for _ in range(20)]
        token = stream.resume_token
        await writer
    async with people.watch(resume_after=token) as stream:
        seen += [(await stream.next())["documentKey"]["_id"] for _ in range(30)]
        assert await stream.try_next() is None
    assert seen == list(range(50))


async def test_many_streams_of_one_client_wait_at_once(people):
    async def first(stream):
        return (await stream.next())["fullDocument"]["n"]

    streams = [people.watch([{"$match": {"fullDocument.n": number}}]) for number in range(40)]
    # A stream of motor begins with its first read.
    assert await asyncio.gather(*(stream.try_next() for stream in streams)) == [None] * 40
    waiting = [asyncio.create_task(first(stream)) for stream in streams]
    await people.insert_many([{"n": number} for number in range(40)])
    assert await asyncio.gather(*waiting) == list(range(40))
    await asyncio.gather(*(stream.close() for stream in streams))
    with pytest.raises(OperationFailure) as refused:
        async with people.watch([{"$group": {"_id": 1}}]) as stream:
            await stream.try_next()
    assert refused.value.code == 20
