"""The audit log: a line for each sign-in, refusal and change, without secrets."""

import json

from http_client import Http
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from server_process import ServerProcess

ROOT = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "secret-of-ada"}


def test_audit_log_has_a_line_for_each_event_and_no_secret(tmp_path):
    server = ServerProcess(tmp_path, arguments=("--audit", "audit.log"), environment=ROOT).start()
    try:
        with MongoClient(server.uri, username="ada", password="secret-of-ada") as root:
            root.shop.command("createUser", "bob", pwd="secret-of-bob", roles=["read"])
            root.shop.orders.insert_one({})
            root.shop.command("createRole", "counter", privileges=[], roles=["read"])
            root.shop.command("grantRolesToUser", "bob", roles=["counter"])
            with MongoClient(server.uri, username="bob", password="secret-of-bob", authSource="shop") as bob:
                try:
                    bob.shop.orders.insert_one({})
                except OperationFailure as error:
                    assert error.code == 13
            with MongoClient(server.uri, username="bob", password="wrong-secret", authSource="shop") as bob:
                try:
                    bob.shop.orders.find_one()
                except OperationFailure as error:
                    assert error.code == 18
            http = Http(server.url)
            http.session.auth = ("ada", "secret-of-ada")
            http.put("made")
            http.put("made/_security", json={"members": {"names": ["bob"]}, "admins": {"names": []}})
            http.put("_node/_local/_config/couchdb/max_document_size", data='"5000000"')
            http.put("_users/org.couchdb.user:eva", json={"type": "user", "name": "eva", "roles": [], "password": "secret-of-eva"})
            http.post("_session", json={"name": "ada", "password": "wrong-secret"})
            stranger = Http(server.url)
            stranger.session.auth = ("eva", "secret-of-eva")
            assert stranger.get("made").status_code == 403
            root.shop.command("dropUser", "bob")
    finally:
        server.end()
    text = (tmp_path / "audit.log").read_text()
    assert "secret-of" not in text and "wrong-secret" not in text and "derived_key" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line["ts"] > 1_700_000_000_000 and line["event"] for line in lines)
    events = {line["event"] for line in lines}
    assert {"signIn", "signInFailed", "refused", "createUser", "createRole", "grantRolesToUser", "dropUser"} <= events, events
    assert len([line for line in lines if line["event"] == "refused"]) >= 2
    by_ada = [line for line in lines if line["event"] == "createUser"]
    assert by_ada[0]["user"] == {"user": "ada", "db": "admin"} and by_ada[0]["address"] == "127.0.0.1"
    assert {"setSecurity", "setSetting"} <= events, events
    described = json.dumps(lines)
    assert "max_document_size" in described and "eva" in described
    assert {line["interface"] for line in lines if "interface" in line} == {"mongodb", "http"}
    assert (tmp_path / "audit.log").stat().st_mode & 0o077 == 0
