"""The simulation of the commit path: against closed formulas, and what must hold in every run."""

from pathlib import Path
from random import Random

import psycopg
import pytest

from bench.simulate import tables
from bench.simulate.__main__ import duration, main
from bench.simulate.clock import Clock, Places, Together
from bench.simulate.measure import measured
from bench.simulate.process import Process
from bench.simulate.results import percentile
from bench.simulate.run import simulate
from bench.simulate.server import Head
from bench.simulate.settings import Settings
from bench.simulate.store import postgres
from bench.targets.postgres import find_programs
from bench.tests.systems import opened

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
RTT, SYNC = 2e-3, 1e-3


def exact(**changes) -> Settings:
    """Settings without chance and without any cost but the network's and the disk's."""
    plain = {"rtt": RTT, "sync": SYNC, "spread": 0, "message": 0, "row_group": 0, "evaluation": 0, "follows": False, "clients": 1}
    return Settings(**(plain | changes))


@pytest.mark.parametrize(("rtt", "sync"), [(0.5e-3, 0.1e-3), (1e-3, 5e-3), (10e-3, 1e-3)])
def test_one_client_commits_once_in_two_round_trips_and_a_sync(rtt, sync):
    results = simulate(exact(processes=1, rtt=rtt, sync=sync, seconds=20.0))
    assert results.commits_per_second == pytest.approx(1 / (2 * rtt + sync), rel=2e-3)
    assert [results.latency("write", percent) for percent in (1, 100)] == pytest.approx([2 * rtt + sync] * 2)
    assert results.stale_groups == 0 and results.group_size == 1


def test_one_client_also_waits_for_the_work_of_server_and_process():
    results = simulate(exact(processes=1, message=1e-4, row_group=2e-4, evaluation=3e-4))
    assert results.latency("write", 100) == pytest.approx(2 * RTT + SYNC + 2 * 1e-4 + 2e-4 + 3e-4)
    assert results.server_cores_used == pytest.approx(4e-4 * results.commits_per_second, rel=0.01)


@pytest.mark.parametrize("clients", [2, 8, 64])
def test_half_of_the_clients_of_one_process_share_each_group(clients):
    # The first answered client begins the next group before the others of its group have evaluated their writes.
    results = simulate(exact(processes=1, clients=clients, evaluation=1e-6, process_cores=1))
    assert results.group_size == pytest.approx(clients / 2, rel=0.01)
    assert results.writes_per_second == pytest.approx(clients / 2 / (2 * RTT + SYNC), rel=0.01)


@pytest.mark.parametrize("processes", [3, 8, 20])
@pytest.mark.parametrize(("catch_up", "trips"), [(2, 1), (0, 1), (0, 0)])
def test_full_processes_take_turns_at_the_lock(processes, catch_up, trips):
    evaluation = 1e-4
    settings = exact(processes=processes, clients=8, catch_up=catch_up, trips=trips, evaluation=evaluation, warm_up=2.0, seconds=10.0)
    results = simulate(settings)
    held = (catch_up + 1) * RTT + SYNC + evaluation * 8 / settings.process_cores
    assert results.commits_per_second == pytest.approx(1 / held, rel=0.01)
    assert results.group_size == pytest.approx(8, rel=0.02) and results.stale_share == 1 and results.lock_share == pytest.approx(1, rel=0.01)
    assert results.latency("write", 50) == pytest.approx(processes * held, rel=0.02)


@pytest.mark.parametrize("changes", [{}, {"keeps_lock": False}, {"trips": 0}, {"stripes": 4}, {"stripes": 4, "wide": 0.2}, {"follows": True}])
def test_no_run_commits_more_often_than_its_locks_allow(changes):
    settings = Settings(processes=6, seconds=1.0, spread=0.0, **changes)
    results = simulate(settings)
    assert 0 < results.commits_per_second <= settings.stripes / (settings.trips * settings.rtt + settings.sync)
    assert results.lock_share <= 1.001


@pytest.mark.parametrize(("warms", "cold"), [(False, 8), (True, 0)])
def test_storage_is_waited_for_under_the_lock_unless_pages_are_read_before(warms, cold):
    full = exact(processes=3, clients=8, storage=1e-3, warms=warms, evaluation=4e-6, warm_up=2.0, seconds=10.0)
    held = 3 * RTT + SYNC + 8e-6
    assert simulate(full).commits_per_second == pytest.approx(1 / (held + cold * 1e-3), rel=0.01)
    alone = simulate(exact(processes=1, storage=1e-3, warms=warms))
    assert alone.latency("write", 100) == pytest.approx((3 if warms else 2) * RTT + SYNC + 1e-3)


def test_queueing_twice_costs_a_second_turn():
    full = {"processes": 3, "clients": 8, "warm_up": 2.0, "seconds": 10.0, "evaluation": 1e-6}
    kept, again = simulate(exact(**full)), simulate(exact(**full, keeps_lock=False))
    assert again.latency("write", 50) > 1.01 * kept.latency("write", 50)
    assert again.stale_share == 1 and again.evaluated_again == again.writes


@pytest.mark.parametrize("changes", [{}, {"follows": False}, {"keeps_lock": False}, {"stripes": 4, "wide": 0.2}, {"writes": 0.5}, {"group_limit": 5}])
def test_no_group_is_committed_that_does_not_know_those_before_it(monkeypatch, changes):
    committed, advance = [], Head.advance

    def checked(head: Head, process: Process) -> None:
        known = process._applied[process._server.heads.index(head)]
        committed.append(known >= head.last_foreign(process))
        advance(head, process)

    monkeypatch.setattr(Head, "advance", checked)
    results = simulate(Settings(processes=5, seconds=1.0, **changes))
    assert results.stale_groups and len(committed) > 100 and all(committed)


def test_two_processes_that_write_in_turn_are_stale_each_time():
    results = simulate(exact(processes=2, warm_up=1.0, seconds=5.0))
    assert results.stale_share == 1 and results.commits_per_second == pytest.approx(1 / (3 * RTT + SYNC), rel=0.01)


def test_a_process_that_follows_is_stale_less_often():
    light = {"processes": 4, "rate": 50.0, "seconds": 20.0}
    following, blind = simulate(Settings(**light)), simulate(Settings(**light, follows=False))
    assert following.stale_share < 0.3 < 0.6 < blind.stale_share
    assert following.counts["journal read"] > 2.5 * following.groups and "journal read" not in blind.counts


def test_an_open_loop_answers_what_arrives_until_the_group_limit_is_reached():
    light = simulate(Settings(processes=4, rate=400.0, seconds=10.0, warm_up=1.0))
    assert light.writes_per_second == pytest.approx(400, rel=0.05) and light.unanswered < 20
    full = simulate(exact(processes=4, rate=4000.0, group_limit=10, seconds=5.0))
    assert full.writes_per_second == pytest.approx(10 / (3 * RTT + SYNC), rel=0.02)
    assert full.unanswered > 10_000


def test_the_mean_number_under_way_is_the_rate_times_the_mean_latency():
    settings = Settings(processes=4, clients=10, think=20e-3, warm_up=1.0, seconds=20.0)
    durations = simulate(settings).durations["write"]
    mean = sum(durations) / len(durations)
    assert len(durations) / settings.seconds == pytest.approx(40 / (mean + settings.think), rel=0.03)


def test_a_read_takes_a_round_trip_and_its_evaluation():
    results = simulate(exact(processes=1, writes=0, evaluation=1e-4))
    assert results.latency("read", 100) == pytest.approx(RTT + 1e-4)
    assert results.counts == {"heads read": pytest.approx(results.seconds / (RTT + 1e-4), rel=0.01)}


def test_a_read_that_lacks_something_takes_two_round_trips():
    assert simulate(exact(processes=1, writes=0, misses=1)).latency("read", 1) == pytest.approx(2 * RTT)


def test_reads_that_wait_together_share_the_head():
    results = simulate(exact(processes=1, writes=0, clients=100, evaluation=1e-6))
    assert results.per_second(results.counts["heads read"]) == pytest.approx(1 / RTT, rel=0.01)
    assert results.reads_per_second > 45 / RTT
    # A reader that arrives during a reading waits for the next one.
    assert results.latency("read", 100) <= 2 * RTT + 100e-6


def test_a_read_reads_the_journal_if_others_have_written():
    results = simulate(Settings(processes=2, writes=0.3, clients=4, follows=False, seconds=2.0))
    assert results.counts["journal read"] > 0.5 * results.groups
    # A process reads it for itself only if it sees its own group before it has its answer.
    alone = simulate(Settings(processes=1, writes=0.3, clients=4, follows=False, seconds=2.0))
    assert alone.counts["journal read"] < 0.05 * alone.groups


def test_stripes_commit_side_by_side_and_share_syncs():
    load = {"processes": 8, "follows": False, "seconds": 1.0}
    one, four = simulate(Settings(**load)), simulate(Settings(**load, stripes=4))
    assert four.commits_per_second > 3.5 * one.commits_per_second
    sixteen = simulate(Settings(**load, stripes=16))
    assert sixteen.syncs < 0.5 * sixteen.groups


def test_stripes_do_not_help_one_hot_collection():
    load = {"processes": 4, "hot": 1.0, "follows": False, "seconds": 1.0}
    one, many = simulate(Settings(**load)), simulate(Settings(**load, stripes=16))
    assert many.commits_per_second == pytest.approx(one.commits_per_second, rel=0.01)


def test_writes_over_two_stripes_cost_their_neighbours():
    load = {"processes": 8, "stripes": 4, "follows": False, "seconds": 1.0}
    narrow, wide = simulate(Settings(**load)), simulate(Settings(**load, wide=0.1))
    assert wide.writes_per_second < 0.5 * narrow.writes_per_second


def test_the_same_seed_has_the_same_results():
    settings = Settings(processes=4, writes=0.5, misses=0.1, wide=0.1, stripes=4, seconds=0.5)
    assert simulate(settings) == simulate(settings)
    assert simulate(settings).durations != simulate(Settings(**(settings.__dict__ | {"seed": 2}))).durations


def test_a_head_knows_the_last_group_of_others():
    head, one, other = Head(Clock()), object(), object()
    assert head.last_foreign(one) == 0
    head.advance(one)
    head.advance(one)
    assert (head.last_foreign(one), head.last_foreign(other)) == (0, 2)
    head.advance(other)
    assert (head.last_foreign(one), head.last_foreign(other)) == (3, 2)


def test_places_are_given_in_the_order_of_asking():
    clock, lock, order = Clock(), Places(), []

    def visit(name: int):
        yield name * 1e-3
        yield from lock.take()
        order.append((name, round(clock.now, 6)))
        yield 0.01
        lock.leave()

    for name in (3, 1, 2):
        clock.spawn(visit(name))
    clock.run(1.0)
    assert order == [(1, 0.001), (2, 0.011), (3, 0.021)]


def test_work_done_together_serves_those_who_came_before_it_began():
    clock, ended = Clock(), []

    def work():
        yield 1.0

    def visit(name: str, at: float):
        yield at
        yield from together.join()
        ended.append((name, clock.now))

    together = Together(clock, work)
    for name, at in (("first", 0.0), ("during", 0.1), ("during too", 0.9), ("later", 5.0)):
        clock.spawn(visit(name, at))
    clock.run(10.0)
    assert ended == [("first", 1.0), ("during", 2.0), ("during too", 2.0), ("later", 6.0)] and together.times == 3


def test_percentiles_are_the_smallest_values_that_cover_the_share():
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, percent) for percent in (1, 50, 99, 99.9, 100)] == [1, 50, 99, 100, 100]
    shuffled = values[:]
    Random(1).shuffle(shuffled)
    assert percentile(sorted(shuffled), 90) == 90 and percentile([], 50) != percentile([], 50)


@pytest.mark.parametrize("bad", [{"processes": 0}, {"rtt": -1}, {"writes": 1.5}, {"trips": 2}, {"seconds": 0}, {"clients": 0}, {"catch_up": -1}])
def test_settings_refuse_what_makes_no_sense(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings(**bad)


def test_durations_have_units():
    assert [duration(text) for text in ("0.5ms", "50us", "50µs", "2s", "2", ".5 ms")] == pytest.approx([5e-4, 5e-5, 5e-5, 2, 2, 5e-4])


@pytest.mark.parametrize("arguments", [["--rtt", "fast"], ["--rtt", "-1ms"], ["--processes", "0"], ["--stripes", "x"], ["--unknown", "1"]])
def test_the_command_line_refuses_bad_values(arguments, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["run", *arguments])
    assert refused.value.code == 2 and "error:" in capsys.readouterr().err


def test_the_command_line_prints_the_figures(capsys):
    assert main(["run", "--processes", "1", "--clients", "1", "--rtt", "1ms", "--sync", "1ms", "--spread", "0", "--seconds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "commits/s                                310" in printed and "write, ms" in printed


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--directory", "no/such/directory"]])
def test_the_command_line_refuses_what_cannot_be_measured(arguments, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["measure", *arguments])
    assert refused.value.code == 2 and "error:" in capsys.readouterr().err


@pytest.mark.skipif(not find_programs(), reason="needs PostgreSQL's programs")
def test_committers_over_a_real_server_count_every_group_once(tmp_path):
    with postgres(opened(tmp_path)) as cluster:
        rate, committers = measured(cluster.address, 0.5, 3, writes=2)
        with psycopg.connect(cluster.address) as session:
            groups, last, by = session.execute("SELECT count(*), max(number), count(DISTINCT process) FROM journal").fetchone()
            head = session.execute("SELECT number FROM head WHERE stripe = 0").fetchone()[0]
    assert rate > 0 and groups == last == head == sum(committer.all_commits for committer in committers) and by == 3
    assert sum(committer.stale for committer in committers) > 0


def test_tables_names_an_unknown_table(tmp_path, capsys):
    document = tmp_path / "page.md"
    document.write_text("<!-- simulated: nonsense -->\n<!-- end -->\n")
    with pytest.raises(SystemExit):
        main(["tables", str(document)])
    assert "'nonsense'" in capsys.readouterr().err


def test_tables_writes_only_between_its_comments(tmp_path, monkeypatch):
    small = tables.Table(("a", "b"), lambda run: [(tables.rounded(run(exact(processes=1)).commits_per_second), "x")])
    monkeypatch.setitem(tables.TABLES, "small", small)
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- simulated: small -->\nold\n<!-- end -->\nafter\n")
    assert main(["tables", str(document)]) == 0
    assert document.read_text() == "before\n<!-- simulated: small -->\n| a | b |\n| --- | --- |\n| 200 | x |\n<!-- end -->\nafter\n"


def test_the_document_has_every_table_once():
    assert sorted(tables.names(DOCUMENT.read_text(encoding="utf-8"))) == sorted(tables.TABLES)


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_document_has_the_table_as_simulated(name):
    assert tables.BEGIN.format(name) + "\n" + tables.TABLES[name].markdown() + tables.END in DOCUMENT.read_text(encoding="utf-8")
