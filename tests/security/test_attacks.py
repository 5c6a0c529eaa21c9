"""Ways around rights: each tries to reach by a side door what the front door refuses."""

import base64
import hashlib
import hmac
import json
import socket
import time

import pytest
import requests
from http_client import Http
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from server_process import ServerProcess

ROOT = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "secret"}
DESIGN = {"views": {"v": {"map": "function (doc) { emit(doc._id) }"}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("attacks"), environment=ROOT).start()
    yield process
    process.end()


def as_user(server, name, password) -> Http:
    http = Http(server.url)
    http.session.auth = (name, password)
    return http


@pytest.fixture(scope="module")
def root(server):
    http = as_user(server, "ada", "secret")
    for name in ("mia", "max"):
        assert http.put(f"_users/org.couchdb.user:{name}", json={"type": "user", "name": name, "roles": [], "password": "pw"}).status_code == 201
    for name in ("open", "closed"):
        http.put(name)
        http.put(f"{name}/doc", json={"n": 1})
    http.put("open/_design/d", json=DESIGN | {
        "rewrites": [{"from": "/up/*", "to": "../../../*"}, {"from": "/users", "to": "../../../_users/_all_docs"}],
        "updates": {"design": "function (doc, req) { return [{_id: '_design/made'}, 'ok'] }"},
    })  # fmt: skip
    http.put("open/_security", json={"members": {"names": ["mia"], "roles": []}, "admins": {"names": [], "roles": []}})
    return http


@pytest.fixture(scope="module")
def mia(server, root):
    """A member of `open`, with no other rights."""
    return as_user(server, "mia", "pw")


@pytest.fixture(scope="module")
def driver(server, root):
    with MongoClient(server.uri, username="mia", password="pw") as client:
        yield client


def assert_refused(answer: requests.Response) -> None:
    assert answer.status_code in (400, 401, 403, 404, 405), f"{answer.status_code} {answer.text}"


def test_member_makes_no_design_document_by_any_door(mia, root):
    body = json.dumps(DESIGN)
    for method, path in [
        ("PUT", "open/_design/x"), ("PUT", "open/_design%2Fx"), ("PUT", "open//_design//x"), ("PUT", "open/%5Fdesign/x"),
        ("PUT", "open/_design/x/file.txt"), ("PUT", "open/_design%2Fx/file.txt"),
    ]:  # fmt: skip
        assert_refused(mia.request(method, path, data=body))
    assert_refused(mia.post("open", json=DESIGN | {"_id": "_design/x"}))
    assert_refused(mia.request("COPY", "open/doc", headers={"Destination": "_design/x"}))
    assert_refused(mia.request("COPY", "open/doc", headers={"Destination": "_design%2Fx"}))
    assert_refused(mia.request("PATCH", "open/_design%2Fd", data="{\"$set\": {\"a\": 1}}", headers={"Content-Type": "application/json"}))
    assert_refused(mia.request("POST", "open/_design/x", data=body, headers={"X-HTTP-Method-Override": "PUT"}))
    assert_refused(mia.post("open/_design/d/_update/design"))
    for options in ({}, {"new_edits": False}):
        document = DESIGN | {"_id": "_design/x"} | ({"_rev": "1-" + "a" * 32} if options else {})
        answer = mia.post("open/_bulk_docs", json={"docs": [document]} | options)
        assert answer.status_code in (401, 403) or answer.json()[0].get("error") in ("forbidden", "unauthorized"), answer.text
    assert root.get("open/_design/x").status_code == 404
    assert root.get("open/_design/made").status_code == 404
    assert "a" not in root.get("open/_design/d").json()


def test_member_changes_no_design_document_over_mongodb(driver, root):
    collection = driver.test.open
    for action in (
        lambda: collection.insert_one({"_id": "_design/x"}),
        lambda: collection.insert_many([{"_id": "fine"}, {"_id": "_design/x"}]),
        lambda: collection.update_one({"_id": "_design/d"}, {"$set": {"a": 1}}),
        lambda: collection.update_one({"_id": "_design/x"}, {"$set": {"a": 1}}, upsert=True),
        lambda: collection.replace_one({"_id": "_design/d"}, {"a": 1}),
        lambda: collection.delete_one({"_id": "_design/d"}),
        lambda: collection.delete_many({"views": {"$exists": True}}),
        lambda: collection.find_one_and_delete({"_id": "_design/d"}),
        lambda: collection.find_one_and_update({"_id": "_design/d"}, {"$set": {"a": 1}}),
        lambda: collection.aggregate([{"$limit": 1}, {"$set": {"_id": "_design/x"}}, {"$merge": "open"}]),
        lambda: driver.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": "_design/x"}}], nsInfo=[{"ns": "test.open"}]),
    ):
        try:
            result = action()
            if isinstance(result, dict):
                assert result["nErrors"] == 1, result
        except OperationFailure:
            pass
    assert root.get("open/_design/x").status_code == 404
    design = root.get("open/_design/d").json()
    assert "a" not in design and "views" in design


def test_user_reaches_no_other_user(mia, root):
    for method, path, body in [
        ("GET", "_users/_all_docs", None), ("GET", "_users/_changes", None), ("GET", "_users/_design_docs", None),
        ("POST", "_users/_all_docs", {"keys": ["org.couchdb.user:max"]}),
        ("POST", "_users/_find", {"selector": {}}), ("POST", "_users/_explain", {"selector": {}}),
        ("POST", "_users/_aggregate", {"pipeline": []}),
        ("GET", "_users/org.couchdb.user:max", None), ("GET", "_users/org.couchdb.user%3Amax", None),
        ("GET", "_users/org.couchdb.user:max/file", None), ("GET", "//_users//_all_docs", None), ("GET", "%5Fusers/_all_docs", None),
        ("PUT", "_users/org.couchdb.user:max/file", None), ("POST", "_users/_purge", {}), ("PUT", "_users/_design/x", DESIGN),
        ("PUT", "_users/_security", {}), ("DELETE", "_users", None), ("POST", "_users/_index", {"index": {"fields": ["name"]}}),
        ("PUT", "_users/org.couchdb.user:new", {"type": "user", "name": "new", "roles": [], "password": "pw"}),
        ("POST", "_users/_temp_view", {"map": "function (doc) { emit(doc.name, doc) }"}),
    ]:  # fmt: skip
        answer = mia.request(method, path, json=body)
        assert answer.status_code >= 400 or "max" not in answer.text, f"{method} {path}: {answer.text}"
        assert answer.status_code >= 400 or method == "GET", f"{method} {path}: {answer.status_code} {answer.text}"
    answer = mia.post("_users/_bulk_get", json={"docs": [{"id": "org.couchdb.user:max"}]})
    assert "derived_key" not in answer.text
    answer = mia.post("_users/_bulk_docs", json={"docs": [{"_id": "org.couchdb.user:new", "type": "user", "name": "new", "roles": [], "password": "pw"}]})
    assert root.get("_users/org.couchdb.user:new").status_code == 404
    assert "derived_key" not in mia.request("COPY", "_users/org.couchdb.user:max", headers={"Destination": "org.couchdb.user:mia"}).text


def test_user_makes_himself_no_administrator(mia, root):
    own = mia.get("_users/org.couchdb.user:mia").json()
    for change in (
        {"roles": ["_admin"]}, {"roles": ["staff"]}, {"grants": [{"role": "root", "db": "admin"}]}, {"db": "shop"}, {"user": "ada"},
        {"name": "ada"}, {"authenticationRestrictions": []}, {"customData": {"a": 1}}, {"userId": "00000000-0000-0000-0000-000000000000"},
    ):  # fmt: skip
        assert_refused(mia.put("_users/org.couchdb.user:mia", json=own | change))
        answer = mia.post("_users/_bulk_docs", json={"docs": [own | change]})
        assert answer.status_code in (400, 401, 403) or "error" in answer.json()[0], answer.text
        graft = own | change | {"_rev": "9-" + "b" * 32}
        answer = mia.post("_users/_bulk_docs", json={"docs": [graft], "new_edits": False})
        assert answer.status_code in (400, 401, 403) or (answer.json() and "error" in answer.json()[0]), answer.text
    assert mia.get("_session").json()["userCtx"] == {"name": "mia", "roles": []}
    for path in ("_node/_local/_config/admins/mia", "_node/_local/_config/chttpd/require_valid_user"):
        assert_refused(mia.put(path, data='"x"'))
    assert_refused(mia.post("_cluster_setup", json={"action": "enable_single_node", "username": "mia", "password": "x"}))


def test_replications_have_the_rights_of_their_owner(mia, root, server):
    for source, target in (("closed", "open"), ("open", "closed"), ("_users", "open"), ("open", "_users"), (server.url + "closed", "open")):
        answer = mia.post("_replicate", json={"source": source, "target": target})
        assert answer.status_code >= 400, f"{source} to {target}: {answer.text}"
    assert_refused(mia.post("_replicate", json={"source": "open", "target": "made", "create_target": True}))
    answer = mia.put("_replicator/r", json={"source": "closed", "target": "open"})
    assert_refused(answer)
    for number in range(5):
        assert root.get(f"open/org.couchdb.user:{number}").status_code == 404
    assert root.get("closed").json()["doc_count"] == 1
    assert root.get("made").status_code == 404


def test_rewrites_and_pipelines_check_rights_again(mia, root):
    for path in ("up/closed/doc", "up/_users/_all_docs", "users", "up/_node/_local/_config", "up/_all_dbs"):
        answer = mia.get(f"open/_design/d/_rewrite/{path}")
        # As in CouchDB, a rule that leaves its database is refused with 500.
        assert answer.json()["error"] == "insecure_rewrite_rule", answer.text
    assert root.put("_node/_local/_config/httpd/secure_rewrites", data='"false"').status_code == 200
    for path in ("up/closed/doc", "up/_users/_all_docs", "users", "up/_node/_local/_config", "up/_all_dbs"):
        assert_refused(mia.get(f"open/_design/d/_rewrite/{path}"))
    assert root.delete("_node/_local/_config/httpd/secure_rewrites").status_code == 200
    for pipeline in (
        [{"$lookup": {"from": "closed", "pipeline": [], "as": "x"}}], [{"$unionWith": "closed"}],
        [{"$unionWith": {"coll": "_users", "db": "admin"}}], [{"$lookup": {"from": {"db": "admin", "coll": "_users"}, "pipeline": [], "as": "x"}}],
        [{"$out": "closed"}], [{"$merge": "closed"}], [{"$out": {"db": "admin", "coll": "_users"}}], [{"$out": "new"}],
        [{"$facet": {"a": [{"$unionWith": "closed"}]}}],
    ):  # fmt: skip
        assert_refused(mia.post("open/_aggregate", json={"pipeline": pipeline}))
    for pipeline in ([{"$out": {"db": "admin", "coll": "_users"}}], [{"$merge": {"into": {"db": "admin", "coll": "system.roles"}}}]):
        assert_refused(root.post("open/_aggregate", json={"pipeline": pipeline}))


def test_wrong_credentials_are_never_ignored(server, root):
    for headers in (
        {"Authorization": "Basic " + "x" * 20_000}, {"Authorization": "Basic !!!"}, {"Authorization": "Basic YWRh"}, {"Authorization": "Basic YWRhOg=="},
        {"Authorization": "Bearer a.b.c"}, {"Cookie": "AuthSession=YWRhOjY1"}, {"Cookie": "AuthSession=" + "x" * 6000},
        {"X-Auth-CouchDB-UserName": "ada", "X-Auth-CouchDB-Roles": "_admin"}, {"Authorization": "Negotiate abc"},
    ):  # fmt: skip
        answer = requests.get(server.url + "_all_dbs", headers=headers, timeout=30)
        assert answer.status_code in (400, 401, 403, 431), f"{headers}: {answer.status_code} {answer.text}"


def test_passwords_stay_out_of_the_log_and_the_task_lists(root, server):
    url = server.url.replace("//", "//ada:hidden-password@") + "none"
    root.post("_replicate", json={"source": url, "target": "open"})
    root.put("_replicator/broken", json={"source": url, "target": "open"})
    shown = [root.get(path).text for path in ("_scheduler/jobs", "_scheduler/docs", "_active_tasks")]
    assert "hidden-password" not in "".join(shown)
    assert "hidden-password" not in server.log.read_text()


def test_strangers_keep_no_user_out(tmp_path):
    server = ServerProcess(tmp_path, environment=ROOT | {"DIWAN_MAX_CONNECTIONS": "20"}).start()
    with MongoClient(server.uri, username="ada", password="secret") as ada:
        ada.admin.command("ping")
        address = (ada.address[0], ada.address[1])
        strangers = [socket.create_connection(address) for _ in range(60)]
        with MongoClient(server.uri, username="ada", password="secret", serverSelectionTimeoutMS=10_000) as other:
            assert other.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        assert ada.admin.command("ping")["ok"] == 1
        for stranger in strangers:
            stranger.close()
    server.end()


def token(key: bytes, claims: dict) -> str:
    def encoded(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    message = f"{encoded(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{message}.{encoded(hmac.digest(key, message.encode(), hashlib.sha256))}"


def test_feed_ends_with_the_token(server, root):
    handlers = "{chttpd_auth, jwt_authentication_handler}, {chttpd_auth, default_authentication_handler}"
    assert root.put("_node/_local/_config/chttpd/authentication_handlers", json=handlers).status_code == 200
    assert root.put("_node/_local/_config/jwt_keys/hmac:_default", json=base64.b64encode(b"key").decode()).status_code == 200
    named = token(b"key", {"sub": "mia", "exp": int(time.time()) + 2})
    http = Http(server.url)
    begun = time.monotonic()
    answer = http.get(
        "open/_changes?feed=continuous&since=now&heartbeat=500", headers={"Authorization": f"Bearer {named}"}, stream=True, timeout=30
    )
    assert answer.status_code == 200
    for _ in answer.iter_content(1):
        assert time.monotonic() - begun < 15, "the feed goes on"
