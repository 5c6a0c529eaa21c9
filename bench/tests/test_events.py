"""JSONBench: generated data against the published shares, expected answers, and a complete run of all dialects at the smallest scale."""

import hashlib
import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from bench.targets.base import RELAXED, Unsupported
from bench.tests.experiments import failures, measured, ran
from bench.workloads import events
from bench.workloads.events_data import COLLECTIONS, LIKE, POST, REPOST, Events
from bench.workloads.events_queries import QUESTIONS, Answers

SIZE = 20_000


@pytest.fixture(autouse=True)
def once(monkeypatch) -> None:
    """Runs queries only once, because the tests measure nothing."""
    monkeypatch.setattr(events, "repeated", lambda contestant, work: events.stretch(contestant, 1, work))


@pytest.fixture(scope="module")
def made() -> list[dict]:
    return list(Events(SIZE).at(0, SIZE))


def test_events_are_equal_in_every_run_and_range(made):
    lines = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in made[:2_000])
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == "220f819fd7c54a40"
    assert list(Events(SIZE).at(1_990, 3_010)) == made[1_990:3_010]
    assert 460 < sum(len(json.dumps(event, separators=(",", ":"))) for event in made) / SIZE < 500
    assert all(one["time_us"] < other["time_us"] for one, other in zip(made, made[1:]))


def test_events_have_the_published_shares_and_users(made):
    total, created, users = Counter(), Counter(), defaultdict(set)
    for event in made:
        collection = event.get("commit", {}).get("collection")
        total[collection] += 1
        if collection and event["commit"]["operation"] == "create":
            created[collection] += 1
            users[collection].add(event["did"])
    part = SIZE / 1_000_000
    for collection in COLLECTIONS[:5]:
        assert total[collection.name] == pytest.approx(collection.events * part, rel=0.15)
        assert created[collection.name] == pytest.approx(collection.creates * part, rel=0.15)
        assert len(users[collection.name]) == pytest.approx(collection.users * part, rel=0.15)
    assert total[None] == pytest.approx((1_000_000 - sum(one.events for one in COLLECTIONS)) * part, rel=0.3)
    posts = [event["commit"]["record"] for event in made if event.get("commit", {}).get("collection") == POST and "record" in event["commit"]]
    assert any("reply" in post for post in posts) and any("facets" in post for post in posts) and any("embed" in post for post in posts)


def event_of(user: str, hour: int, collection: str | None, operation: str = "create", second: int = 0) -> dict:
    time_us = int(datetime(2024, 11, 21, hour, 0, second, tzinfo=UTC).timestamp()) * 1_000_000
    event = {"did": user, "time_us": time_us, "kind": "commit" if collection else "identity"}
    return {**event, "commit": {"operation": operation, "collection": collection}} if collection else event


def test_answers_match_hand_made_events():
    answers = Answers()
    for event in (
        *(event_of("a", 1, POST), event_of("a", 3, POST), event_of("b", 2, POST), event_of("c", 2, POST, second=1), event_of("d", 5, POST)),
        *(event_of("a", 1, LIKE), event_of("b", 1, LIKE), event_of("c", 1, LIKE, "delete"), event_of("c", 4, REPOST), event_of("d", 1, None)),
    ):
        answers.add(event)
    start = int(datetime(2024, 11, 21, tzinfo=UTC).timestamp()) * 1_000_000
    hour = 3_600_000_000
    right = {
        "Q1": [(POST, 5), (LIKE, 3), (REPOST, 1), (None, 1)],
        "Q2": [(POST, 5, 4), (LIKE, 2, 2), (REPOST, 1, 1)],
        "Q3": [(LIKE, 1, 2), (POST, 1, 1), (POST, 2, 2), (POST, 3, 1), (REPOST, 4, 1), (POST, 5, 1)],
        "Q4": [("a", start + hour), ("b", start + 2 * hour), ("c", start + 2 * hour + 1_000_000)],
        "Q5": [("a", 2 * hour), ("b", 0), ("c", 0)],
    }
    for name, rows in right.items():
        answers.check(name, rows)
        for wrong in (rows[:-1], [*rows, rows[-1]], [(*rows[0][:-1], rows[0][-1] + 2_000), *rows[1:]]):
            with pytest.raises(AssertionError):
                answers.check(name, wrong)
    answers.check("Q1", [right["Q1"][number] for number in (0, 1, 3, 2)])
    answers.check("Q5", [("a", 2 * hour + 400), ("d", 0), ("b", 0)])
    for name in ("Q1", "Q3", "Q4"):
        with pytest.raises(AssertionError):
            answers.check(name, [right[name][1], right[name][0], *right[name][2:]])


def test_every_query_has_a_statement_in_every_dialect():
    dialects = {question.name: {*question.statements, *question.indexed} for question in QUESTIONS}
    assert list(dialects) == ["Q1", "Q2", "Q3", "Q4", "Q5"]
    assert len({frozenset(spoken) for spoken in dialects.values()}) == 1
    queries = events.Queries(events.LEAST, 1)
    client = type("Client", (), {"dialect": "couchdb"})()
    with pytest.raises(Unsupported):
        queries._statements(QUESTIONS[0], client, indexed=False)


def test_every_system_gives_the_expected_answers(system):
    contestant = SimpleNamespace(client=system.connector(RELAXED)(), server_cpu=lambda: None)
    if not contestant.client.dialect:
        pytest.skip("has no queries of its own")
    queries = events.Queries(events.LEAST, 1)
    contestant.client.create(events.TABLE)
    queries._load(contestant, 0)
    for question in QUESTIONS:
        # A wrong answer is an error.
        if contestant.client.dialect != "couchdb":
            queries._ask(question, False, contestant, 0)
    queries._build_index(contestant.client)
    for question in QUESTIONS:
        assert queries._ask(question, True, contestant, 0)["rows"] > 0
    contestant.client.drop(events.TABLE)
    contestant.client.close()


def test_an_events_run_records_every_stage(monkeypatch, tmp_path):
    monkeypatch.setattr(events, "SLICE", 400)
    records = ran(events.EventsExperiment, ("sqlite", "diwan", "diwan-http", "null-mongo"), tmp_path, scale=0.001)
    assert failures(records) == []
    for target in measured(records):
        done = Counter(one["operation"] for one in records if one["record"] == "sample" and one["target"] == target)
        plainly = {} if target == "diwan-http" else {question.name: 1 for question in QUESTIONS}
        indexed = {events.INDEX: 1, **{f"{question.name}, {events.INDEXED}": 1 for question in QUESTIONS}}
        assert done == {events.LOAD: 3, **(plainly | indexed if target != "null-mongo" else {})}
