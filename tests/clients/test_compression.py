"""Compressed messages in both directions."""

import random

import pytest
from pymongo import MongoClient


# The driver only warns if a compressor is not installed.
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("compressor", ["zlib", "snappy", "zstd"])
def test_compressed_messages_round_trip(server, db, compressor):
    noise = random.Random(7)
    documents = [{"_id": i, "text": "abc " * 500, "noise": noise.randbytes(5000)} for i in range(200)]
    with MongoClient(server.uri, compressors=compressor) as client:
        collection = client[db.name].c
        assert collection.insert_many(documents).acknowledged
        assert list(collection.find().sort("_id")) == documents
        assert client.admin.command("hello", compression=[compressor])["compression"] == [compressor]
    assert db.c.count_documents({}) == 200


def test_unknown_compressor_is_not_negotiated(client):
    assert "compression" not in client.admin.command("hello", compression=["nonsense"])
    assert client.admin.command("hello", compression=["nonsense", "snappy"])["compression"] == ["snappy"]
