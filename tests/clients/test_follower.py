"""A follower: it copies everything of a primary, serves reads, takes its place, and follows again without losing anything."""

import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

import bson
import pytest
import requests
from bson import Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from http_client import Http
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.errors import NotPrimaryError, OperationFailure, PyMongoError, WriteConcernError, WTimeoutError
from server_process import REPOSITORY, ServerProcess, binary

PATIENCE = 30

pytestmark = pytest.mark.skipif("DIWAN_TEST_POSTGRES" in os.environ, reason="a follower keeps its documents in a directory")


def eventually(check, patience=PATIENCE):
    """Repeats a check until it neither fails nor raises an error."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return check()
        except (AssertionError, PyMongoError, requests.RequestException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def follow(directory, primary, *more, name="follower") -> ServerProcess:
    place = directory / name
    place.mkdir(exist_ok=True)
    return ServerProcess(place, data=place / "data", arguments=("--follow", primary.url, *more))


@pytest.fixture
def primary(tmp_path):
    place = tmp_path / "primary"
    place.mkdir()
    process = ServerProcess(place, data=place / "data").start()
    yield process
    if process.process is not None:
        process.stop()
    process.check_log()


@pytest.fixture
def follower(tmp_path, primary):
    process = follow(tmp_path, primary).start()
    yield process
    if process.process is not None:
        process.stop()
    process.check_log()


def contents(server) -> dict:
    """Everything that clients see of a server, with all types and revisions."""
    found = {}
    raw = bson.CodecOptions(document_class=RawBSONDocument)
    with MongoClient(server.uri, readPreference="secondaryPreferred") as client:
        for database in client.list_database_names():
            if database == "local":
                continue
            for entry in client[database].list_collections():
                name = f"{database}.{entry['name']}"
                collection = client[database][entry["name"]]
                found[name, "options"] = entry["type"], entry["options"]
                found[name, "documents"] = sorted(doc.raw for doc in collection.with_options(raw).find())
                if entry["type"] == "collection":
                    found[name, "uuid"] = entry["info"]["uuid"]
                    found[name, "indexes"] = collection.index_information()
    face = Http(server.url)
    for database in face.get("_all_dbs").json():
        if database.startswith("local/"):
            continue

        def below(path, database=database, **parameters):
            answer = face.database(database).get(path, params=parameters)
            # It may have been dropped since it was listed.
            assert answer.status_code == 200, answer.text
            return answer.json()

        rows = below("_changes", style="all_docs")["results"]
        leaves = sorted((row["id"], sorted(change["rev"] for change in row["changes"]), row.get("deleted")) for row in rows)
        found[database, "revisions"] = leaves
        found[database, "security"] = below("_security")
        found[database, "revs_limit"] = below("_revs_limit")
        attached = below("_all_docs", include_docs="true", attachments="true")["rows"]
        attachments = {row["id"]: row["doc"].get("_attachments") for row in attached}
        found[database, "attachments"] = {key: value for key, value in attachments.items() if value}
    return found


def assert_same(primary, follower):
    def check():
        expected, found = contents(primary), contents(follower)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert found[key] == value, key

    eventually(check)


def error_of(action) -> dict:
    """The server's answer to what it refuses."""
    with pytest.raises((OperationFailure, NotPrimaryError)) as caught:
        action()
    return caught.value.details


def refused_start(server: ServerProcess) -> str:
    """The message of a server that does not start."""
    with pytest.raises(RuntimeError) as caught:
        server.start()
    return str(caught.value)


def fill(primary):
    """One of each kind of thing that a server holds."""
    with MongoClient(primary.uri) as client:
        shop = client.shop
        odd = [
            {"_id": 1, "n": 1},
            {"_id": Int64(2), "n": Int64(1)},
            {"_id": 3.0, "n": 1.0, "nan": float("nan"), "minus": -0.0},
            {"_id": ObjectId(), "d": Decimal128("1.10"), "r": Regex("a", "i"), "t": Timestamp(5, 6)},
            {"_id": {"b": 1, "a": [1, None]}, "looks": {"$like": {"$oid": "no id"}}, "_class": "Person", "": 0},
            {"_id": "_begins_with_an_underscore", "n": bson.Binary(b"\0\1", 4 + 124)},
        ]
        shop.odd.insert_many(odd)
        shop.persons.insert_many([{"_id": number, "number": number, "name": f"n{number % 7}"} for number in range(3000)])
        shop.persons.create_index("number", unique=True)
        shop.persons.create_index("name", hidden=True)
        shop.persons.create_index("seen", expireAfterSeconds=3600)
        shop.create_collection("log", capped=True, size=100_000, max=20)
        shop.log.insert_many([{"n": number} for number in range(50)])
        shop.create_collection("strict", validator={"n": {"$gt": 0}}, collation={"locale": "de", "strength": 1})
        shop.create_collection("few", viewOn="persons", pipeline=[{"$match": {"number": {"$lt": 5}}}])
        client.admin.command("createRole", "reader", privileges=[], roles=[{"role": "read", "db": "shop"}])
    face = Http(primary.url)
    cars = face.database("cars")
    assert cars.put().status_code == 201
    for letter in "ab":
        edit = {"docs": [{"_id": "beetle", "_rev": f"1-{letter * 32}", "by": letter}], "new_edits": False}
        assert cars.post("_bulk_docs", json=edit).status_code == 201
    revision = cars.put("photo", json={"of": "a car"}).json()["rev"]
    for name, kind, bytes_ in [("big.bin", "application/octet-stream", os.urandom(400_000)), ("a.txt", "text/plain", b"text" * 5000)]:
        put = cars.put(f"photo/{name}", params={"rev": revision}, data=bytes_, headers={"content-type": kind})
        revision = put.json()["rev"]
    gone = cars.put("gone", json={}).json()["rev"]
    assert cars.delete("gone", params={"rev": gone}).status_code == 200
    design = {"views": {"all": {"map": "function (doc) { emit(doc._id, 1); }", "reduce": "_count"}}}
    assert cars.put("_design/by", json=design).status_code == 201
    assert cars.put("_security", json={"members": {"names": ["ada"], "roles": []}, "admins": {"names": [], "roles": []}}).ok
    assert cars.put("_revs_limit", data="17").ok


def test_follower_copies_everything_and_keeps_up(primary, follower):
    fill(primary)
    assert_same(primary, follower)
    face = Http(follower.url)
    assert face.database("cars").get("_design/by/_view/all").json()["rows"][0]["value"] == 2
    with MongoClient(primary.uri) as client:
        shop = client.shop
        # Two documents swap a unique key.
        shop.persons.update_one({"_id": 1}, {"$set": {"number": -1}})
        shop.persons.update_one({"_id": 2}, {"$set": {"number": 1}})
        shop.persons.update_one({"_id": 1}, {"$set": {"number": 2}})
        shop.odd.update_one({"_id": 1}, {"$set": {"n": Int64(1)}})
        shop.persons.delete_many({"_id": {"$gte": 2900}})
        shop.log.insert_many([{"n": number} for number in range(30)])
        shop.command("collMod", "strict", validator={"n": {"$gt": 1}}, validationLevel="moderate")
        shop.command("collMod", "persons", index={"name": "seen_1", "expireAfterSeconds": 7200})
        shop.command("collMod", "persons", index={"name": "name_1", "hidden": False})
        shop.command("collMod", "few", viewOn="persons", pipeline=[{"$limit": 2}])
        with client.start_session() as session, session.start_transaction():
            shop.odd.insert_one({"_id": "in a transaction"}, session=session)
            shop.persons.delete_one({"_id": 5}, session=session)
    cars = Http(primary.url).database("cars")
    assert cars.post("_purge", json={"beetle": ["1-" + "a" * 32, "1-" + "b" * 32]}).status_code == 201
    assert cars.put("_revs_limit", data="5").ok
    assert_same(primary, follower)
    with MongoClient(primary.uri) as client:
        shop = client.shop
        shop.persons.drop_index("name_1")
        shop.odd.rename("log", dropTarget=True)
        shop.persons.rename("odd")
        client.admin.command("renameCollection", "shop.strict", to="other.strict")
        shop.few.drop()
        shop.persons.insert_one({"new": True})
    assert_same(primary, follower)
    with MongoClient(primary.uri) as client:
        client.drop_database("shop")
    assert Http(primary.url).delete("cars").ok
    assert_same(primary, follower)


def test_follower_refuses_writes_on_both_faces(primary, follower):
    fill(primary)
    assert_same(primary, follower)
    with MongoClient(follower.uri) as client:
        shop = client.shop
        for write in [
            lambda: shop.persons.insert_one({}),
            lambda: shop.persons.update_one({"_id": 1}, {"$set": {"x": 1}}),
            lambda: shop.persons.delete_many({}),
            lambda: shop.persons.find_one_and_delete({}),
            lambda: shop.persons.create_index("x"),
            lambda: shop.new.insert_one({}),
            lambda: shop.persons.drop(),
            lambda: shop.persons.rename("y"),
            lambda: client.drop_database("shop"),
            lambda: shop.create_collection("z"),
            lambda: shop.command("createUser", "eve", pwd="x", roles=[]),
            lambda: list(shop.persons.aggregate([{"$out": "copy"}])),
        ]:
            error = error_of(write)
            assert error["code"] == 10107 and error["errmsg"].endswith("not primary")
        session = client.start_session()
        session.start_transaction()
        assert error_of(lambda: shop.persons.find_one({}, session=session))["code"] == 10107
        retryable = {"insert": "persons", "documents": [{}], "txnNumber": Int64(1), "lsid": {"id": bson.Binary(b"0" * 16, 4)}}
        assert error_of(lambda: shop.command(retryable))["errorLabels"] == ["RetryableWriteError"]
        primary_only = {"find": "persons", "$readPreference": {"mode": "primary"}}
        error = error_of(lambda: shop.command(bson.SON(primary_only), read_preference=ReadPreference.PRIMARY))
        assert error["code"] == 13435
        assert error_of(lambda: shop.persons.watch())["code"] == 40573
        assert shop.command("profile", 2)["ok"] == 1
        assert shop.persons.count_documents({}) == 3000
        assert shop["system.profile"].count_documents({}) > 0
        shop.command("profile", 0)
    face = Http(follower.url)
    before = contents(follower)
    for answer in [
        face.put("new"),
        face.delete("cars"),
        face.put("cars/x", json={}),
        face.post("cars", json={}),
        face.post("cars/_bulk_docs", json={"docs": [{"_id": "y"}]}),
        face.put("cars/photo/x.txt", data=b"x", headers={"content-type": "text/plain"}),
        face.put("cars/_security", json={}),
        face.put("cars/_revs_limit", data="3"),
        face.put("cars/_local/x", json={}),
        face.post("cars/_purge", json={"photo": ["1-a"]}),
        face.post("cars/_index", json={"index": {"fields": ["x"]}}),
        face.post("_replicate", json={"source": "cars", "target": "other", "create_target": True}),
        face.put("_node/_local/_config/log/level", data='"info"'),
    ]:
        assert answer.status_code in (403, 404, 412) or answer.json()[0]["error"] == "forbidden", (answer.url, answer.text)
        if answer.status_code == 403:
            assert answer.json()["error"] == "forbidden" and primary.url.rstrip("/") in answer.json()["reason"]
    assert face.put("cars/x", json={}).status_code == 403
    after = contents(follower)
    assert {key: value for key, value in after.items() if "system.profile" not in key[0]} == {
        key: value for key, value in before.items() if "system.profile" not in key[0]
    }


def test_drivers_find_both_members_and_read_from_the_secondary(primary, follower):
    members = [f"127.0.0.1:{server.port}" for server in (primary, follower)]
    for seed in members:
        with MongoClient(f"mongodb://{seed}/?replicaSet=rs0") as client:

            def check(client=client):
                assert client.primary == ("127.0.0.1", primary.port)
                assert client.secondaries == {("127.0.0.1", follower.port)}

            client.admin.command("ping")
            eventually(check)
            client.shop.get_collection("things", write_concern=WriteConcern(w=2)).insert_one({"of": seed})
            secondary = client.get_database("shop", read_preference=ReadPreference.SECONDARY)
            assert secondary.things.find_one({"of": seed})
    for server, state in ((primary, "PRIMARY"), (follower, "SECONDARY")):
        with MongoClient(server.uri) as client:
            hello = client.admin.command("hello")
            assert hello["hosts"] == members and hello["primary"] == members[0] and hello["setName"] == "rs0"
            assert hello["isWritablePrimary"] == (state == "PRIMARY") and hello["secondary"] == (state == "SECONDARY")
            status = client.admin.command("replSetGetStatus")
            assert [(member["name"], member["stateStr"]) for member in status["members"]] == [
                (members[0], "PRIMARY"),
                (members[1], "SECONDARY"),
            ]
            assert [member.get("self") for member in status["members"]].index(True) == (state == "SECONDARY")
            assert client.admin.command("serverStatus")["repl"]["hosts"] == members
            config = client.admin.command("replSetGetConfig")["config"]
            assert [member["votes"] for member in config["members"]] == [1, 0]
    up = requests.get(follower.url + "_up").json()
    assert up["role"] == "follower" and up["lag_ms"] == 0 and up["primary"] == primary.url.rstrip("/")
    assert "role" not in requests.get(primary.url + "_up").json()
    assert requests.get(follower.url).json()["role"] == "follower"
    assert "diwan_follower_lag_seconds 0" in requests.get(follower.url + "metrics").text
    assert "diwan_followers 1" in requests.get(primary.url + "metrics").text
    assert requests.get(primary.url + "_diwan/status").json()["replica_set"]["followers"][0]["host"] == members[1]


def test_hello_that_waits_tells_of_a_new_follower(tmp_path, primary):
    with MongoClient(primary.uri) as client:
        version = client.admin.command("hello")["topologyVersion"]
        follower = follow(tmp_path, primary)
        thread = threading.Thread(target=follower.start)
        thread.start()
        began = time.monotonic()
        news = client.admin.command("hello", topologyVersion=version, maxAwaitTimeMS=20_000)
        thread.join()
        assert len(news["hosts"]) == 2 and time.monotonic() - began < 15
        follower.stop()


def test_w_2_waits_for_the_follower(tmp_path, primary):
    with MongoClient(primary.uri) as client:
        things = client.shop.things
        both = things.with_options(write_concern=WriteConcern(w=2, wtimeout=1000))
        with pytest.raises(WriteConcernError) as caught:
            both.insert_one({"alone": True})
        assert caught.value.code == 100
        follower = follow(tmp_path, primary).start()
        eventually(lambda: both.insert_one({"together": True}))
        began = time.monotonic()
        for number in range(20):
            both.insert_one({"number": number})
            with MongoClient(follower.uri) as copy:
                assert copy.shop.things.find_one({"number": number})
        assert time.monotonic() - began < 10
        with client.start_session() as session:
            with session.start_transaction(write_concern=WriteConcern(w=2, wtimeout=10_000)):
                things.insert_one({"_id": "t"}, session=session)
            with MongoClient(follower.uri) as copy:
                assert copy.shop.things.find_one({"_id": "t"})
        os.kill(follower.process.pid, signal.SIGSTOP)
        with pytest.raises(WTimeoutError) as late:
            both.insert_one({"late": True})
        assert late.value.code == 64 and late.value.details["errInfo"]["wtimeout"] is True
        assert things.find_one({"late": True})
        os.kill(follower.process.pid, signal.SIGCONT)
        both.with_options(write_concern=WriteConcern(w=2, wtimeout=20_000)).insert_one({"again": True})
        assert follower.stop() == 0


def test_causal_session_reads_on_the_secondary_what_it_wrote(primary, follower):
    uri = f"mongodb://127.0.0.1:{primary.port},127.0.0.1:{follower.port}/?replicaSet=rs0"
    with MongoClient(uri) as client:
        eventually(lambda: client.shop.things.with_options(write_concern=WriteConcern(w=2)).insert_one({}))
        secondary = client.get_database("shop", read_preference=ReadPreference.SECONDARY)
        for number in range(100):
            with client.start_session(causal_consistency=True) as session:
                client.shop.things.insert_one({"_id": number}, session=session)
                assert secondary.things.find_one({"_id": number}, session=session)
                # What was read on the secondary is no time that it has not reached.
                assert secondary.things.find_one({"_id": number}, session=session, max_time_ms=1000)
                assert client.shop.things.find_one({"_id": number}, session=session)
        primary.kill()
        with MongoClient(follower.uri) as copy:
            later = {"afterClusterTime": Timestamp(2**31, 1)}
            find = {"find": "things", "readConcern": later, "maxTimeMS": 300}
            answer = error_of(lambda: copy.shop.command(find, read_preference=ReadPreference.SECONDARY))
            assert answer["code"] == 50


def write_until(stopped, server, acknowledged, concern):
    """Writes until it is told to stop, and notes what was acknowledged."""
    number = 0
    while not stopped.is_set():
        try:
            with MongoClient(server.uri, serverSelectionTimeoutMS=500) as client:
                things = client.shop.get_collection("things", write_concern=concern)
                while not stopped.is_set():
                    number += 1
                    things.insert_one({"_id": number, "n": number})
                    acknowledged.append(number)
                    if number % 5 == 0:
                        things.update_one({"_id": number - 3}, {"$inc": {"n": 1}})
                    if number % 11 == 0:
                        things.delete_one({"_id": number - 7})
                        acknowledged.remove(number - 7)
        except (PyMongoError, ValueError):
            time.sleep(0.02)


def test_kills_of_either_side_lose_nothing_and_leave_no_difference(tmp_path, primary):
    follower = follow(tmp_path, primary).start()
    stopped, acknowledged = threading.Event(), []
    writer = threading.Thread(target=write_until, args=(stopped, primary, acknowledged, WriteConcern("majority")))
    writer.start()
    for _ in range(3):
        time.sleep(0.7)
        follower.kill()
        time.sleep(0.2)
        follower.start()
        time.sleep(0.7)
        primary.kill()
        time.sleep(0.2)
        primary.start()
    stopped.set()
    writer.join()
    assert_same(primary, follower)
    with MongoClient(follower.uri) as client:
        assert set(acknowledged) <= {doc["_id"] for doc in client.shop.things.find({}, {"_id": 1})}
    assert follower.stop() == 0
    check = subprocess.run([binary(), "check", "--data", follower.data], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


def promote(server) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), "promote", "--data", server.data], capture_output=True, text=True, timeout=60)


def test_promoted_follower_has_every_write_with_w_2_and_drivers_find_it(tmp_path, primary):
    follower = follow(tmp_path, primary).start()
    uri = f"mongodb://127.0.0.1:{primary.port},127.0.0.1:{follower.port}/?replicaSet=rs0"
    with MongoClient(uri) as client:
        client.admin.command("ping")
        eventually(lambda: client.shop.things.with_options(write_concern=WriteConcern(w=2)).insert_one({}))
        stopped, acknowledged = threading.Event(), []
        writer = threading.Thread(target=write_until, args=(stopped, primary, acknowledged, WriteConcern(w=2)))
        writer.start()
        time.sleep(1)
        primary.kill()
        stopped.set()
        writer.join()
        answer = promote(follower)
        assert answer.returncode == 0 and "term 2" in answer.stdout, answer
        assert client.shop.after.insert_one({"_id": 1}).acknowledged
        assert client.primary == ("127.0.0.1", follower.port)
        found = {doc["_id"] for doc in client.shop.things.find({}, {"_id": 1})}
        assert acknowledged and set(acknowledged) <= found
    again = promote(follower)
    assert again.returncode == 1 and "primary already" in again.stderr
    # The promotion outlives a restart, and --follow of the old primary is refused.
    primary.start()
    follower.stop()
    assert "without --follow" in refused_start(follower)
    follower.arguments = ()
    follower.start()
    with MongoClient(follower.uri) as client:
        client.shop.after.insert_one({"_id": 2})
        assert client.admin.command("hello")["isWritablePrimary"]
    # The old primary, restarted as it was, takes writes alone, until it follows the new one.
    with MongoClient(primary.uri) as client:
        client.shop.alone.insert_one({"_id": "alone"})
        client.shop.things.insert_one({"_id": "lone"})
        client.shop.things.update_one({"_id": acknowledged[0]}, {"$set": {"by": "the old primary"}})
    with MongoClient(follower.uri) as client:
        client.shop.things.update_one({"_id": acknowledged[0]}, {"$set": {"by": "the new primary"}})
        client.shop.things.create_index("unique", unique=True, sparse=True)
        client.shop.things.insert_one({"_id": "new", "unique": 1})
    with MongoClient(primary.uri) as client:
        client.shop.things.insert_one({"_id": "old", "unique": 1})
    primary.stop()
    primary.arguments = ("--follow", follower.url)
    primary.start()
    with MongoClient(primary.uri) as client, MongoClient(follower.uri) as new:
        eventually(lambda: assert_copy_of(client, new))
        # What nobody else had is a document, a conflict, or kept aside.
        assert new.shop.things.find_one({"_id": "lone"})
        assert client.set_aside["shop.alone"].find_one()["_id"] == "alone"
        assert client.set_aside["shop.things"].find_one() == {"_id": "old", "unique": 1}
        for server in (primary, follower):
            things = Http(server.url).database("shop/things")
            key = f"~{{\"$numberInt\":\"{acknowledged[0]}\"}}"
            document = things.get(requests.utils.quote(key, safe=""), params={"conflicts": "true"}).json()
            assert document["by"] in ("the old primary", "the new primary") and len(document["_conflicts"]) == 1
    assert follower.stop() == 0


def assert_copy_of(copy, original):
    names = [name for name in original.list_database_names() if name != "local"]
    for database in names:
        for name in original[database].list_collection_names():
            found = sorted(map(str, copy[database][name].find()))
            assert found == sorted(map(str, original[database][name].find())), (database, name)


def test_sigusr1_promotes(primary, follower):
    fill(primary)
    assert_same(primary, follower)
    primary.stop()
    os.kill(follower.process.pid, signal.SIGUSR1)
    with MongoClient(follower.uri) as client:
        eventually(lambda: client.shop.things.insert_one({}))
        with client.shop.things.watch() as stream:
            client.shop.things.insert_one({"_id": "seen"})
            assert stream.next()["documentKey"] == {"_id": "seen"}
    assert Http(follower.url).put("cars/new", json={}).status_code == 201


def test_stopped_follower_is_promoted_in_its_directory_or_stays_read_only(primary, follower):
    fill(primary)
    assert_same(primary, follower)
    follower.stop()
    follower.arguments = ()
    assert "promote" in refused_start(follower)
    user = subprocess.run(
        [binary(), "user", "add", "eve", "--role", "root", "--data", follower.data], input="x\n", capture_output=True, text=True
    )
    assert user.returncode == 1 and "follower" in user.stderr
    assert promote(follower).returncode == 0
    follower.start()
    with MongoClient(follower.uri) as client:
        client.shop.persons.insert_one({"_id": "new"})


def test_http_sequences_of_the_primary_mean_nothing_to_the_promoted_follower(primary, follower):
    fill(primary)
    assert_same(primary, follower)
    ends = [Http(server.url).database("cars").get().json()["update_seq"] for server in (primary, follower)]
    assert ends[0] != ends[1]
    rows = Http(follower.url).database("cars").get("_changes", params={"since": ends[0]}).json()["results"]
    assert len(rows) == 4


def test_ttl_does_not_delete_on_the_follower(primary, follower):
    with MongoClient(primary.uri) as client:
        client.shop.short.create_index("at", expireAfterSeconds=0)
        client.shop.short.insert_one({"_id": 1, "at": bson.datetime_ms.DatetimeMS(0)})
        with MongoClient(follower.uri) as copy:
            copy.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)

            def has(count):
                assert copy.shop.short.count_documents({}) == count

            eventually(lambda: has(1))
            time.sleep(3)
            has(1)
            client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
            eventually(lambda: has(0))


def test_users_come_before_the_follower_listens(tmp_path):
    place = tmp_path / "primary"
    place.mkdir()
    root = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "first secret"}
    primary = ServerProcess(place, data=place / "data", environment=root).start()
    with MongoClient(primary.uri, username="ada", password="first secret") as client:
        client.shop.things.insert_many([{"n": number} for number in range(100)])
        client.shop.command("createUser", "bob", pwd="bobs", roles=["read"])
    follower = follow(tmp_path, primary)
    follower.arguments = ("--follow", primary.url.replace("http://", "http://ada:wrong@"))
    message = refused_start(follower)
    assert "administrator in the URL" in message and "wrong" not in message
    follower.arguments = ()
    # The environment keeps the password out of the list of processes.
    follower.environment |= {"DIWAN_FOLLOW": primary.url.replace("http://", "http://ada:first%20secret@")}
    follower.start()
    with MongoClient(follower.uri) as stranger:
        assert error_of(lambda: stranger.shop.things.find_one())["code"] == 13
    with MongoClient(follower.uri, username="bob", password="bobs", authSource="shop") as client:
        eventually(lambda: assert_count(client.shop.things, 100))
        assert error_of(lambda: client.stock.things.find_one())["code"] == 13
    assert requests.get(follower.url + "_all_dbs").status_code == 401
    assert requests.post(follower.url + "_session", json={"name": "ada", "password": "first secret"}).ok
    with MongoClient(primary.uri, username="ada", password="first secret") as client:
        client.shop.command("dropUser", "bob")
    with MongoClient(follower.uri, username="bob", password="bobs", authSource="shop") as client:
        eventually(lambda: pytest.raises(OperationFailure, client.shop.things.find_one))
    log = follower.log.read_text()
    assert "secret" not in log and "panicked" not in log
    follower.stop()
    primary.stop()


def assert_count(collection, count):
    assert collection.count_documents({}) == count


def test_follower_waits_for_a_primary_that_is_away(tmp_path, primary):
    fill(primary)
    primary.stop()
    follower = follow(tmp_path, primary)
    errors = []

    def start():
        try:
            follower.start()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    eventually(lambda: assert_in("waiting for the primary", follower.log.read_text() if follower.log.exists() else ""))
    primary.start()
    thread.join()
    assert not errors
    assert_same(primary, follower)
    # One that has a copy serves it while the primary is away.
    follower.stop()
    primary.stop()
    follower.start()
    with MongoClient(follower.uri) as client:
        assert client.shop.persons.count_documents({}) == 3000
        assert error_of(lambda: client.shop.persons.insert_one({}))["code"] == 10107

    def is_behind():
        assert requests.get(follower.url + "_diwan/status").json()["replica_set"]["trouble"]

    eventually(is_behind)
    primary.start()
    with MongoClient(primary.uri) as client:
        client.shop.persons.insert_one({"_id": "later"})
    assert_same(primary, follower)
    follower.stop()


def assert_in(part, whole):
    assert part in whole


class OtherVersion(http.server.BaseHTTPRequestHandler):
    """A server that speaks another version of the followers' protocol, or none at all."""

    def do_POST(self):
        body = json.dumps({"error": "other_version", "reason": "use the same version of Diwan"}).encode()
        self.send_response(409)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_bad_primaries_are_refused(tmp_path, primary):
    fill(primary)

    def refused(url, *more, name):
        server = follow(tmp_path, primary, name=name)
        server.arguments = ("--follow", url, *more)
        return refused_start(server)

    assert "http://user:password@host:5984" in refused("mongodb://127.0.0.1:27017", name="scheme")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherVersion) as other:
        threading.Thread(target=other.serve_forever).start()
        assert "same version" in refused(f"http://127.0.0.1:{other.server_port}", name="version")
        other.shutdown()
    first = follow(tmp_path, primary, name="first").start()
    assert "follows" in refused(first.url, name="second")
    other = tmp_path / "other"
    other.mkdir()
    own = ServerProcess(other, data=other / "data").start()
    with MongoClient(own.uri) as client:
        client.own.things.insert_one({"_id": "mine"})
    own.stop()
    own.arguments = ("--follow", primary.url)
    assert "--rejoin" in refused_start(own)
    own.arguments = ("--follow", own.url)
    own.arguments = ("--follow", primary.url, "--rejoin")
    own.start()
    eventually(lambda: assert_same_but_aside(primary, own))
    with MongoClient(own.uri) as client:
        assert client.set_aside["own.things"].find_one() == {"_id": "mine"}
    own.stop()
    first.stop()


def assert_same_but_aside(primary, follower):
    def copied(server):
        return {key: value for key, value in contents(server).items() if not key[0].startswith("set_aside")}

    assert copied(follower) == copied(primary)


def test_server_does_not_follow_itself(tmp_path, primary):
    fill(primary)
    follower = follow(tmp_path, primary).start()
    assert_same(primary, follower)
    follower.stop()
    primary.stop()
    # Both directories are copies of one server, so one may be mistaken for the other.
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", primary.data, copy], check=True)
    primary.start()
    twin = ServerProcess(tmp_path, data=copy, arguments=("--follow", primary.url))
    assert "follow itself" in refused_start(twin)


def test_change_streams_and_sequences_of_the_primary_are_not_disturbed(primary, follower):
    with MongoClient(primary.uri) as client:
        with client.shop.things.watch(full_document="updateLookup") as stream:
            client.shop.things.insert_one({"_id": 1})
            client.shop.things.update_one({"_id": 1}, {"$set": {"n": 2}})
            assert [stream.next()["operationType"] for _ in range(2)] == ["insert", "update"]
    assert_same(primary, follower)
    revisions = re.findall(r"^\d+", Http(primary.url).database("shop/things").get().json()["update_seq"])
    assert revisions == ["2"]


def test_indexes_of_large_collections_are_built_on_the_follower(primary, follower):
    with MongoClient(primary.uri) as client:
        large = client.shop.large
        large.insert_many([{"_id": number, "n": number, "m": number % 100} for number in range(12_000)])
        eventually(lambda: assert_count(MongoClient(follower.uri).shop.large, 12_000))
        large.create_index("m")
        large.create_index("n", unique=True)
        assert_same(primary, follower)
    with MongoClient(follower.uri) as client:
        plan = client.shop.large.find({"m": 7}).explain()["queryPlanner"]["winningPlan"]
        assert "IXSCAN" in json.dumps(plan)
        assert client.shop.command("validate", "large", read_preference=ReadPreference.SECONDARY)["valid"]


def test_primary_from_a_backup_is_not_followed_until_the_operator_decides(tmp_path, primary):
    fill(primary)
    follower = follow(tmp_path, primary).start()
    assert_same(primary, follower)
    follower.stop()
    primary.stop()
    backup = tmp_path / "backup"
    subprocess.run(["cp", "-r", primary.data, backup], check=True)
    primary.start()
    follower.start()
    with MongoClient(primary.uri) as client:
        client.shop.persons.insert_one({"_id": "after the backup"})
    assert_same(primary, follower)
    primary.kill()
    subprocess.run(["rm", "-r", primary.data], check=True)
    subprocess.run(["mv", backup, primary.data], check=True)
    primary.start()
    trouble = lambda: requests.get(follower.url + "_diwan/status").json()["replica_set"]["trouble"] or ""
    eventually(lambda: assert_in("--rejoin", trouble()))
    follower.stop()
    follower.arguments += ("--rejoin",)
    follower.start()
    assert_same(primary, follower)
    with MongoClient(primary.uri) as client:
        assert client.shop.persons.find_one({"_id": "after the backup"})
    follower.stop()


def test_second_follower_joins_the_one_that_was_promoted(tmp_path, primary):
    fill(primary)
    first = follow(tmp_path, primary, name="first").start()
    second = follow(tmp_path, primary, name="second").start()
    with MongoClient(primary.uri) as client:
        three = client.shop.get_collection("things", write_concern=WriteConcern(w=3, wtimeout=20_000))
        eventually(lambda: three.insert_one({}))
        assert len(client.admin.command("hello")["hosts"]) == 3
    assert_same(primary, second)
    primary.stop()
    assert promote(first).returncode == 0
    second.stop()
    second.arguments = ("--follow", first.url)
    second.start()
    with MongoClient(first.uri) as client:
        client.shop.things.insert_one({"_id": "by the new primary"})
    assert_same(first, second)
    with MongoClient(second.uri) as client:
        hello = client.admin.command("hello")
        assert hello["primary"] == f"127.0.0.1:{first.port}" and hello["setName"] == "rs0"
    second.stop()
    first.stop()


def test_follower_trusts_the_certificates_that_it_is_told(tmp_path):
    make = [binary(), "certificate", "--self-signed", "--host", "127.0.0.1"]
    subprocess.run(make, check=True, cwd=tmp_path, capture_output=True)
    tls = ("--tls-certificate", str(tmp_path / "diwan-certificate.pem"), "--tls-key", str(tmp_path / "diwan-key.pem"))
    place = tmp_path / "primary"
    place.mkdir()
    primary = ServerProcess(place, data=place / "data", arguments=tls).start()
    url = primary.url.replace("http://", "https://")
    with MongoClient(primary.uri, tls=True, tlsAllowInvalidCertificates=True) as client:
        client.shop.things.insert_one({"_id": 1})
    follower = follow(tmp_path, primary)
    follower.arguments = ("--follow", url, "--follow-ca", str(tmp_path / "diwan-certificate.pem"))
    follower.start()
    with MongoClient(follower.uri) as client:
        eventually(lambda: assert_count(client.shop.things, 1))
    follower.stop()
    primary.stop()


def test_guide_works_as_it_is_written(tmp_path):
    text = (REPOSITORY / "docs" / "follower.md").read_text()
    servers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        servers.append(ServerProcess(tmp_path / name, data=tmp_path / name / "data"))
    first, second = servers
    first.start()
    second.arguments = ("--follow", first.url)
    second.start()

    def here(program):
        ports = {27017: first.port, 5984: first.http_port, 27018: second.port, 5985: second.http_port}
        for port, own in ports.items():
            program = program.replace(f":{port}", f":{own}")
        return program

    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    eventually(lambda: assert_in('"role":"follower"', requests.get(second.url + "_up").text.replace(" ", "")))
    command = [REPOSITORY / ".venv" / "bin" / "python", "-"]
    ran = subprocess.run(command, input=here(program), capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (expected, "")
    (asked,) = [block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if block.startswith("curl")]
    ran = subprocess.run(["bash", "-e"], input=here(asked).replace("curl", "curl -sS"), capture_output=True, text=True, timeout=60)
    document, up = (json.loads(line) for line in ran.stdout.splitlines() if line)
    assert document["year"] == 1961 and up["lag_ms"] == 0
    first.stop()
    assert promote(second).returncode == 0
    first.arguments = ("--follow", second.url)
    second.stop()
    second.arguments = ()
    second.start()
    first.start()
    with MongoClient(second.uri) as client:
        client.test.cars.with_options(write_concern=WriteConcern(w=2, wtimeout=20_000))
        eventually(lambda: client.test.cars.with_options(write_concern=WriteConcern(w=2)).insert_one({}))
    first.stop()
    second.stop()


def test_server_that_waits_for_its_primary_can_be_stopped(tmp_path, primary):
    primary.stop()
    command = [binary(), "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--http", "off", "--follow", primary.url]
    waiting = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert "waiting for the primary" in waiting.stderr.readline()
    waiting.terminate()
    assert waiting.wait(10) == 0
