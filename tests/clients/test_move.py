"""`diwan move`: both faces show the same before and after; kills, changes in between, and refusals.

With DIWAN_TEST_POSTGRES, directories and schemas of that server are moved to each other, else directories alone.
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from bson import Binary, Decimal128, Int64, ObjectId
from bson.raw_bson import RawBSONDocument
from http_client import Http
from postgres_server import programs
from pymongo import MongoClient
from server_process import ServerProcess, binary

ROOT = ("ada", "first secret")
POSTGRES = os.environ.get("DIWAN_TEST_POSTGRES")
KINDS = ("directory", "postgres") if POSTGRES else ("directory",)
SECONDS = 300


@dataclass
class Place:
    """A directory or a schema that nothing is in yet."""

    kind: str
    directory: Path
    name: str = field(default_factory=lambda: f"move_{uuid.uuid4().hex}")

    @property
    def argument(self) -> str:
        return str(self.directory / self.name) if self.kind == "directory" else f"{POSTGRES}?schema={self.name}"

    @property
    def flags(self) -> list[str]:
        return ["--data" if self.kind == "directory" else "--store", self.argument]

    def server(self, predecessor: ServerProcess | None = None) -> ServerProcess:
        """A server here, on the ports of another that has ended."""
        home = self.directory / f"server-{uuid.uuid4().hex[:8]}"
        home.mkdir()
        process = ServerProcess(home, data=self.directory / self.name)
        process.postgres = POSTGRES if self.kind == "postgres" else None
        process.schema = self.name
        if predecessor:
            process.port, process.http_port = predecessor.port, predecessor.http_port
        return process

    def check(self) -> None:
        checked = diwan("check", *self.flags)
        assert checked.returncode == 0 and "everything agrees" in checked.stdout, checked.stdout + checked.stderr


def diwan(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def start_move(source: Place, target: Place) -> subprocess.Popen:
    command = [binary(), "move", "--from", source.argument, "--to", target.argument]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def move(source: Place, target: Place) -> str:
    """Moves; what was printed."""
    moved = diwan("move", "--from", source.argument, "--to", target.argument)
    assert moved.returncode == 0, moved.stderr
    return moved.stdout


def refusal(source: str, target: str) -> str:
    """Why a move is refused."""
    refused = diwan("move", "--from", source, "--to", target)
    assert refused.returncode == 1 and not refused.stdout, refused.stdout
    assert refused.stderr.startswith("diwan: ") and "panicked" not in refused.stderr
    return refused.stderr


def signed_in(server: ServerProcess) -> tuple[MongoClient, Http]:
    session = requests.Session()
    session.auth = ROOT
    return MongoClient(server.uri, username=ROOT[0], password=ROOT[1]), Http(server.url, session)


def fill(server: ServerProcess) -> None:
    """Documents, indexes, revisions, attachments, views, users and settings, written through both faces."""
    with MongoClient(server.uri) as client:
        client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
    client, http = signed_in(server)
    with client:
        fill_over_mongodb(client)
    fill_over_http(http)


def fill_over_mongodb(client: MongoClient) -> None:
    client.shop.command("createUser", "app", pwd="second secret", roles=["readWrite"])
    things = client.shop.things
    things.create_index([("n", 1), ("tags", -1)], name="by_n")
    things.create_index("unique", unique=True, sparse=True)
    things.create_index("$**", name="all")
    things.create_index("text", name="german", collation={"locale": "de", "strength": 2})
    values = [1, Int64(2**60), 1.5, Decimal128("4.50"), "text", ObjectId(), None, [1, [2, {}]], {"a": {}}, Binary(b"\0\xff")]
    things.insert_many([{"_id": n, "n": n % 7, "tags": [n, "x"], "value": values[n % 10], "unique": n} for n in range(500)])
    things.insert_many([{"_id": value} for value in values if not isinstance(value, (list, int))])
    # PostgreSQL has the ends of long keys in a column of their own.
    things.insert_many([{"_id": "long " * 1000 + end, "text": "A" * 3000 + end} for end in ("b", "", "a", "\uffff", "a" * 5000)])
    things.update_many({"n": 3}, {"$set": {"changed": True}})
    things.delete_many({"n": 5})
    client.shop.create_collection("capped", capped=True, size=10_000, max=5)
    client.shop.capped.insert_many([{"_id": n} for n in range(12)])
    client.shop.create_collection("threes", viewOn="things", pipeline=[{"$match": {"n": 3}}])
    client.shop.create_collection("checked", validator={"n": {"$type": "int"}})
    with client.start_session() as session, session.start_transaction():
        client.shop.checked.insert_one({"_id": "t", "n": 1}, session=session)
        client.shop.checked.insert_one({"_id": "u", "n": 2}, session=session)


def fill_over_http(http: Http) -> None:
    cars = http.database("cars")
    assert cars.put().status_code == 201
    assert cars.put("_security", json={"members": {"names": ["app"]}}).status_code == 200
    assert cars.put("_revs_limit", data="50").status_code == 200
    assert cars.put("_local/here", json={"at": 7}).status_code == 201
    views = {"by_year": {"map": "function (doc) { emit(doc.year, doc.wheels) }", "reduce": "_sum"}}
    assert cars.put("_design/cars", json={"views": views}).status_code == 201
    for n in range(60):
        revision = cars.put(f"car{n}", json={"year": 1950 + n, "wheels": 4}).json()["rev"]
        for wheels in range(n % 4):
            answer = cars.put(f"car{n}", json={"_rev": revision, "year": 1950 + n, "wheels": wheels})
            revision = answer.json()["rev"]
        if n % 10 == 9:
            assert cars.delete(f"car{n}", params={"rev": revision}).status_code == 200
        if n % 20 == 0:
            content = random.Random(n).randbytes(100_000 * (n + 1))
            stored = cars.put(f"car{n}/picture", params={"rev": revision}, data=content, headers={"Content-Type": "image/x"})
            assert stored.status_code == 201, stored.text
    for hash in ("a" * 32, "b" * 32):
        body = {"docs": [{"_id": "conflict", "_rev": f"1-{hash}", "from": hash[0]}], "new_edits": False}
        assert cars.post("_bulk_docs", json=body).status_code == 201
    index = {"index": {"fields": ["year"]}, "ddoc": "mango", "name": "years"}
    assert cars.post("_index", json=index).json()["result"] == "created"
    assert cars.get("_design/cars/_view/by_year").status_code == 200
    assert http.put("_node/_local/_config/couchdb/max_document_size", json="4000000").status_code == 200


def followed(server: ServerProcess) -> dict:
    """Follows a collection and inserts two documents; the token of the first."""
    client, _ = signed_in(server)
    with client, client.shop.things.watch(max_await_time_ms=5000) as stream:
        client.shop.things.insert_many([{"_id": "first"}, {"_id": "second"}])
        event = stream.try_next()
        assert event["documentKey"] == {"_id": "first"}
        return event["_id"]


def picture(server: ServerProcess) -> dict[str, object]:
    """All that both faces show, as bytes where they send documents."""
    client, http = signed_in(server)
    with client:
        shown = picture_over_mongodb(client)
    shown |= picture_over_http(http)
    return shown


def picture_over_mongodb(client: MongoClient) -> dict[str, object]:
    shown: dict[str, object] = {"users": client.admin.command("usersInfo", {"forAllDBs": True}, showCredentials=True)["users"]}
    for database in sorted(client.list_database_names()):
        collections = sorted(client[database].list_collections(), key=lambda collection: collection["name"])
        shown[f"collections of {database}"] = collections
        for name in (collection["name"] for collection in collections):
            collection = client[database].get_collection(name, client.codec_options.with_options(document_class=RawBSONDocument))
            shown[f"documents of {database}.{name}"] = [document.raw for document in collection.find()]
            if name != "threes" and name != "system.views":
                shown[f"indexes of {database}.{name}"] = list(client[database][name].list_indexes())
                stats = client[database].command("collStats", name)
                shown[f"figures of {database}.{name}"] = [stats[field] for field in ("count", "size", "nindexes")]
    by_n = client.shop.things.find({"n": 3}).explain()["queryPlanner"]["winningPlan"]
    assert "IXSCAN" in str(by_n)
    shown["found by index"] = list(client.shop.things.find({"n": 3}, {"_id": 1}))
    shown["found by collation"] = list(client.shop.things.find({"text": "A"}).collation({"locale": "de", "strength": 2}))
    return shown


def picture_over_http(http: Http) -> dict[str, object]:
    every = {"include_docs": "true", "attachments": "true", "conflicts": "true"}
    names = http.get("_all_dbs").json()
    shown: dict[str, object] = {"databases": names}
    for section, settings in http.get("_node/_local/_config").json().items():
        shown |= {f"setting {section}/{key}": value for key, value in settings.items()}
    # A server takes a new one at each start.
    del shown["setting couchdb/uuid"]
    for name in names:
        database = http.database(name)
        about = database.get().json()
        shown[f"{name}"] = {field: about[field] for field in ("doc_count", "doc_del_count", "update_seq", "purge_seq")}
        for path, parameters in [
            ("_all_docs", every),
            ("_changes", {**every, "style": "all_docs"}),
            ("_local_docs", {"include_docs": "true"}),
            ("_security", {}),
            ("_revs_limit", {}),
            ("_index", {}),
        ]:
            answer = database.get(path, params=parameters)
            assert answer.status_code == 200, answer.text
            shown[f"{name}/{path}"] = answer.content
    cars = http.database("cars")
    for n in range(60):
        shown[f"cars/car{n}"] = cars.get(f"car{n}", params={"open_revs": "all", "revs": "true"}, headers={"Accept": "application/json"}).content
    shown["cars/conflict"] = cars.get("conflict", params={"revs": "true", "conflicts": "true"}).content
    shown["attachment"] = cars.get("car40/picture").content
    shown["view"] = cars.get("_design/cars/_view/by_year", params={"reduce": "false"}).content
    shown["reduced"] = cars.get("_design/cars/_view/by_year", params={"group": "true"}).content
    shown["index of the view"] = cars.get("_design/cars/_info").json()["view_index"]["update_seq"]
    shown["found"] = cars.post("_find", json={"selector": {"year": {"$gt": 2000}}}).content
    return shown


def differences(before: dict[str, object], after: dict[str, object]) -> dict[str, tuple]:
    return {name: (before.get(name), after.get(name)) for name in before | after if before.get(name) != after.get(name)}


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("origin", KINDS)
def test_both_faces_show_the_same_after_a_move(origin, to, tmp_path):
    source, target = Place(origin, tmp_path), Place(to, tmp_path)
    server = source.server().start()
    fill(server)
    # The first sign-in over HTTP changes how a password is stored.
    picture(server)
    token = followed(server)
    before = picture(server)
    assert len(before["documents of shop.things"]) > 400 and len(before["attachment"]) == 4_100_000
    assert not differences(before, picture(server))
    server.end()
    printed = move(source, target)
    assert "source and target are equal" in printed and "XXH3-128" in printed
    target.check()
    # The settings show the ports.
    server = target.server(server).start()
    assert not differences(before, picture(server))
    # Followers go on where they were, and the new store is a store like any other.
    client, http = signed_in(server)
    since = before["cars"]["update_seq"]
    assert http.get("cars/_changes", params={"since": since}).json() == {"last_seq": since, "pending": 0, "results": []}
    with client:
        with client.shop.things.watch(resume_after=token, max_await_time_ms=5000) as stream:
            assert stream.try_next()["documentKey"] == {"_id": "second"}
        assert client.shop.things.insert_one({"n": 3}).acknowledged
        assert client.shop.things.count_documents({"n": 3}) == len(before["found by index"]) + 1
    assert http.put("cars/new", json={"year": 2020}).status_code == 201
    server.end()
    target.check()
    # The old one is as it was.
    source.check()
    server = source.server(server).start()
    assert not differences(before, picture(server))
    server.end()


def fill_with_bulk(server: ServerProcess) -> None:
    """Documents that take several runs of a move: many small ones, some large ones, and an attachment."""
    with MongoClient(server.uri) as client:
        draw = random.Random(1)
        for first in range(0, 30_000, 5_000):
            client.test.small.insert_many([{"_id": n, "n": -n} for n in range(first, first + 5_000)])
        client.test.small.create_index("n")
        for number in range(60):
            client.test.large.insert_one({"_id": number, "bytes": draw.randbytes(1_000_000)})
    http = Http(server.url)
    assert http.put("files").status_code == 201
    assert http.put("files/one/content", data=draw.randbytes(40_000_000)).status_code == 201


def bulk(server: ServerProcess) -> list[bytes]:
    with MongoClient(server.uri, document_class=RawBSONDocument) as client:
        documents = [document.raw for name in ("small", "large") for document in client.test[name].find()]
        assert client.test.small.count_documents({"n": {"$lte": 0}}) == 30_000
    return [*documents, Http(server.url).get("files/one/content").content]


def written(place: Place) -> int:
    """About how many megabytes a place has."""
    if place.kind == "directory":
        sizes = [size(path) for path in Path(place.argument).glob("data/keyspaces/*/tables/*")]
        return sum(sizes) // 1_000_000
    tables = f"SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('{place.name}') AND relkind = 'r'"
    query = f"SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM ({tables}) AS tables"
    answer = subprocess.run([programs() / "psql", POSTGRES, "-Atc", query], capture_output=True, text=True, timeout=60, check=True)
    return int(answer.stdout) // 1_000_000


def size(path: Path) -> int:
    """A file's size; 0 if it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def interrupt(source: Place, target: Place, megabytes: int, how: signal.Signals = signal.SIGKILL) -> str:
    """Ends a move when it has written so much; what it said."""
    enough = written(target) + megabytes
    moving = start_move(source, target)
    while written(target) < enough and moving.poll() is None:
        time.sleep(0.01)
    moving.send_signal(how)
    out, err = moving.communicate(timeout=SECONDS)
    assert moving.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 1), out + err
    assert not out
    return err


@pytest.fixture(scope="module")
def bulky(tmp_path_factory) -> tuple[Place, list[bytes]]:
    """A directory with the bulk, and what it shows."""
    source = Place("directory", tmp_path_factory.mktemp("bulky"))
    server = source.server().start()
    fill_with_bulk(server)
    shown = bulk(server)
    server.end()
    return source, shown


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("origin", KINDS)
def test_an_interrupted_move_is_refused_to_others_and_goes_on(origin, to, tmp_path):
    source, straight, target = Place(origin, tmp_path), Place(to, tmp_path), Place(to, tmp_path)
    server = source.server().start()
    fill_with_bulk(server)
    before = bulk(server)
    # Not closed, so that the target has to recover what the source would have.
    server.kill()
    printed = move(source, straight)
    straight.check()
    for megabytes, how in [(2, signal.SIGKILL), (20, signal.SIGINT), (20, signal.SIGKILL), (10, signal.SIGTERM)]:
        said = interrupt(source, target, megabytes, how)
        if how != signal.SIGKILL:
            assert "stopped. Run the same command again to go on" in said
        assert_refused(target, source)
    assert figures(move(source, target)) == figures(printed)
    target.check()
    server = target.server().start()
    assert bulk(server) == before
    server.end()
    target.check()


def figures(printed: str) -> list[str]:
    """The lines with checksums."""
    lines = [line for line in printed.splitlines() if len(line.split()) == 4 and len(line.split()[-1]) == 32]
    assert len(lines) == 7, printed
    return lines


def assert_refused(target: Place, source: Place) -> None:
    """Nobody opens an incomplete target."""
    advice = "run `diwan move` again to complete it, or delete it"
    checked = diwan("check", *target.flags)
    assert checked.returncode == 2 and advice in checked.stderr, checked.stderr
    assert (source.argument if source.kind == "directory" else f"schema {source.name}") in checked.stderr
    with pytest.raises(RuntimeError, match=advice):
        target.server().start()
    listed = diwan("user", "list", *target.flags)
    assert listed.returncode == 1 and advice in listed.stderr, listed.stderr
    assert advice in refusal(target.argument, Place(target.kind, target.directory).argument)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_has_changed_is_not_mixed_with_what_was_copied(kind, tmp_path):
    source, target = Place(kind, tmp_path), Place(kind, tmp_path)
    server = source.server().start()
    fill_with_bulk(server)
    server.end()
    interrupt(source, target, 40)
    server = source.server().start()
    with MongoClient(server.uri) as client:
        client.test.small.update_one({"_id": 7}, {"$set": {"n": 7}})
    server.end()
    for _ in range(2):
        error = refusal(source.argument, target.argument)
        assert "written to since then, or is another store" in error and "delete the" in error, error
    assert "a move into it" in diwan("check", *target.flags).stderr
    other = Place(kind, tmp_path)
    move(source, other)
    other.check()


def test_a_move_is_refused_before_anything_is_written(tmp_path):
    source, used, empty = (Place("directory", tmp_path) for _ in range(3))
    for place in (source, used):
        server = place.server().start()
        with MongoClient(server.uri) as client:
            client.test.things.insert_one({"_id": place.name})
        server.end()
    files = tmp_path / "files"
    files.mkdir()
    (files / "notes.txt").write_text("mine")
    os.symlink(source.argument, tmp_path / "link")
    for origin, to, part in [
        (source.argument, source.argument, "are the same directory"),
        (source.argument, str(tmp_path / "link"), "are the same directory"),
        (source.argument, f"{source.argument}/inside", "one is in the other"),
        (source.argument, used.argument, "is not empty, and was left as it is"),
        (source.argument, str(files), "has other files"),
        (source.argument, str(files / "notes.txt"), "Not a directory"),
        (source.argument, str(files / "notes.txt" / "new"), "Not a directory"),
        (source.argument, "mysql://host/database", "mysql:// is not known"),
        (source.argument, "postgres://host/database?schema=Big", "must be of lower-case letters"),
        (source.argument, "postgres://me:secret@127.0.0.1:1/database", "cannot reach PostgreSQL"),
        (str(files), empty.argument, "contains no store"),
        (str(tmp_path / "missing"), empty.argument, "there is no directory"),
        ("postgres://me:secret@127.0.0.1:1/database", empty.argument, "cannot reach PostgreSQL"),
    ]:
        error = refusal(origin, to)
        assert part in error and "secret" not in error, error
    assert not Path(empty.argument).exists()
    assert [entry.name for entry in files.iterdir()] == ["notes.txt"]
    missing = diwan("move", "--from", source.argument)
    assert missing.returncode == 2 and "--to" in missing.stderr
    used.check()
    server = used.server().start()
    with MongoClient(server.uri) as client:
        assert [document["_id"] for document in client.test.things.find()] == [used.name]
    server.end()


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_is_in_use_is_refused(kind, tmp_path):
    source, target = Place("directory", tmp_path), Place(kind, tmp_path)
    source.server().start().stop()
    server = target.server().start()
    error = refusal(source.argument, target.argument)
    assert "stop it first" in error or "is not empty" in error, error
    with MongoClient(server.uri) as client:
        assert client.test.things.insert_one({}).acknowledged
    server.end()
    target.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_is_written_to_is_refused(kind, tmp_path):
    source, target = Place(kind, tmp_path), Place("directory", tmp_path)
    server = source.server().start()
    is_done = threading.Event()

    def write():
        with MongoClient(server.uri) as client:
            while not is_done.is_set():
                client.test.things.insert_one({})

    writer = threading.Thread(target=write)
    writer.start()
    error = refusal(source.argument, target.argument)
    is_done.set()
    writer.join()
    assert "stop it first" in error or "was written to while it was copied" in error, error
    server.end()
    source.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_made_is_refused(tmp_path):
    source = Place("directory", tmp_path)
    source.server().start().stop()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "Permission denied" in refusal(source.argument, str(closed / "new"))


def test_a_full_disk_ends_a_move_that_goes_on_when_there_is_room(bulky, tmp_path):
    source, before = bulky
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=90m", "tmpfs", str(disk)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
    if made is None or made.returncode != 0:
        pytest.skip("only root can mount a file system")
    try:
        target = Place("directory", disk)
        error = refusal(source.argument, target.argument)
        assert "Run the same command again to go on" in error, error
        assert "not enough room" in error or "bytes left" in error, error
        assert "a move into it" in diwan("check", *target.flags).stderr
        subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
        move(source, target)
        target.check()
        server = target.server().start()
        assert bulk(server) == before
        server.end()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_damage_to_the_target_is_found_before_it_is_served(bulky, tmp_path):
    source, target = bulky[0], Place("directory", tmp_path)
    interrupt(source, target, 50)
    # The greatest is complete; the next one may be gone after the kill.
    greatest = max(Path(target.argument).glob("data/keyspaces/*/tables/*"), key=size)
    assert size(greatest) > 20_000_000
    with open(greatest, "r+b") as table:
        table.seek(500_000)
        byte = table.read(1)
        table.seek(500_000)
        table.write(bytes([byte[0] ^ 1]))
    error = refusal(source.argument, target.argument)
    assert "is damaged" in error and "Delete this directory" in error, error
    shutil.rmtree(target.argument)
    move(source, target)
    target.check()
