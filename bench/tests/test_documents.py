"""Document stores: given servers, FerretDB's program, requests to Couchbase and CouchDB, and the comments experiment."""

import subprocess
from datetime import datetime
from types import SimpleNamespace

import couchdb
import pytest
from couchbase import subdocument
from couchbase.exceptions import CollectionNotFoundException, DocumentNotFoundException, ScopeAlreadyExistsException
from couchdb.http import ServerError
from rich.progress import Progress

from bench.data import ALL, DATE, INTEGER, NESTED, TEXT, Query, Table
from bench.measure import DataSet
from bench.results import Recorder, read
from bench.targets import TARGETS, NotGiven, couchbase_client, ferretdb
from bench.targets.base import RELAXED, SYNCED, Unsupported
from bench.targets.couch_client import database_name, to_mango
from bench.targets.couch_client import to_id as text_id
from bench.tests.systems import options, started
from bench.workloads.comments import REPLICATED, SINGLE, Comments

TABLE = Table("notes", (("name", TEXT), ("n", INTEGER), ("at", DATE), ("tags", NESTED)))
KEY = b"twelve bytes"
NOON = datetime(2024, 2, 29, 12, 0, 0, 5000)
RECENT = Query("recent", (("equals", "name", "x"), ("above", "n", 3), ("at most", "n", 9), ("at least", "at", NOON)), ("at", "n"), "at", 7)
TAGGED = Query("tagged", (("exists", "tags", None), ("any", "tags", ("a", "b"))))


@pytest.fixture(scope="module")
def diwan(tmp_path_factory):
    """A Diwan that stands in for given servers."""
    target = started("diwan", tmp_path_factory.mktemp("diwan"))
    yield target
    target.stop()


def exercise(target, directory) -> None:
    """The lifecycle of a given server: found, used, left without the bench's databases."""
    target.start(directory)
    try:
        assert target.describe()["version"] and "as given by --" in target.describe()["settings"]
        assert target.pid
        client = target.connector(SYNCED)()
        for table in (TABLE, Table(TABLE.name, TABLE.fields, database="own")):
            client.create(table)
            client.insert_one(table, (KEY, {"n": 5}))
            assert client.count(table, ALL) == 1
        with pytest.raises(Unsupported):
            target.kill()
        client.close()
    finally:
        target.stop()
    target.start(directory)
    client = target.connector(SYNCED)()
    client.create(Table("other", ()))
    assert client.find_by_id(TABLE, KEY) is None
    target.stop()


def test_a_given_server_is_used_and_left_without_bench_databases(diwan, tmp_path):
    uri, url = diwan._instance.uri, diwan._instance.url
    for name, given in (
        ("mongodb", {"mongodb_uri": uri}),
        ("ferretdb", {"ferretdb_uri": uri}),
        ("mongodb-like", {"mongodb_like": f"another={uri}"}),
        ("couchdb", {"couchdb_url": url}),
    ):
        target = TARGETS[name].configured(options(**given))
        assert target.name == ("another" if name == "mongodb-like" else name)
        exercise(target, tmp_path)


def test_a_given_couchdb_replica_catches_up(diwan, tmp_path):
    (tmp_path / "second").mkdir()
    follower = started("diwan-http", tmp_path / "second")
    try:
        given = options(couchdb_url=diwan._instance.url, couchdb_replica_url=follower._instance.url)
        target = TARGETS["couchdb"].configured(given)
        target.start(tmp_path)
        client = target.connector(SYNCED)()
        client.create(TABLE)
        client.insert_one(TABLE, (KEY, {"n": 1}))
        target.start_replica(tmp_path, [TABLE])
        client.update_field(TABLE, KEY, "n", 2)
        target.await_replica(30)
        assert target.replica_connector()().find_by_id(TABLE, KEY) == {"n": 2}
        target.stop()
        left = couchdb.Server(follower._instance.url)
        assert database_name(TABLE) not in left and not [task for task in left.tasks() if task["type"] == "replication"]
    finally:
        follower.stop()


def test_couchdb_without_temporary_views_uses_find(diwan, tmp_path, monkeypatch):
    refused = []

    def query(*_):
        refused.append(1)
        raise ServerError((410, ("gone", "Temporary views are not supported in CouchDB")))

    monkeypatch.setattr(couchdb.Database, "query", query)
    target = TARGETS["couchdb"].configured(options(couchdb_url=diwan._instance.url))
    target.start(tmp_path)
    client = target.connector(SYNCED)()
    client.create(TABLE)
    client.insert_many(TABLE, [(b"%012d" % number, {"name": "x", "n": number, "tags": ["c", "b"]}) for number in range(40)])
    assert client.count(TABLE, TAGGED) == 40 and len(list(client.find(TABLE, Query("few", (("below", "n", 30),))))) == 30
    assert len(refused) == 1
    # Design documents, which contain the indexes, are not rows.
    client.create_index(TABLE, "n")
    assert client.count(TABLE, ALL) == len(list(client.find(TABLE, ALL))) == client.read_range(TABLE, b"%012d" % 0, 100) == 40
    totals = {"couchdb": {"map": "function (doc) { emit(doc.n % 2, doc.n); }", "reduce": "_sum", "options": {"group": True}}}
    assert [(row.key, row.value) for row in client.native(TABLE, totals)] == [(0, 380), (1, 400)]
    assert client.delete_many(TABLE, Query("some", (("at least", "n", 10),))) == 30
    assert client.delete_many(TABLE, ALL) == 10
    target.stop()


def test_queries_become_mango_selectors():
    assert to_mango(RECENT) == {
        "selector": {"name": {"$eq": "x"}, "n": {"$gt": 3, "$lte": 9}, "at": {"$gte": "2024-02-29T12:00:00.005Z"}},
        "fields": ["at", "n"],
        "sort": [{"at": "asc"}],
        "limit": 7,
    }
    assert to_mango(TAGGED, ("_id",))["selector"] == {"tags": {"$exists": True, "$in": ["a", "b"]}}
    assert [text_id(key) for key in (b"\1" * 12, "word", 3, -3)] == ["01" * 12, "word", "1000000003", "0999999997"]


def test_ferretdb_is_built_once_and_started_by_its_flags(tmp_path, monkeypatch):
    asked = []

    def run(command, **given):
        asked.append((command, given["env"]["GOBIN"]))
        return SimpleNamespace(returncode=1, stderr="go: reading https://somewhere: 403\n\tserver response: not to be had.\n")

    monkeypatch.setattr(ferretdb.shutil, "which", lambda name: "/usr/bin/go" if name == "go" else None)
    monkeypatch.setattr(ferretdb, "TOOLS", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    ferretdb.find_program.cache_clear()
    try:
        target = TARGETS["ferretdb"].configured(options())
        for _ in range(2):
            with pytest.raises(NotGiven, match="could not be built: server response: not to be had.$"):
                target.start(tmp_path)
            target.stop()
        assert asked == [(["go", "install", "github.com/FerretDB/FerretDB/cmd/ferretdb@v1.24.0"], str(tmp_path))]
    finally:
        ferretdb.find_program.cache_clear()
    flags = ferretdb.command(tmp_path / "ferretdb", tmp_path / "data", 1234, 1235)[1:]
    assert flags == [
        *("--handler=sqlite", f"--sqlite-url=file:{tmp_path}/data/", f"--state-dir={tmp_path}/data"),
        *("--listen-addr=127.0.0.1:1234", "--debug-addr=127.0.0.1:1235", "--telemetry=disable"),
    ]


class Recording:
    """Stands in for any object of Couchbase's SDK: records each call with its path, and answers by the last name of the path."""

    def __init__(self, calls: list, path: str = "", answers: dict | None = None) -> None:
        self._calls, self._path, self._answers = calls, path, answers or {}

    def __getattr__(self, name: str):
        return Recording(self._calls, f"{self._path}.{name}".strip("."), self._answers)

    def __call__(self, *arguments):
        self._calls.append((self._path, arguments))
        name = self._path.rpartition(".")[2]
        if name in self._answers:
            answer = self._answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer
        return Recording(self._calls, f"{self._path}({', '.join(map(str, arguments[:1]))})", self._answers)


@pytest.fixture
def couchbase(monkeypatch):
    """A Couchbase client with a recording cluster."""
    calls: list = []
    answers = {
        "create_scope": ScopeAlreadyExistsException(),
        "drop_collection": CollectionNotFoundException(),
        "get": DocumentNotFoundException(),
        "mutation_count": 3,
        "execute": [4],
        "rows": [{"n": 5}],
        "get_all_scopes": [SimpleNamespace(name=name) for name in ("_default", "bench", "bench_own", "benchmark")],
    }
    monkeypatch.setattr(couchbase_client, "Cluster", lambda *given: calls.append(("Cluster", given)) or Recording(calls, "", answers))
    target = TARGETS["couchbase"].configured(options(couchbase_url="couchbase://me:p%40ss@localhost/sample"))
    client = target.adapter("couchbase://me:p%40ss@localhost/sample", SYNCED)
    yield SimpleNamespace(client=client, calls=calls)
    client.close()


def test_couchbase_document_calls_match_the_sdk(couchbase):
    (name, (address, settings)), *_ = couchbase.calls
    assert (name, address) == ("Cluster", "couchbase://localhost")
    signing = settings["authenticator"].as_dict()
    assert (signing["username"], signing["password"]) == ("me", "p@ss")
    client = couchbase.client
    client.create(TABLE)
    assert [call for call in couchbase.calls if "collections()." in call[0]] == [
        ("bucket(sample).collections().create_scope", ("bench",)),
        ("bucket(sample).collections().drop_collection", ("bench", "notes")),
        ("bucket(sample).collections().create_collection", ("bench", "notes")),
    ]
    couchbase.calls.clear()
    client.insert_one(TABLE, (KEY, {"at": NOON}))
    client.insert_many(TABLE, [(3, {"n": 1}), ("word", {"n": 2})])
    client.update_field(TABLE, KEY, "n", 2)
    client.delete_one(TABLE, KEY)
    assert client.find_by_id(TABLE, KEY) is None
    place = "bucket(sample).scope(bench).collection(notes)"
    made = [(path.removeprefix(place), arguments) for path, arguments in couchbase.calls]
    insert, several, change, removal, look = made
    assert insert[:1] == (".insert",) and insert[1][:2] == (KEY.hex(), {"at": "2024-02-29T12:00:00.005Z"})
    assert several[0] == ".insert_multi" and several[1][0] == {"1000000003": {"n": 1}, "word": {"n": 2}}
    assert several[1][1]["return_exceptions"] is False
    assert change[0] == ".mutate_in" and change[1][:2] == (KEY.hex(), [subdocument.upsert("n", 2)])
    assert (removal[0], removal[1][0], look) == (".remove", KEY.hex(), (".get", (KEY.hex(),)))
    levels = [arguments[-1]["durability"].level.name for _, arguments in (insert, several, change, removal)]
    assert levels == ["PERSIST_TO_MAJORITY"] * 4


def test_queries_become_sql_plus_plus_for_couchbase(couchbase):
    client = couchbase.client
    client.create_index(TABLE, "n", "at")
    assert list(client.find(TABLE, RECENT)) == [{"n": 5}]
    assert client.count(TABLE, TAGGED) == 4
    assert client.delete_many(TABLE, ALL) == 3
    assert client.read_range(Table("notes", (), database="own"), 3, 5) == 1
    client.reset()
    asked = [(path, arguments) for path, arguments in couchbase.calls if path.endswith(".query")]
    statements = [arguments[0] for _, arguments in asked]
    assert statements == [
        "create index `by_n_at` on `notes`(`n`, `at`)",
        "create primary index if not exists on `notes`",
        "select meta(doc).id, doc.`at`, doc.`n` from `notes` as doc "
        "where doc.`name` = $v0 and doc.`n` > $v1 and doc.`n` <= $v2 and doc.`at` >= $v3 order by doc.`at` limit 7",
        "select raw count(*) from `notes` as doc where doc.`tags` is not missing "
        "and (doc.`tags` in $v1 or any one in doc.`tags` satisfies one in $v1 end)",
        "delete from `notes` as doc where true",
        "create primary index if not exists on `notes`",
        "select meta(doc).id, doc.* from `notes` as doc where meta(doc).id >= $start order by meta(doc).id limit 5",
    ]
    assert asked[2][1][1]["named_parameters"] == {"v0": "x", "v1": 3, "v2": 9, "v3": "2024-02-29T12:00:00.005Z"}
    assert asked[3][1][1]["named_parameters"] == {"v1": ["a", "b"]}
    assert asked[-1][0].startswith("bucket(sample).scope(bench_own)")
    dropped = [arguments for path, arguments in couchbase.calls if path.endswith("drop_scope")]
    assert dropped == [("bench",), ("bench_own",)]


@pytest.mark.parametrize("name", ["null-mongo", "null-http", "null-postgres"])
def test_null_servers_answer_every_kind_of_request(name, tmp_path):
    target = TARGETS[name].configured(options())
    target.start(tmp_path)
    try:
        client = target.connector(RELAXED)()
        client.create(TABLE)
        for _ in range(8):  # psycopg prepares repeated statements
            client.update_field(TABLE, KEY, "n", 1)
            client.delete_one(TABLE, KEY)
            assert client.delete_many(TABLE, TAGGED) == 1
            assert len(list(client.find(TABLE, TAGGED))) == client.read_range(TABLE, KEY, 10) == 1
        client.create_index(TABLE, "n")
        client.close()
    finally:
        target.stop()


class Brief(Comments):
    """A few comments."""

    def data_sets(self) -> list[DataSet]:
        return [one for one in super().data_sets() if one.durability == RELAXED]


def test_comments_run_with_and_without_a_replica(tmp_path):
    settings = options(scale=0.001, batches=2, rounds=1, clients=2)
    if not settings.diwan_program.is_file():
        pytest.skip("Diwan is not built (cargo build --bin diwan)")
    recorder = Recorder(tmp_path)
    targets = [TARGETS[name].configured(settings) for name in ("diwan", "diwan-http", "sqlite", "null-mongo")]
    Brief(settings, targets, recorder, tmp_path / "tmp").run(Progress(disable=True), {})
    recorder.close()
    records = read(tmp_path)
    assert not [one for one in records if one["record"] == "failure"]
    samples = [one for one in records if one["record"] == "sample" and one["target"] == "diwan"]
    operations = {shape: [one["operation"] for one in samples if one["shape"] == shape] for shape in (SINGLE, REPLICATED)}
    assert operations == {SINGLE: ["insert", "update", "select", "delete"] * 2, REPLICATED: ["insert", "update", "delete"] * 2}
    assert all(one["operations"] == 100 for one in samples if one["operation"] != "select")
    assert [one["target"] for one in records if one["record"] == "unsupported"] == ["sqlite"]
    lags = [one for one in records if one["record"] == "figure" and one["target"] == "diwan-http"]
    assert len(lags) == 6 and all(0 <= one["value"] < 30 for one in lags)
