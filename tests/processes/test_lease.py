"""A process that is alone reads from memory without asking PostgreSQL. Each read shows what another process has acknowledged before."""

import random
import signal
import time

import pytest
from cluster import Cluster
from pymongo import MongoClient

# After this time the process that runs has the lease.
ALONE_SECONDS = 4


@pytest.fixture
def pair(tmp_path):
    """Two processes, the second of which does not run."""
    processes = Cluster(tmp_path, count=2)
    processes.processes[1].stop()
    yield processes
    processes.end()


@pytest.fixture
def numbers(pair):
    """A collection at the first process, in its cache."""
    numbers = pair.single(0).test.numbers
    numbers.insert_many({"_id": number} for number in range(100))
    return numbers


def insert_at(process, number) -> MongoClient:
    client = MongoClient(process.uri, retryReads=False)
    client.test.numbers.insert_one({"_id": number})
    return client


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_read_shows_at_once_what_a_process_that_has_just_started_acknowledged(pair, numbers, end):
    second = pair.processes[1]
    for first in (100, 110):
        time.sleep(ALONE_SECONDS)
        assert numbers.count_documents({"_id": {"$gte": 0}}) == first
        second.start()
        for number in range(first, first + 10):
            insert_at(second, number).close()
            assert numbers.find_one({"_id": number}) == {"_id": number}
            assert numbers.count_documents({"_id": {"$gte": 0}}) == number + 1
        getattr(second, end)()


def test_a_holder_that_was_suspended_shows_what_was_acknowledged_meanwhile(pair, numbers):
    first, second = pair.processes
    for number in range(100, 102):
        time.sleep(ALONE_SECONDS)
        assert numbers.count_documents({"_id": {"$gte": 0}}) == number
        first.process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0, 1))
        second.start()
        client = insert_at(second, number)
        first.process.send_signal(signal.SIGCONT)
        assert numbers.find_one({"_id": number}) == {"_id": number}
        assert numbers.count_documents({"_id": {"$gte": 0}}) == number + 1
        client.close()
        second.stop()


def test_kills_of_a_lone_process_lose_nothing(pair, numbers):
    first, _ = pair.processes
    number = 100
    for _ in range(3):
        time.sleep(random.uniform(0, ALONE_SECONDS))
        number += 1
        insert_at(first, number - 1).close()
        first.kill()
        first.start()
        assert numbers.count_documents({}) == number
