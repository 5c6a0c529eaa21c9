"""GridFS through pymongo."""

import random

import gridfs
import pytest


def test_files_are_stored_streamed_listed_and_deleted(db):
    content = random.Random(1).randbytes(1_000_003)
    bucket = gridfs.GridFSBucket(db, chunk_size_bytes=100_000)
    identity = bucket.upload_from_stream("file", content, metadata={"kind": "noise"})
    assert bucket.open_download_stream(identity).read() == content
    assert db.fs.chunks.count_documents({"files_id": identity}) == 11
    with bucket.open_upload_stream("file") as stream:
        stream.write(b"second ")
        stream.write(b"revision")
    assert bucket.open_download_stream_by_name("file").read() == b"second revision"
    assert bucket.open_download_stream_by_name("file", revision=0).read() == content
    assert [f.length for f in bucket.find({"metadata.kind": "noise"})] == [1_000_003]
    stream = bucket.open_download_stream(identity)
    stream.seek(999_999)
    assert stream.read() == content[999_999:]
    bucket.rename(identity, "renamed")
    bucket.delete(identity)
    with pytest.raises(gridfs.NoFile):
        bucket.open_download_stream(identity)
    assert db.fs.chunks.count_documents({}) == 1


def test_legacy_gridfs_interface(db):
    files = gridfs.GridFS(db)
    identity = files.put(b"x" * 300_000, filename="a", content_type="text/plain")
    assert files.get(identity).read() == b"x" * 300_000
    assert files.list() == ["a"]
    assert files.exists(filename="a") and not files.exists(filename="b")
    assert {"filename_1_uploadDate_1"} <= set(db.fs.files.index_information())
