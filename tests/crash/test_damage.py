"""Damaged files of a killed server are never ignored: the server refuses to start with a reason, or serves all data."""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bson import Binary
from server_process import ServerProcess, binary
from raw_connection import Connection

SEED = int(os.environ.get("DIWAN_CRASH_SEED", str(time.time_ns() % 1_000_000)))
DOCUMENTS = 400


def write(connection: Connection, numbers: range) -> None:
    """Inserts incompressible documents, each of them synced."""
    for number in numbers:
        document = {"_id": number, "bytes": Binary(os.urandom(300))}
        connection.run("damage", {"insert": "things", "documents": [document], "writeConcern": {"w": 1, "j": True}})


def contents(connection: Connection) -> dict[int, dict]:
    return {document["_id"]: document for document in connection.find("damage", "things")}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The directory of a killed server with tables and a journal, and the acknowledged documents."""
    directory = tmp_path_factory.mktemp("killed")
    server = ServerProcess(directory, data=directory / "data").start()
    with Connection(server.port) as connection:
        connection.run("damage", {"createIndexes": "things", "indexes": [{"name": "i", "key": {"bytes": 1}}]})
        write(connection, range(DOCUMENTS // 2))
    assert server.stop() == 0
    server.start()
    with Connection(server.port) as connection:
        write(connection, range(DOCUMENTS // 2, DOCUMENTS))
        acknowledged = contents(connection)
    server.kill()
    assert len(acknowledged) == DOCUMENTS
    return directory / "data", acknowledged


def newest_journal(data: Path) -> Path:
    return max((data / "data").glob("*.jnl"), key=lambda path: int(path.stem))


def written(journal: Path) -> range:
    """The used part of a journal. Its file is preallocated, and flushed parts at its start are released."""
    content = journal.read_bytes()
    end = len(content.rstrip(b"\0"))
    return range(len(content) - len(content.lstrip(b"\0")), end)


def flip(path: Path, place: int, bit: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))


def flipped_bit(data: Path, rng: random.Random) -> None:
    journal = newest_journal(data)
    flip(journal, rng.choice(written(journal)), rng.randrange(8))


def cut_journal(data: Path, rng: random.Random) -> None:
    journal = newest_journal(data)
    os.truncate(journal, rng.choice(written(journal)))


def zeroed_tail(data: Path, rng: random.Random) -> None:
    journal = newest_journal(data)
    place = written(journal)
    start = rng.choice(place)
    with open(journal, "r+b") as file:
        file.seek(start)
        file.write(bytes(place.stop - start))


def missing_journal(data: Path, _: random.Random) -> None:
    newest_journal(data).unlink()


def missing_mark(data: Path, _: random.Random) -> None:
    (data / "mark").unlink()


def flipped_mark(data: Path, rng: random.Random) -> None:
    flip(data / "mark", rng.randrange((data / "mark").stat().st_size), rng.randrange(8))


def flipped_table(data: Path, rng: random.Random) -> None:
    tables = [path for path in (data / "data").rglob("*") if path.is_file() and path.suffix != ".jnl"]
    tables = sorted(path for path in tables if path.stat().st_size)
    weights = [path.stat().st_size for path in tables]
    table = rng.choices(tables, weights)[0]
    flip(table, rng.randrange(table.stat().st_size), rng.randrange(8))


def cut_table(data: Path, rng: random.Random) -> None:
    tables = [path for path in (data / "data").rglob("*") if path.is_file() and path.suffix != ".jnl"]
    table = rng.choice(sorted(path for path in tables if path.stat().st_size))
    os.truncate(table, rng.randrange(table.stat().st_size))


def files(data: Path) -> dict[Path, bytes]:
    journals = (data / "data").glob("*.jnl")
    return {path: path.read_bytes() for path in [*journals]}


def check(data: Path) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), "check", "--data", data], capture_output=True, text=True, timeout=60, check=False)


DAMAGES = [
    *[(flipped_bit, seed) for seed in range(8)],
    *[(cut_journal, seed) for seed in range(5)],
    *[(zeroed_tail, seed) for seed in range(3)],
    (missing_journal, 0),
    (missing_mark, 0),
    *[(flipped_mark, seed) for seed in range(3)],
    *[(flipped_table, seed) for seed in range(12)],
    *[(cut_table, seed) for seed in range(4)],
]


@pytest.mark.parametrize("damage, seed", DAMAGES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_damage_is_never_silent(killed, tmp_path, damage: Callable[[Path, random.Random], None], seed: int):
    original, acknowledged = killed
    data = tmp_path / "data"
    shutil.copytree(original, data)
    print(f"seed {SEED + seed}")
    damage(data, random.Random(SEED + seed))
    before = files(data)
    server = ServerProcess(tmp_path, data=data)
    try:
        server.start()
    except RuntimeError as refusal:
        message = str(refusal)
        assert str(data) in message, message
        assert any(word in message for word in ("damaged", "lost", "missing")), message
        assert "panicked" not in message, message
        assert files(data) == before or damage in (flipped_table, cut_table), "the journals are unchanged"
        assert check(data).returncode != 0
        return
    try:
        with Connection(server.port) as connection:
            reply = connection.command("damage", {"find": "things", "batchSize": DOCUMENTS + 1})
            if reply["ok"] == 1:
                found = {document["_id"]: document for document in reply["cursor"]["firstBatch"]}
                assert found == acknowledged
            else:
                assert "damaged" in reply["errmsg"], reply
    finally:
        server.kill()
    assert "panicked" not in server.log.read_text()
    # A check finds the damage also if the server has not read that part.
    checked = check(data)
    assert checked.returncode == (0 if reply["ok"] == 1 else 1) or damage in (flipped_table, cut_table), checked


@pytest.mark.parametrize("damage", [flipped_bit, cut_journal, zeroed_tail])
def test_accept_loss_serves_the_undamaged_documents(killed, tmp_path, damage: Callable[[Path, random.Random], None]):
    original, acknowledged = killed
    data = tmp_path / "data"
    shutil.copytree(original, data)
    print(f"seed {SEED}")
    damage(data, random.Random(SEED))
    server = ServerProcess(tmp_path, data=data)
    with pytest.raises(RuntimeError, match="--accept-loss"):
        server.start()
    server.arguments = ("--accept-loss",)
    server.start()
    with Connection(server.port) as connection:
        found = contents(connection)
        assert found.items() <= acknowledged.items()
        assert len(found) >= DOCUMENTS // 2, "documents in tables are complete"
        assert sorted(found) == list(range(len(found))), "only the newest documents are lost"
        write(connection, range(DOCUMENTS, DOCUMENTS + 5))
    assert server.stop() == 0
    assert list(data.glob("lost-*/*.jnl")), "the journals were kept"
    assert check(data).returncode == 0
