"""Users of both faces: who is made through one port signs in through the other, with the same rights."""

import base64
import hashlib
import json
import subprocess
import time

import couchdb
import pytest
import requests
from bson.binary import Binary
from http_client import Http
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from server_process import ServerProcess, binary

ROOT = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "first secret"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server whose administrator is `ada`."""
    process = ServerProcess(tmp_path_factory.mktemp("guarded"), environment=ROOT).start()
    yield process
    process.end()


@pytest.fixture(scope="module")
def root(guarded):
    with MongoClient(guarded.uri, username="ada", password="first secret") as client:
        yield client


@pytest.fixture(scope="module")
def root_http(guarded):
    return as_user(guarded, "ada", "first secret")


def as_user(server, name, password) -> Http:
    http = Http(server.url)
    http.session.auth = (name, password)
    return http


def put_user(http, name, password, roles=()):
    document = {"type": "user", "name": name, "roles": list(roles), "password": password}
    return http.put(f"_users/org.couchdb.user:{name}", json=document)


def refused(action) -> int:
    with pytest.raises(OperationFailure) as caught:
        action()
    return caught.value.code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_pymongo_signs_in_with_each_mechanism(guarded, root, mechanism):
    name = f"user-{mechanism}"
    root.shop.command("createUser", name, pwd="päßword", roles=["readWrite"], mechanisms=[mechanism])
    options = {"username": name, "authSource": "shop", "authMechanism": mechanism}
    with MongoClient(guarded.uri, password="päßword", **options) as client:
        client.shop.things.insert_one({"by": name})
        assert client.shop.things.count_documents({"by": name}) == 1
        assert refused(lambda: client.stock.things.insert_one({})) == 13
    with MongoClient(guarded.uri, password="password", **options) as client:
        assert refused(lambda: client.shop.things.find_one()) == 18


def test_unknown_user_and_wrong_password_give_the_same_answer(guarded):
    answers = []
    for name in ("ada", "nobody-of-that-name"):
        with MongoClient(guarded.uri, username=name, password="wrong") as client, pytest.raises(OperationFailure) as caught:
            client.shop.things.find_one()
        answers.append((caught.value.code, caught.value.details["errmsg"]))
    assert answers[0] == answers[1] == (18, "Authentication failed.")


def test_user_of_the_driver_signs_in_over_http(guarded, root):
    root.admin.command("createUser", "dora", pwd="over http", roles=[{"role": "readWrite", "db": "shop"}])
    root.shop.dora.insert_one({"_id": "a"})
    http = as_user(guarded, "dora", "over http")
    session = http.get("_session").json()
    assert session["userCtx"]["name"] == "dora"
    assert http.get("shop%2Fdora/a").json()["_id"] == "a"
    assert http.put("shop%2Fdora/b", json={}).status_code == 201
    assert http.put("shop%2Fdora/_design/d", json={"views": {}}).status_code in (401, 403)
    assert http.get("stock%2Fother").status_code in (401, 403, 404)
    assert as_user(guarded, "dora", "Over http").get("_session").status_code == 401


def test_user_of_couchdb_signs_in_with_the_driver(guarded, root, root_http):
    assert put_user(root_http, "carl", "from couch", ["staff"]).status_code == 201
    stored = root_http.get("_users/org.couchdb.user:carl").json()
    assert "password" not in stored and stored["password_scheme"] == "pbkdf2"
    root_http.put("staffed")
    security = {"admins": {"names": [], "roles": []}, "members": {"names": [], "roles": ["staff"]}}
    assert root_http.put("staffed/_security", json=security).status_code == 200
    with MongoClient(guarded.uri, username="carl", password="from couch") as client:
        client.test.staffed.insert_one({"_id": 1})
        assert client.test.staffed.find_one()["_id"] == 1
        assert refused(lambda: client.test.command("collMod", "staffed", validator={})) == 13
        assert refused(lambda: client.test.other.find_one()) == 13
    assert as_user(guarded, "carl", "from couch").get("staffed/_all_docs").json()["total_rows"] == 1


def test_hash_that_was_made_elsewhere_signs_in_over_http_and_then_with_the_driver(guarded, root_http):
    salt = "0123456789abcdef0123456789abcdef"
    derived = hashlib.pbkdf2_hmac("sha1", b"made elsewhere", salt.encode(), 10, 20).hex()
    document = {"type": "user", "name": "elsa", "roles": [], "password_scheme": "pbkdf2", "iterations": 10, "derived_key": derived, "salt": salt}
    assert root_http.put("_users/org.couchdb.user:elsa", json=document).status_code == 201
    with MongoClient(guarded.uri, username="elsa", password="made elsewhere") as client:
        assert refused(lambda: client.test.x.find_one()) == 18
    assert as_user(guarded, "elsa", "made elsewhere").get("_session").json()["userCtx"]["name"] == "elsa"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with MongoClient(guarded.uri, username="elsa", password="made elsewhere") as client:
            try:
                status = client.admin.command("connectionStatus")
                break
            except OperationFailure:
                time.sleep(0.2)
    assert status["authInfo"]["authenticatedUsers"] == [{"user": "elsa", "db": "admin"}]


def test_cookie_session_is_signed_and_ends_with_the_password(guarded, root, root_http):
    put_user(root_http, "kim", "first")
    session = requests.Session()
    answer = session.post(guarded.url + "_session", data={"name": "kim", "password": "first"})
    assert answer.status_code == 200 and answer.json()["name"] == "kim"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "Secure" not in cookie
    assert session.get(guarded.url + "_session").json()["userCtx"]["name"] == "kim"
    value = session.cookies["AuthSession"]
    padded = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    forged = base64.urlsafe_b64encode(padded.replace(b"kim", b"ada", 1)).decode().rstrip("=")
    answer = requests.get(guarded.url + "_session", cookies={"AuthSession": forged}, timeout=10)
    assert answer.status_code in (400, 401) or answer.json()["userCtx"]["name"] is None
    root.admin.command("updateUser", "kim", pwd="second")
    answer = requests.get(guarded.url + "_session", cookies={"AuthSession": value}, timeout=10)
    assert answer.status_code in (400, 401) or answer.json()["userCtx"]["name"] is None


def test_change_of_rights_holds_for_open_connections(guarded, root):
    root.shop.command("createUser", "rita", pwd="pw", roles=["read"])
    with MongoClient(guarded.uri, username="rita", password="pw", authSource="shop") as client:
        client.shop.rights.find_one()
        assert refused(lambda: client.shop.rights.insert_one({})) == 13
        root.shop.command("grantRolesToUser", "rita", roles=["readWrite"])
        client.shop.rights.insert_one({})
        root.shop.command("dropUser", "rita")
        assert refused(lambda: client.shop.rights.find_one()) == 13


def test_user_sees_his_own_document_alone(guarded, root_http):
    for name in ("lea", "leo"):
        put_user(root_http, name, "pw")
    lea = as_user(guarded, "lea", "pw")
    own = lea.get("_users/org.couchdb.user:lea")
    assert own.status_code == 200
    assert lea.get("_users/org.couchdb.user:leo").status_code in (403, 404)
    assert lea.get("_users/_all_docs").status_code in (401, 403)
    changed = own.json() | {"roles": ["_admin"]}
    assert lea.put("_users/org.couchdb.user:lea", json=changed).status_code in (401, 403)
    changed = own.json() | {"grants": [{"role": "root", "db": "admin"}]}
    assert lea.put("_users/org.couchdb.user:lea", json=changed).status_code in (401, 403)
    changed = own.json() | {"password": "new", "city": "Łódź"}
    assert lea.put("_users/org.couchdb.user:lea", json=changed).status_code == 201
    assert as_user(guarded, "lea", "new").get("_session").status_code == 200


@pytest.mark.parametrize("document", [
    {"name": "x:y", "type": "user", "roles": [], "password": "p"},
    {"name": "_x", "type": "user", "roles": [], "password": "p"},
    {"name": "odd", "type": "user", "roles": ["_admin"], "password": "p"},
    {"name": "odd", "type": "user", "roles": "none", "password": "p"},
    {"name": "odd", "type": "user", "roles": [1], "password": "p"},
    {"name": "odd", "type": "user", "password": "p"},
    {"name": "other", "type": "user", "roles": [], "password": "p"},
    {"type": "user", "roles": [], "password": "p"},
    {"name": "odd", "roles": [], "password": "p"},
])  # fmt: skip
def test_odd_user_documents_are_refused(root_http, document):
    name = document["name"] if document.get("name") in ("x:y", "_x") else "odd"
    answer = root_http.put(f"_users/org.couchdb.user:{name}", json=document)
    assert answer.status_code == 403, answer.text


def test_last_administrator_stays(guarded, root, root_http):
    assert refused(lambda: root.admin.command("dropUser", "ada")) == 13
    document = root_http.get("_users/org.couchdb.user:ada").json()
    answer = root_http.delete(f"_users/org.couchdb.user:ada?rev={document['_rev']}")
    assert answer.status_code in (401, 403) and "administer" in answer.json()["reason"]
    assert root_http.delete("_users").status_code in (401, 403)
    assert root_http.delete("_node/_local/_config/admins/ada").status_code in (400, 401, 403)


def test_settings_are_written_and_take_effect(guarded, root_http):
    config = "_node/_local/_config"
    assert root_http.put(f"{config}/couchdb/max_document_size", data='"1000"').status_code == 200
    root_http.put("sized")
    assert root_http.put("sized/a", json={"text": "x" * 2000}).status_code == 413
    assert root_http.delete(f"{config}/couchdb/max_document_size").json() == "1000"
    assert root_http.put("sized/a", json={"text": "x" * 2000}).status_code == 201
    assert root_http.put(f"{config}/admins/otto", data='"root too"').status_code == 200
    with MongoClient(guarded.uri, username="otto", password="root too") as client:
        assert "admin" in client.list_database_names()
    assert root_http.get(f"{config}/admins/otto").json().startswith("-pbkdf2")
    assert root_http.delete(f"{config}/admins/otto").status_code == 200
    assert as_user(guarded, "otto", "root too").get("_session").status_code == 401


def test_secrets_are_neither_in_the_log_nor_in_answers(guarded, root):
    root.admin.command("setParameter", 1, cursorTimeoutMillis=600000)
    root.shop.command("profile", 2)
    root.shop.command("createUser", "secretive", pwd="never-shown-1", roles=[])
    root.shop.command("updateUser", "secretive", pwd="never-shown-2")
    root.shop.command("profile", 0)
    profiled = json.dumps(list(root.shop["system.profile"].find()), default=str)
    shown = json.dumps(root.shop.command("usersInfo", 1), default=str)
    for text in (profiled, shown, guarded.log.read_text()):
        assert "never-shown" not in text and "storedKey" not in text


def test_couchdb_python_signs_in(guarded, root_http):
    put_user(root_http, "pyth", "pw", [])
    server = couchdb.Server(guarded.url)
    server.resource.credentials = ("pyth", "pw")
    root_http.put("pythons")
    root_http.put("pythons/_security", json={"members": {"names": ["pyth"]}, "admins": {"names": []}})
    identifier, _ = server["pythons"].save({"a": 1})
    assert server["pythons"][identifier]["a"] == 1
    with pytest.raises((couchdb.Unauthorized, couchdb.http.ServerError, couchdb.http.HTTPError)):
        server.create("another")


def test_command_line_adds_lists_and_removes_users(tmp_path):
    data = tmp_path / "data"

    def user(*arguments, password=None, expect=0):
        finished = subprocess.run(
            [binary(), "user", *arguments, "--data", data], input=password, capture_output=True, text=True, timeout=60, check=False
        )
        assert finished.returncode == expect, finished.stderr
        return finished.stdout + finished.stderr

    assert "first user" in user("add", "app", "--role", "readWrite@shop", password="pw", expect=1)
    user("add", "anna", "--role", "root", password="stopped")
    server = ServerProcess(tmp_path, data=data).start()
    try:
        user("add", "app", "--role", "readWrite@shop", password="running")
        assert user("list") == "anna@admin\troot@admin\napp@admin\treadWrite@shop\n"
        with MongoClient(server.uri, username="app", password="running") as client:
            client.shop.things.insert_one({})
        user("passwd", "app", password="changed")
        with MongoClient(server.uri, username="app", password="changed") as client:
            client.shop.things.insert_one({})
        user("remove", "app")
        assert "administer" in user("remove", "anna", expect=1)
    finally:
        server.end()
    assert "administer" in user("remove", "anna", expect=1)
    user("remove", "anna", "--last")
    assert user("list") == ""


def test_server_refuses_to_be_exposed_without_users_or_tls(tmp_path):
    def start(**environment):
        command = [binary(), "serve", "--memory", "--listen", "0.0.0.0:0", "--http", "off"]
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert finished.returncode != 0
        return finished.stderr

    assert "diwan user add" in start()
    assert "--insecure-plaintext" in start(**ROOT)


def test_sign_ins_are_slowed_but_the_owner_is_not_locked_out(guarded, root_http):
    put_user(root_http, "slow", "right")
    owner = as_user(guarded, "slow", "right")
    assert owner.get("_session").status_code == 200
    began = time.monotonic()
    for _ in range(8):
        assert as_user(guarded, "slow", "wrong").get("_session").status_code == 401
    assert time.monotonic() - began > 0.2
    assert owner.get("_session", timeout=30).status_code == 200


def test_sasl_messages_out_of_order_are_refused(guarded):
    with MongoClient(guarded.uri) as client:
        admin = client.admin
        first = b"n,,n=ada,r=abcdefghijklmnopqrstuvwx"
        assert refused(lambda: admin.command("saslContinue", conversationId=1, payload=Binary(b"c=biws"))) in (17, 18)
        for payload in (b"", b"\xff\xff", b"n,,", b"p=tls-unique,,n=ada,r=abc", b"n,,n=a=3Xb,r=abcdefghijklmnop", b"x" * 20_000):
            assert refused(lambda: admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=Binary(payload))) in (2, 18, 10334)
        assert refused(lambda: admin.command("saslStart", mechanism="PLAIN", payload=Binary(b"\0ada\0first secret"))) in (2, 18, 334)
        answer = admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=Binary(first))
        wrong = Binary(b"c=biws,r=another,p=AAAA")
        assert refused(lambda: admin.command("saslContinue", conversationId=answer["conversationId"], payload=wrong)) == 18
        assert refused(lambda: client.shop.x.find_one()) == 13
