"""The server is killed repeatedly under mixed writes. No acknowledged write may be lost, and no retry done twice."""

import os
import subprocess
import time
import uuid

from bson import Binary, Int64
from server_process import binary
from raw_connection import Connection
from workload import DATABASE, ORDERS, Workload

ROUNDS = int(os.environ.get("DIWAN_CRASH_ROUNDS", "50"))
SEED = int(os.environ.get("DIWAN_CRASH_SEED", str(time.time_ns() % 1_000_000)))


def is_quiet(round_number: int) -> bool:
    return round_number % 8 == 0


def check(data) -> subprocess.CompletedProcess:
    """Runs `diwan check` on a directory."""
    command = [binary(), "check", "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def assert_clean(data):
    done = check(data)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kills_lose_no_acknowledged_write(server):
    print(f"seed {SEED}")
    workload = Workload(SEED)
    server.start()
    workload.prepare(server.port)
    for round_number in range(1, ROUNDS + 1):
        workload.run(server.port, workload.random.uniform(0.05, 1.0), lambda: None if is_quiet(round_number) else server.kill())
        if is_quiet(round_number):
            # An idle server flushes its journal into tables. The kill comes during that time.
            time.sleep(workload.random.uniform(0.9, 1.4))
            server.kill()
        if round_number % 5 == 0 or round_number == ROUNDS:
            assert_clean(server.data)
        server.start()
        workload.verify(server.port)
    server.kill()
    assert_clean(server.data)
    assert workload.commands() > ROUNDS * 20


def test_kill_during_startup_loses_nothing(server):
    workload = Workload(SEED + 1)
    server.start()
    workload.prepare(server.port)
    workload.run(server.port, 1.0, server.kill)
    for _ in range(10):
        process = subprocess.Popen(
            [binary(), "serve", "--data", str(server.data), "--listen", "127.0.0.1:0", "--http", "off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(workload.random.uniform(0, 0.15))
        process.kill()
        process.wait()
    assert_clean(server.data)
    server.start()
    workload.verify(server.port)


def test_sigterm_under_writes_closes_cleanly(server):
    workload = Workload(SEED + 2)
    server.start()
    workload.prepare(server.port)
    for _ in range(2):
        statuses = []
        workload.run(server.port, 0.5, lambda: statuses.append(server.stop()))
        assert statuses == [0]
        assert_clean(server.data)
        server.start()
        workload.verify(server.port)
    # After a clean stop the stored sizes are exact.
    with Connection(server.port) as connection:
        size = connection.run(DATABASE, {"collStats": ORDERS})["size"]
        assert size == connection.run(DATABASE, {"validate": ORDERS}).get("dataSize", size)


def test_second_server_on_the_same_directory_refuses_to_start(server):
    server.start()
    with Connection(server.port) as connection:
        connection.run(DATABASE, {"insert": ORDERS, "documents": [{"_id": 1}]})
        command = [binary(), "serve", "--data", str(server.data), "--listen", "127.0.0.1:0", "--http", "off"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 1
        assert "another server has the data directory" in second.stderr
        assert check(server.data).returncode == 2
        # The first server is not affected.
        assert connection.find(DATABASE, ORDERS) == [{"_id": 1}]
    server.kill()
    assert_clean(server.data)


def test_check_reports_a_missing_or_empty_directory(tmp_path):
    missing = check(tmp_path / "missing")
    assert missing.returncode == 2 and "no directory" in missing.stderr
    assert not (tmp_path / "missing").exists()
    (tmp_path / "empty").mkdir()
    assert check(tmp_path / "empty").returncode == 2
    assert list((tmp_path / "empty").iterdir()) == []


def test_retry_during_the_first_attempt_is_done_once(server):
    server.start()
    session = {"id": Binary(uuid.uuid4().bytes, 4)}
    with Connection(server.port) as second:
        second.run(DATABASE, {"insert": ORDERS, "documents": [{"_id": 1, "n": 0}]})
        for number in range(1, 301):
            statement = {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}
            command = {"update": ORDERS, "updates": [statement], "lsid": session, "txnNumber": Int64(number)}
            with Connection(server.port) as first:
                first.send(DATABASE, command)
                reply = second.run(DATABASE, command)
                assert (reply["n"], reply["nModified"]) == (1, 1)
        assert second.find(DATABASE, ORDERS) == [{"_id": 1, "n": 300}]
