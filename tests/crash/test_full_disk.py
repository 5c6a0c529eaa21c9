"""An almost full disk: growth is refused and deletions are allowed until there is space again."""

import os
import subprocess
import time

import pytest
from http_client import Http
from raw_connection import Connection
from test_crash import assert_clean

OUT_OF_DISK_SPACE = 14031
FULL = {"error": "insufficent_storage", "reason": "database_dir is too full"}
PATIENCE = 60


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 60 MB, if the test may mount one."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(directory)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
    if made is None or made.returncode != 0:
        pytest.skip("only root can mount a file system" if made is None else made.stderr.strip())
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def insert(connection: Connection, first: int, count: int) -> tuple[int, int | None]:
    """Inserts incompressible documents of 1 kB. Returns how many were stored, and the code of the first error."""
    documents = [{"_id": number, "bytes": os.urandom(1000)} for number in range(first, first + count)]
    reply = connection.command("test", {"insert": "things", "documents": documents})
    assert reply["ok"] == 1, reply
    errors = reply.get("writeErrors", [])
    return reply["n"], errors[0]["code"] if errors else None


def assert_refuses_growth(server, connection: Connection) -> None:
    assert insert(connection, 10_000_000, 1) == (0, OUT_OF_DISK_SPACE)
    http = Http(server.url)
    refused = http.database("other").put("new", json={})
    assert (refused.status_code, refused.json()) == (507, FULL)
    up = http.get("_up")
    assert (up.status_code, up.json()["status"]) == (404, "read_only")
    assert "available disk space of" in up.json()["reason"]
    ready = http.get("readyz")
    assert ready.status_code == 503 and "available disk space of" in ready.text


def test_disk_reserve_refuses_growth_and_allows_deletions(server):
    server.start()
    assert Http(server.url).put("other").status_code == 201
    with Connection(server.port) as connection:
        assert insert(connection, 0, 1000) == (1000, None)
    server.end()
    server.arguments = ("--disk-reserve", str(2**62))
    server.start()
    with Connection(server.port) as connection:
        assert_refuses_growth(server, connection)
        assert connection.run("test", {"count": "things"})["n"] == 1000
        deletion = {"delete": "things", "deletes": [{"q": {"_id": {"$lt": 500}}, "limit": 0}]}
        assert connection.run("test", deletion)["n"] == 500
        assert Http(server.url).delete("other").status_code == 200
    server.kill()
    assert_clean(server.data)
    server.arguments = ()
    server.start()
    with Connection(server.port) as connection:
        assert connection.run("test", {"count": "things"})["n"] == 500
        assert insert(connection, 0, 500) == (500, None)
    server.end()
    assert_clean(server.data)
    assert "the disk is almost full" in server.log.read_text()


def test_full_disk_accepts_writes_again_after_deletions(server, small_disk):
    server.data = small_disk / "data"
    server.start()
    assert Http(server.url).put("other").status_code == 201
    with Connection(server.port) as connection:
        stored = 0
        refused_since = None
        # Journals use space until they are flushed, so a single refusal may be temporary.
        while refused_since is None or time.monotonic() < refused_since + 3:
            count, code = insert(connection, stored, 100)
            stored += count
            assert code in (None, OUT_OF_DISK_SPACE)
            refused_since = None if code is None else refused_since or time.monotonic()
            if code:
                time.sleep(0.1)
        assert_refuses_growth(server, connection)
        for first in range(0, stored // 4 * 3, 1000):
            filter = {"_id": {"$gte": first, "$lt": min(first + 1000, stored // 4 * 3)}}
            connection.run("test", {"delete": "things", "deletes": [{"q": filter, "limit": 0}]})
        deadline = time.monotonic() + PATIENCE
        while (outcome := insert(connection, stored, 1)) != (1, None):
            assert time.monotonic() < deadline, outcome
            time.sleep(0.1)
        left = stored + 1 - stored // 4 * 3
        assert connection.run("test", {"count": "things"})["n"] == left
    server.kill()
    assert_clean(server.data)
    server.start()
    with Connection(server.port) as connection:
        assert connection.run("test", {"count": "things"})["n"] == left
        connection.run("test", {"drop": "things"})
    server.end()
    assert_clean(server.data)


def test_full_disk_without_a_reserve_reports_the_reason_once(server, small_disk):
    server.data = small_disk / "data"
    server.arguments = ("--disk-reserve", "0")
    server.start()
    with Connection(server.port) as connection:
        reply = {"ok": 1, "n": 1}
        number = 0
        while reply["ok"] == 1 and not reply.get("writeErrors"):
            documents = [{"_id": number + at, "bytes": os.urandom(1000)} for at in range(1000)]
            reply = connection.command("test", {"insert": "things", "documents": documents})
            number += 1000
        after = connection.command("test", {"insert": "things", "documents": [{}]})
        assert after["ok"] == 0, after
        assert after["errmsg"].count("refuses writes") == 1, after
        assert Http(server.url).get("_up").json()["reason"] == after["errmsg"]
    log = server.log.read_text()
    assert "ERROR" in log and "writes are refused until the store is opened again" in log
    # The log has the system's error text.
    assert "No space left on device" in log
    server.kill()
