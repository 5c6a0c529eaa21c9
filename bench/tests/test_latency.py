"""Latencies and timelines: exact counts, transfer between processes, stalls in their slots."""

import os
import pickle
import time

import pytest
from hdrh.histogram import HdrHistogram

from bench.data import INTEGER, Table
from bench.latency import Latencies, Role, Timeline, run_clients
from bench.measure import Contestant
from bench.targets.base import RELAXED, Unsupported
from bench.targets.sqlite import SQLite

TABLE = Table("things", (("n", INTEGER),), key=int)


def test_percentiles_cover_all_recorded_durations():
    latencies = Latencies()
    for microseconds in range(1, 1001):
        latencies.record(microseconds / 1e6 + 2e-8)
    fields = latencies.fields()
    assert (fields["count"], fields["p50_us"], fields["p99_us"], fields["p999_us"], fields["max_us"]) == (1000, 500, 990, 999, 1000)
    decoded = HdrHistogram.decode(fields["hdr"])
    assert decoded.get_total_count() == 1000
    assert decoded.get_value_at_percentile(99) == pytest.approx(990_000, rel=2e-3)


def test_merged_and_pickled_latencies_equal_the_originals():
    one, other, both = Latencies(), Latencies(), Latencies()
    for number in range(2000):
        (one if number % 3 else other).record(number / 1e5)
        both.record(number / 1e5)
    one = pickle.loads(pickle.dumps(one))
    one.merge(pickle.loads(pickle.dumps(other)))
    assert one.fields() == both.fields()


def test_percentiles_of_no_durations_are_none():
    fields = Latencies().fields()
    assert fields["count"] == 0 and fields["p50_us"] is None and fields["max_us"] is None
    assert Timeline(1.0, 0.0).fields()["count"] == []


def test_corrected_latencies_add_requests_delayed_by_a_stall():
    latencies = Latencies()
    for _ in range(99):
        latencies.record(0.001)
    latencies.record(1.0)
    assert (latencies.above(0.5), latencies.above(1.0)) == (1, 0)
    corrected = latencies.corrected(0.01)
    assert latencies.microseconds(90) == [1000]
    assert corrected.count == 99 + 100 and corrected.microseconds(100) == [1_000_000]
    assert corrected.microseconds(90)[0] > 700_000


def test_recording_is_cheap():
    latencies, began = Latencies(), time.process_time()
    for number in range(200_000):
        latencies.record(number % 1000 / 1e6)
    assert (time.process_time() - began) / 200_000 < 2e-6


def test_a_timeline_includes_empty_slots():
    timeline = Timeline(1.0, start=100.0)
    for ended, seconds in ((100.2, 0.1), (100.9, 0.1), (103.5, 2.6)):
        timeline.record(seconds, ended)
    fields = timeline.fields()
    assert fields["count"] == [2, 0, 0, 1] and fields["max_us"] == [100_000, None, None, 2_600_000]
    assert timeline.whole().count == 3


@pytest.fixture
def contestant(tmp_path):
    target = SQLite()
    target.start(tmp_path)
    started = Contestant(target, RELAXED)
    started.client.create(TABLE)
    yield started
    started.client.close()
    target.stop()


def insert_share(station) -> int:
    mine = station.share(list(range(100)))
    for number in mine:
        station.timed("insert", station.client.insert_one, TABLE, (number, {"n": number}))
    return len(mine)


def read_while_going(station) -> int:
    done = 0
    for done in station.paced(station.argument):
        station.timed("read", station.client.find_by_id, TABLE, done)
    return done


def die(_station) -> None:
    os._exit(3)


def test_run_clients_returns_when_all_roles_end(contestant):
    outcome = run_clients(contestant, [Role("writers", insert_share, processes=3)])
    assert outcome.returned["writers"] == [34, 33, 33] and outcome.latencies("insert").count == 100
    assert contestant.client.read_range(TABLE, 0, 1000) == 100
    assert outcome.sample().operations == 100 and outcome.sample("insert").wall_seconds > 0


def test_run_clients_stops_roles_after_seconds_or_meanwhile(contestant):
    roles = [Role("readers", read_while_going, argument=100)]
    outcome = run_clients(contestant, roles, seconds=0.5, slot_seconds=0.1)
    assert 0.4 < outcome.wall_seconds < 1.5 and 20 <= outcome.latencies("read").count <= 60
    assert len(outcome.timelines["read"].fields()["count"]) >= 5
    outcome = run_clients(contestant, roles, meanwhile=lambda _: contestant.client.read_range(TABLE, 0, 10))
    assert outcome.meanwhile == 0


def test_an_attendant_runs_until_other_roles_end(contestant):
    roles = [Role("readers", read_while_going, argument=100, attendant=True), Role("writers", insert_share)]
    outcome = run_clients(contestant, roles)
    assert outcome.returned["writers"] == [100] and len(outcome.returned["readers"]) == 1


def test_watch_reports_ended_and_failed_roles(contestant):
    def wait(watch) -> list:
        while not (ended := watch.ended("writers")):
            pass
        return ended

    outcome = run_clients(contestant, [Role("writers", insert_share)], meanwhile=wait)
    assert outcome.meanwhile == outcome.returned["writers"] == [100]
    with pytest.raises(RuntimeError, match="no document"):
        run_clients(contestant, [Role("writers", fail)], meanwhile=wait)


def refuse(_station) -> None:
    raise Unsupported("has none")


def fail(_station) -> None:
    raise LookupError("no document")


@pytest.mark.parametrize(
    ("work", "kind", "message"),
    [(refuse, Unsupported, "has none"), (fail, RuntimeError, "'bad' failed: LookupError: no document"), (die, RuntimeError, "exit code 3")],
)
def test_a_failing_role_stops_all_roles(contestant, work, kind, message):
    with pytest.raises(kind, match=message):
        run_clients(contestant, [Role("readers", read_while_going, argument=10), Role("bad", work)], seconds=30)
