"""Invalid HTTP requests: the answers have CouchDB's status and error, and the server keeps working."""

import contextlib
import json
import socket

import pytest


def refusal(response):
    body = response.json()
    return response.status_code, body["error"], body["reason"]


def test_invalid_database_requests_are_refused(http, couch):
    assert refusal(http.put("Upper")) == (
        400,
        "illegal_database_name",
        "Name: 'Upper'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / "
        "are allowed. Must begin with a letter.",
    )
    assert refusal(couch.put()) == (412, "file_exists", "The database could not be created, the file already exists.")
    for path in ["none", "none/doc", "none/_all_docs", "none/_changes", "none/_design/a/_view/b"]:
        assert refusal(http.get(path)) == (404, "not_found", "Database does not exist."), path
    assert refusal(http.post("_all_dbs"))[:2] == (405, "method_not_allowed")
    assert "GET" in http.post("_all_dbs").headers["Allow"]


@pytest.mark.parametrize("body", ["{", "", "[1", '{"a":}', '{"a":1}x', '{"a":"\\ud800"}', "{'a':1}", "nul", '{"a":01}'])
def test_malformed_json_is_refused(couch, body):
    response = couch.put("doc", data=body, headers={"Content-Type": "application/json"})
    assert refusal(response)[:2] == (400, "bad_request")
    assert refusal(couch.post("_bulk_docs", data=body, headers={"Content-Type": "application/json"}))[0] == 400
    assert couch.get("").json()["doc_count"] == 0


def test_invalid_document_requests_are_refused(couch):
    assert refusal(couch.put("doc", json=[1]))[:2] == (400, "bad_request")
    assert refusal(couch.put("_doc", json={}))[1] in ("illegal_docid", "bad_request")
    assert refusal(couch.put("doc", json={"_rev": "x"})) == (400, "bad_request", "Invalid rev format")
    assert refusal(couch.put("doc", json={"_bad": 1})) == (400, "doc_validation", "Bad special document member: _bad")
    assert couch.put("named", json={"_id": "other"}).json()["id"] == "named", "the id in the URL wins"
    assert refusal(couch.get("doc", params={"rev": "nonsense"})) == (400, "bad_request", "Invalid rev format")
    assert refusal(couch.get("doc", params={"revs": "maybe"}))[:2] == (404, "not_found"), "any value but true is false"
    assert refusal(couch.post("", data="{}", headers={"Content-Type": "text/plain"})) == (
        415,
        "bad_content_type",
        "Content-Type must be application/json",
    )
    deep = json.loads("[" * 90 + "]" * 90)
    assert couch.put("deep", json={"a": deep}).status_code == 201
    too_deep = '{"a":' + "[" * 5000 + "]" * 5000 + "}"
    assert couch.put("deeper", data=too_deep, headers={"Content-Type": "application/json"}).status_code == 400


def test_too_large_document_is_refused(couch):
    refused = couch.put("large", json={"data": "x" * (17 << 20)})
    assert refused.status_code == 413
    assert couch.put("fits", json={"data": "x" * (15 << 20)}).status_code == 201


def test_misbehaving_scripts_do_not_affect_others(couch):
    views = {
        "loops": {"map": "function (doc) { while (true); }"},
        "allocates": {"map": "function (doc) { var a = []; while (true) a.push(new Array(1000).join('x')); }"},
        "recurses": {"map": "function (doc) { (function f() { f(); })(); }"},
        "throws": {"map": "function (doc) { throw 'no'; }"},
        "grows": {"map": "function (doc) { emit(doc._id, 'x'); }", "reduce": "function (k, v) { return v.concat(v).concat(k); }"},
        "fine": {"map": "function (doc) { emit(doc._id, 1); }", "reduce": "_sum"},
    }
    for name, view in views.items():
        assert couch.put(f"_design/{name}", json={"views": {name: view}}).status_code == 201
    couch.post("_bulk_docs", json={"docs": [{"_id": f"d{n}"} for n in range(20)]})
    assert couch.get("_design/fine/_view/fine").json()["rows"] == [{"key": None, "value": 20}]
    assert couch.get("_design/throws/_view/throws").json()["rows"] == []
    for name in ["loops", "allocates", "recurses"]:
        answer = couch.get(f"_design/{name}/_view/{name}", timeout=120)
        assert answer.status_code >= 400 or answer.json()["rows"] == [], name
    broken = couch.put("_design/broken", json={"views": {"v": {"map": "function (doc) { emit("}}})
    assert broken.status_code == 201 or broken.json()["error"] == "compilation_error"
    assert couch.get("d1").status_code == 200


def test_invalid_http_does_not_affect_the_server(server, couch):
    for request in [b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/a" * 100_000 + b" HTTP/1.1\r\n\r\n",
                    b"PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                    b"PUT /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]:  # fmt: skip
        with socket.create_connection(("127.0.0.1", server.http_port), timeout=10) as raw:
            # The server may close the connection before it has read the whole request.
            with contextlib.suppress(OSError):
                raw.sendall(request)
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(4096):
                    pass
    assert couch.get("").status_code == 200
