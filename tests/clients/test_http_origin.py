"""Browser access to the HTTP face: pages of other origins need permission."""

import contextlib
from http.client import HTTPConnection

import pytest
from http_client import Http
from server_process import ServerProcess

APP = "https://app.example"


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    """A server that allows one origin."""
    process = ServerProcess(tmp_path_factory.mktemp("cors"), arguments=("--cors-origin", APP)).start()
    yield Http(process.url)
    process.end()


def preflight(http, origin, method="PUT"):
    headers = {"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "content-type"}
    return http.request("OPTIONS", "db/doc", headers=headers)


def test_allowed_origin_may_read_and_write(open_server):
    response = preflight(open_server, APP)
    assert response.status_code in (200, 204)
    assert response.headers["Access-Control-Allow-Origin"] == APP
    assert "PUT" in response.headers["Access-Control-Allow-Methods"]
    assert "content-type" in response.headers["Access-Control-Allow-Headers"].lower()
    read = open_server.get("_all_dbs", headers={"Origin": APP})
    assert read.status_code == 200
    assert read.headers["Access-Control-Allow-Origin"] == APP
    assert "etag" in read.headers["Access-Control-Expose-Headers"].lower()
    missing = open_server.get("none", headers={"Origin": APP})
    assert (missing.status_code, missing.headers["Access-Control-Allow-Origin"]) == (404, APP)


def test_other_origin_is_refused(open_server, http):
    for server, origin in [(open_server, "https://evil.example"), (http, APP)]:
        assert preflight(server, origin).status_code == 403
        refused = server.put("evil", headers={"Origin": origin})
        assert refused.status_code == 403
        assert "Access-Control-Allow-Origin" not in refused.headers
        assert "evil" not in server.get("_all_dbs").json()


def test_unknown_host_header_is_refused(http):
    refused = http.get("_all_dbs", headers={"Host": "evil.example:5984"})
    assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
    assert http.get("", headers={"Host": "localhost:5984"}).status_code == 200


def test_show_function_sees_the_peer_address(server, couch):
    """`req.peer` is the client's address."""
    couch.put("_design/who", json={"shows": {"peer": "function (doc, req) { return req.peer; }"}})
    for own in ["127.0.0.1", "127.0.0.2"]:
        with contextlib.closing(HTTPConnection("127.0.0.1", server.http_port, source_address=(own, 0))) as raw:
            raw.request("GET", "/" + couch.url.removeprefix(server.url) + "/_design/who/_show/peer")
            assert raw.getresponse().read() == own.encode()
