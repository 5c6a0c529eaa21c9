"""Systems are killed and restarted, and replicas catch up."""

import pytest

from bench.data import ALL, INTEGER, TEXT, Query, Table
from bench.targets.base import RELAXED, SYNCED
from bench.tests.systems import KILLED, REPLICATED, started

TABLE = Table("kept", (("n", INTEGER), ("text", TEXT)))


def row(number: int) -> tuple[bytes, dict]:
    return b"%012d" % number, {"n": number, "text": "x" * 50}


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_server_keeps_synced_documents(name, tmp_path):
    target = started(name, tmp_path)
    try:
        client = target.connector(SYNCED)()
        client.create(TABLE)
        for number in range(50):
            client.insert_one(TABLE, row(number))
        before = target.pid
        target.kill()
        with pytest.raises(Exception):
            client.insert_one(TABLE, row(99))
        target.restart()
        assert target.pid not in (None, before) and target.ready_seconds > 0
        client = target.connector(SYNCED)()
        assert client.count(TABLE, ALL) == 50
        client.insert_one(TABLE, row(100))
        client.close()
    finally:
        target.stop()


@pytest.mark.parametrize("name", REPLICATED)
def test_a_replica_catches_up(name, tmp_path):
    (tmp_path / "first").mkdir(mode=0o755)
    (tmp_path / "second").mkdir(mode=0o755)
    target = started(name, tmp_path / "first", replicated=True)
    try:
        client = target.connector(RELAXED)()
        client.create(TABLE)
        client.insert_many(TABLE, [row(number) for number in range(500)])
        target.start_replica(tmp_path / "second", [TABLE])
        target.await_replica(60)
        follower = target.replica_connector()()
        assert follower.count(TABLE, ALL) == 500
        for number in range(500, 510):
            client.insert_one(TABLE, row(number))
            client.update_field(TABLE, row(number)[0], "n", -number)
            client.delete_one(TABLE, row(number - 500)[0])
            target.await_replica(10)
            assert follower.find_by_id(TABLE, row(number)[0])["n"] == -number
            assert follower.count(TABLE, ALL) == 500
        assert client.delete_many(TABLE, Query("negative", (("below", "n", 0),))) == 10
        target.await_replica(10)
        assert follower.count(TABLE, ALL) == 490
        client.close()
        follower.close()
    finally:
        target.stop()
        target.stop()
