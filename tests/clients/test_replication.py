"""Replication within a server, between two servers, and with PouchDB. Also failures and crashes."""

import base64
import gzip
import random
import shutil
import ssl
import statistics
import subprocess
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from http_client import Http
from pymongo import MongoClient
from server_process import REPOSITORY, ServerProcess

NODE = REPOSITORY / "tests" / "node"
SECONDS = 60


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second server in memory."""
    process = ServerProcess(tmp_path_factory.mktemp("other")).start()
    yield Http(process.url)
    process.end()


@pytest.fixture(scope="module")
def pouch(tmp_path_factory):
    """A PouchDB server as another implementation of CouchDB's protocol."""
    log = tmp_path_factory.mktemp("pouch") / "log"
    command = ["node", "pouchdb-server.js", str(log)]
    with subprocess.Popen(command, cwd=NODE, stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().strip()
        yield Http(f"http://127.0.0.1:{port}")
        process.kill()


@pytest.fixture
def name():
    return f"r-{uuid.uuid4().hex[:12]}"


def until(what, check, seconds=SECONDS):
    """Waits until `check` returns a true value, and returns it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"timed out waiting until {what}")


def replicate(http, source, target, status=200, **options):
    response = http.post("_replicate", json={"source": source, "target": target, **options})
    assert response.status_code == status, response.text
    return response.json()


def state(database):
    """The replicated state of a database: all leaf revisions of each document, with bodies and attachments."""
    changes = database.get("_changes", params={"style": "all_docs"}).json()["results"]
    state = {}
    for row in changes:
        path = row["id"].replace("/", "%2F")
        leaves = {}
        for rev in sorted(change["rev"] for change in row["changes"]):
            headers = {"Accept": "application/json"}
            doc = database.get(path, params={"rev": rev, "attachments": "true"}, headers=headers).json()
            for attachment in doc.get("_attachments", {}).values():
                attachment.pop("revpos", None)
            leaves[rev] = doc
        state[row["id"]] = (leaves, row.get("deleted", False))
    return state


def fill(database):
    """Fills a database with edited, deleted and conflicting documents, and with attachments."""
    database.put().raise_for_status()
    docs = [{"_id": f"d{number:03}", "number": number, "text": "x" * number} for number in range(300)]
    docs += [{"_id": "_design/d", "filters": {"even": "function (doc) { return doc.number % 2 === 0; }"}}]
    docs += [{"_id": "a/b c?&+é", "value": 1.5}]
    rows = database.post("_bulk_docs", json={"docs": docs}).json()
    assert all("rev" in row for row in rows), rows
    revs = {row["id"]: row["rev"] for row in rows}
    for number in range(0, 30):
        database.put(f"d{number:03}", json={"_rev": revs[f"d{number:03}"], "edited": True}).raise_for_status()
    for number in range(30, 60):
        database.delete(f"d{number:03}", params={"rev": revs[f"d{number:03}"]}).raise_for_status()
    conflicts = [
        {"_id": f"d{number:03}", "_rev": f"2-{number:032x}", "branch": True}
        | {"_revisions": {"start": 2, "ids": [f"{number:032x}", revs[f"d{number:03}"][2:]]}}
        for number in range(20, 40)
    ]
    assert database.post("_bulk_docs", json={"new_edits": False, "docs": conflicts}).json() == []
    small = {"content_type": "image/png", "data": base64.b64encode(bytes(range(256))).decode()}
    packed = {"content_type": "text/plain", "data": base64.b64encode(b"text " * 1000).decode()}
    body = {"_attachments": {"small.bin": small, "text ü.txt": packed}}
    database.put("attached", json=body).raise_for_status()


LARGE = random.Random(7).randbytes(3_000_001)
TEXT = b"a line of a long text\n" * 20_000


def fill_large(database):
    """Adds a document with a large incompressible attachment and a compressible one."""
    rev = database.put("large", json={"n": 1}).json()["rev"]
    headers = {"Content-Type": "application/octet-stream"}
    rev = database.put(f"large/raw?rev={rev}", data=LARGE, headers=headers).json()["rev"]
    headers = {"Content-Type": "text/plain"}
    database.put(f"large/dir/text.txt?rev={rev}", data=TEXT, headers=headers).raise_for_status()


@pytest.mark.parametrize("bulk", [True, False])
@pytest.mark.parametrize("way", ["local", "push", "pull", "remote"])
def test_replication_copies_revisions_bodies_and_attachments(http, other, name, way, bulk):
    source, runner, target = http.database(name), http, other.database(name)
    ends = source.url, target.url
    if way == "local":
        target, ends = http.database(f"{name}-copy"), (name, f"{name}-copy")
    elif way == "push":
        ends = name, target.url
    elif way == "pull":
        runner, ends = other, (source.url, name)
    fill(source)
    fill_large(source)
    answer = replicate(runner, *ends, create_target=True, use_bulk_get=bulk)
    history = answer["history"][0]
    assert answer["ok"] and answer["replication_id_version"] == 4 and history["session_id"] == answer["session_id"]
    assert history["doc_write_failures"] == 0 and history["docs_written"] == history["docs_read"] == 324, history
    assert history["missing_checked"] == history["missing_found"] == 324
    assert state(source) == state(target)
    assert target.get("large/raw").content == LARGE
    assert target.get("large/dir/text.txt").content == TEXT
    again = replicate(runner, *ends, use_bulk_get=bulk)
    assert again["no_changes"] and again["history"] == answer["history"]
    # An edit, another attachment, a deletion.
    rev = source.get("large").json()["_rev"]
    rev = source.put(f"large/more?rev={rev}", data=b"more").json()["rev"]
    source.delete("d100", params={"rev": source.get("d100").json()["_rev"]}).raise_for_status()
    third = replicate(runner, *ends, use_bulk_get=bulk)
    assert [session["docs_written"] for session in third["history"]] == [326, 324]
    assert state(source) == state(target)
    checkpoint = source.get("_local_docs", params={"include_docs": "true"}).json()["rows"]
    assert [row["doc"]["session_id"] for row in checkpoint] == [third["session_id"]]


def test_replication_copies_only_selected_documents(http, name):
    source = http.database(name)
    fill(source)
    count = 0

    def copy(**options):
        nonlocal count
        count += 1
        answer = replicate(http, name, f"{name}-{count}", create_target=True, **options)
        rows = http.database(f"{name}-{count}").get("_all_docs").json()["rows"]
        return answer, {row["id"] for row in rows if not row["id"].startswith("_design/")}

    assert copy(doc_ids=["d001", "d002", "none", "a%2Fb%20c%3F%26%2B%C3%A9"])[1] == {"d001", "d002", "a/b c?&+é"}
    assert copy(selector={"number": {"$gte": 297}})[1] == {"d297", "d298", "d299"}
    _, even = copy(filter="d/even")
    assert len(even) == 120 and all(int(id[1:]) % 2 == 0 for id in even)
    since = source.get("_changes", params={"limit": 290}).json()["last_seq"]
    assert len(copy(since_seq=since)[1]) < 60
    answer, winners = copy(winning_revs_only=True)
    assert answer["history"][0]["missing_checked"] == len(winners) + 1 + len(range(40, 60))
    assert copy(use_checkpoints=False)[0] == {"ok": True, "use_checkpoints": False}
    response = http.post("_replicate", json={"source": name, "target": name + "-x", "doc_ids": [], "selector": {}})
    assert response.json()["reason"] == "`doc_ids`,`filter`,`selector` are mutually exclusive"
    assert response.status_code == 400


def test_replication_counts_refused_writes(http, other, name):
    source, target = http.database(name), other.database(name)
    fill(source)
    target.put().raise_for_status()
    function = "function (doc) { if (doc.number > 200) throw {forbidden: 'too much'}; }"
    target.put("_design/guard", json={"validate_doc_update": function}).raise_for_status()
    history = replicate(http, name, target.url)["history"][0]
    assert history["doc_write_failures"] == 99 and history["docs_read"] == history["docs_written"] + 99
    assert target.get("d200").status_code == 200 and target.get("d201").status_code == 404


def test_unreachable_ends_are_reported(http, other, name):
    http.database(name).put().raise_for_status()

    def refused(source, target, **options):
        response = http.post("_replicate", json={"source": source, "target": target, **options})
        return response.status_code, response.json()["error"], response.json()["reason"]

    missing = f"{other.url}/{name}-missing"
    assert refused(f"{name}-missing", name) == (404, "db_not_found", f"could not open {name}-missing")
    assert refused(missing, name) == (404, "db_not_found", f"could not open {missing}/")
    assert refused(name, missing) == (404, "db_not_found", f"could not open {missing}/")
    assert refused(name, missing, continuous=True) == (404, "db_not_found", f"could not open {missing}/")
    assert refused(name, f"{other.url}/Bad")[1] == "db_not_found"
    assert refused(name, f"{other.url}/Bad", create_target=True)[1] == "illegal_database_name"
    assert refused("http://127.0.0.1:9/x", name)[:2] == (500, "http_request_failed")
    assert refused("http://no.such.host.invalid/x", name)[1] == "nxdomain"
    for body in [{}, {"source": name}, {"source": name, "target": 1}, {"source": "ftp://x/y", "target": name}]:
        assert http.post("_replicate", json=body).status_code == 400
    assert http.post("_replicate", data="{}").status_code == 415
    assert http.get("_replicate").status_code == 405
    assert http.post("_replicate", json={"cancel": True, "replication_id": "x"}).json()["error"] == "not_found"


class Foreign(BaseHTTPRequestHandler):
    """A server that is not CouchDB. Under /secret it requires a password and then looks like an empty database."""

    def do_GET(self):
        secret = self.path.startswith("/secret")
        known = self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:pass word").decode()
        status, body = 200, "<html>Hello</html>"
        if self.path.startswith("/moved"):
            status = 302
        elif secret and not known:
            status, body = 401, '{"error":"unauthorized","reason":"who are you"}'
        elif secret and "_local" in self.path:
            status, body = 404, '{"error":"not_found","reason":"missing"}'
        elif secret and "_changes" in self.path:
            body = gzip.compress(b'{"results":[],"last_seq":0,"pending":0}')
        elif secret:
            body = '{"db_name":"secret","update_seq":0,"instance_start_time":"0"}'
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/")
        if body[:2] == b"\x1f\x8b":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_unsuitable_peers_and_credentials(http, name):
    http.database(name).put().raise_for_status()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_address[1]}"

    def run(source):
        return http.post("_replicate", json={"source": source, "target": name})

    try:
        answer = run(f"http://{host}/html")
        assert answer.status_code == 404 and answer.json()["reason"] == f"could not open http://{host}/html/"
        answer = run(f"http://{host}/moved")
        assert answer.status_code == 500 and answer.json()["error"] == "http_request_failed"
        for login in ["", "me:wrong@"]:
            answer = run(f"http://{login}{host}/secret")
            assert answer.status_code == 401 and answer.json()["error"] == "unauthorized"
            assert "wrong" not in answer.text
        assert run(f"http://me:pass%20word@{host}/secret").json()["ok"]
        auth = {"basic": {"username": "me", "password": "pass word"}}
        assert run({"url": f"http://{host}/secret", "auth": auth}).json()["ok"]
        header = "Basic " + base64.b64encode(b"me:pass word").decode()
        assert run({"url": f"http://{host}/secret", "headers": {"Authorization": header}}).json()["ok"]
    finally:
        server.shutdown()


def test_https_peer_must_have_a_trusted_certificate(http, name, tmp_path, monkeypatch):
    """Replication accepts a server with a trusted certificate, and refuses others."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    files = {"keyfile": tmp_path / "key.pem", "certfile": tmp_path / "certificate.pem"}
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=replication test"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-keyout", str(files["keyfile"]), "-out", str(files["certfile"])]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(**files)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = f"https://me:pass%20word@localhost:{server.server_address[1]}/secret"
    body = {"source": source, "target": name, "create_target": True}
    monkeypatch.setenv("SSL_CERT_FILE", str(files["certfile"]))
    trusting = ServerProcess(tmp_path).start()
    try:
        assert Http(trusting.url).post("_replicate", json=body).json()["ok"]
        refused = http.post("_replicate", json={**body, "retries_per_request": 0})
        assert refused.status_code == 500 and "certificate" in refused.json()["reason"]
    finally:
        trusting.stop()
        server.shutdown()


def job_of(http, id):
    return next((job for job in http.get("_scheduler/jobs").json()["jobs"] if job["id"] == id), None)


def test_continuous_replication_both_ways_converges(http, other, name):
    here, there = http.database(name), other.database(name)
    fill(here)
    there.put().raise_for_status()
    push = replicate(http, name, there.url, 202, continuous=True, checkpoint_interval=200)["_local_id"]
    pull = replicate(http, there.url, name, 202, continuous=True, checkpoint_interval=200)["_local_id"]
    assert push.endswith("+continuous") and push != pull
    assert replicate(http, name, there.url, 202, continuous=True, checkpoint_interval=200)["_local_id"] == push
    for number in range(20):
        here.put(f"here-{number}", json={}).raise_for_status()
        there.put(f"there-{number}", json={}).raise_for_status()
    until("both databases are equal", lambda: state(here) == state(there))
    sequences = [database.get().json()["update_seq"] for database in (here, there)]
    time.sleep(0.5)
    assert sequences == [database.get().json()["update_seq"] for database in (here, there)]
    delays = []
    for number in range(40):
        there.put(f"probe-{number}", json={}).raise_for_status()
        begin = time.monotonic()
        until("the write arrives", lambda number=number: here.get(f"probe-{number}").status_code == 200)
        delays.append((time.monotonic() - begin) * 1000)
    print(f"replication delay: median {statistics.median(delays):.1f} ms, maximum {max(delays):.1f} ms")
    assert statistics.median(delays) < 500
    tasks = {task["replication_id"]: task for task in http.get("_active_tasks").json() if task["type"] == "replication"}
    assert tasks[push]["continuous"] and tasks[push]["source"] == name and tasks[push]["docs_written"] >= 323
    until("the checkpoint is recorded", lambda: job_of(http, pull)["info"]["checkpointed_source_seq"] == there.get().json()["update_seq"])
    assert http.get(f"_scheduler/jobs/{push}").json()["history"][-1]["type"] == "added"
    for id in (push, pull):
        assert http.post("_replicate", json={"cancel": True, "replication_id": id}).json() == {"ok": True, "_local_id": id}
        assert job_of(http, id) is None
    assert http.post("_replicate", json={"cancel": True, "source": name, "target": there.url}).status_code == 404


def test_dropped_source_crashes_only_its_own_job(http, other, name):
    here, there = http.database(name), other.database(name)
    for database in (here, there):
        database.put().raise_for_status()
    fill(other.database(f"{name}-fine"))
    gone = replicate(http, there.url, name, 202, continuous=True, retries_per_request=0)["_local_id"]
    local = replicate(http, name, f"{name}-copy", 202, continuous=True, create_target=True, retries_per_request=0)["_local_id"]
    fine = replicate(http, f"{other.url}/{name}-fine", f"{name}-fine", 202, continuous=True, create_target=True)["_local_id"]
    there.delete().raise_for_status()
    here.delete().raise_for_status()
    for id in (gone, local):
        job = until("the job crashes", lambda id=id: (job := job_of(http, id)) and job["state"] == "crashing" and job, 120)
        assert "could not open" in job["info"]["error"], job
        http.post("_replicate", json={"cancel": True, "replication_id": id}).raise_for_status()
    assert job_of(http, fine)["state"] == "running"
    until("the other job continues", lambda: http.database(f"{name}-fine").get().json()["doc_count"] >= 280)
    http.post("_replicate", json={"cancel": True, "replication_id": fine}).raise_for_status()


def test_replicator_documents_control_jobs(http, client, other, name):
    source, target = http.database(name), other.database(name)
    fill(source)
    jobs = http.database("_replicator")
    body = {"source": name, "target": target.url, "create_target": True}
    assert jobs.put(f"{name}-once", json=body).status_code == 201
    assert http.get(f"_scheduler/docs/_replicator/{name}-once").status_code == 200  # at once
    done = until("the job is completed", lambda: (doc := jobs.get(f"{name}-once").json()).get("_replication_state") and doc)
    assert done["_replication_state"] == "completed" and done["_replication_stats"]["docs_written"] == 323
    listed = http.get(f"_scheduler/docs/_replicator/{name}-once").json()
    assert listed["state"] == "completed" and listed["info"]["docs_written"] == 323
    # A continuous job that a MongoDB driver starts with an insert and ends with a deletion.
    replicator = client["admin"]["_replicator"]
    replicator.insert_one({"_id": f"{name}-live", **body, "continuous": True})
    until("the job runs", lambda: http.get(f"_scheduler/docs/_replicator/{name}-live").json().get("state") == "running")
    source.put("late", json={}).raise_for_status()
    until("the write arrives", lambda: target.get("late").status_code == 200)
    assert any(job["doc_id"] == f"{name}-live" for job in http.get("_scheduler/jobs").json()["jobs"])
    twice = {"source": name, "target": target.url, "create_target": True, "continuous": True}
    jobs.put(f"{name}-twice", json=twice).raise_for_status()
    failed = until("the job fails", lambda: (doc := jobs.get(f"{name}-twice").json()).get("_replication_state") and doc)
    assert failed["_replication_state"] == "failed"
    assert f"already started, triggered by document `{name}-live`" in failed["_replication_state_reason"]
    replicator.delete_one({"_id": f"{name}-live"})
    until("the job ends", lambda: not any(job["doc_id"] == f"{name}-live" for job in http.get("_scheduler/jobs").json()["jobs"]))
    assert http.get(f"_scheduler/docs/_replicator/{name}-live").status_code == 404
    # Invalid replicator documents.
    refused = jobs.put(f"{name}-bad", json={"source": name})
    assert refused.status_code == 403
    assert refused.json()["reason"] == "The `target' property must exist and be either a string or an object."
    replicator.insert_one({"_id": f"{name}-bad", "source": name})
    failed = until("the job fails", lambda: (doc := jobs.get(f"{name}-bad").json()).get("_replication_state") and doc)
    assert (failed["_replication_state"], failed["_replication_state_reason"]) == ("failed", "Missing replicator database")
    # A job that fails is retried.
    jobs.put(f"{name}-later", json={"source": f"{name}-later", "target": name}).raise_for_status()
    path = f"_scheduler/docs/_replicator/{name}-later"
    crashing = until("the job fails", lambda: (doc := http.get(path).json()).get("state") == "crashing" and doc)
    assert crashing["error_count"] >= 1 and crashing["info"]["error"] == f"db_not_found: could not open {name}-later"
    http.database(f"{name}-later").put().raise_for_status()
    until("the job is completed", lambda: http.get(path).json().get("state") == "completed")
    states = http.get("_scheduler/docs", params={"states": "completed", "limit": 1000}).json()["docs"]
    assert {doc["doc_id"] for doc in states} >= {f"{name}-once", f"{name}-later"}
    assert all(doc["state"] == "completed" for doc in states)


def test_replicator_database_of_another_name_controls_jobs(http, name):
    """A database whose name ends in /_replicator is a replicator database. Its jobs end when it is deleted."""
    http.database(name).put().raise_for_status()
    jobs = http.database(f"{name}/_replicator")
    jobs.put().raise_for_status()
    body = {"source": name, "target": f"{name}-copy", "create_target": True, "continuous": True}
    jobs.put("live", json=body).raise_for_status()
    path = f"_scheduler/docs/{name}%2F_replicator/live"
    until("the job runs", lambda: http.get(path).json().get("state") == "running")
    assert http.get(f"_scheduler/docs/{name}/_replicator/live").json()["doc_id"] == "live"
    assert http.get(f"_scheduler/docs/{name}/_replicator").json()["total_rows"] == 1
    jobs.delete().raise_for_status()
    until("the job ends", lambda: http.get(path).status_code == 404)
    assert not any(job["doc_id"] == "live" for job in http.get("_scheduler/jobs").json()["jobs"])


def test_replication_between_killed_servers_loses_nothing(tmp_path):
    """Two servers replicate both ways under writes, and are killed repeatedly. No acknowledged write is lost."""
    names = ["one", "two"]
    for directory in names:
        (tmp_path / directory).mkdir()
    servers = [ServerProcess(tmp_path / directory, data=tmp_path / directory / "data").start() for directory in names]
    acknowledged, lock, stop = set(), threading.Lock(), threading.Event()
    try:
        one, two = [Http(server.url).database("docs") for server in servers]
        one.put().raise_for_status()
        two.put().raise_for_status()
        jobs = Http(servers[0].url).database("_replicator")
        for id, (source, target) in {"push": ("docs", two.url), "pull": (two.url, "docs")}.items():
            body = {"source": source, "target": target, "continuous": True, "checkpoint_interval": 300}
            body |= {"retries_per_request": 1, "connection_timeout": 2000}
            jobs.put(id, json=body).raise_for_status()

        def write(which):
            database, count = Http(servers[which].url).database("docs"), 0
            while not stop.is_set():
                count += 1
                id = f"w{which}-{count:06}"
                try:
                    if database.put(id, json={"count": count, "text": "x" * 200}, timeout=5).status_code == 201:
                        with lock:
                            acknowledged.add(id)
                    # Both sides write the same document, so there are conflicts. Both must get the same ones.
                    database.put(f"shared-{count:06}", json={"by": which}, timeout=5)
                except OSError:
                    time.sleep(0.02)
                time.sleep(0.002)

        writers = [threading.Thread(target=write, args=(which,)) for which in (0, 1)]
        for writer in writers:
            writer.start()
        for which in (1, 0, 1):
            time.sleep(1.5)
            servers[which].kill()
            time.sleep(0.3)
            servers[which].start()
        time.sleep(1)
        stop.set()
        for writer in writers:
            writer.join()

        def leaves(database):
            rows = database.get("_changes", params={"style": "all_docs"}).json()["results"]
            return {row["id"]: sorted(change["rev"] for change in row["changes"]) for row in rows}

        def same():
            here = leaves(one)
            return here if here == leaves(two) else None

        final = until("both databases are equal", same, 90)
        assert acknowledged <= set(final) and len(acknowledged) > 200
        assert any(len(revs) > 1 for revs in final.values())
        sample = random.Random(1).sample(sorted(final), 50)
        for id in sample:
            assert one.get(id, params={"conflicts": "true"}).json() == two.get(id, params={"conflicts": "true"}).json()
        with MongoClient(servers[1].uri) as client:
            assert client["test"]["docs"].count_documents({}) == len(final)
        for server in servers:
            server.end()
    finally:
        stop.set()
        for server in servers:
            server.kill()


def test_server_with_replications_stops_promptly(tmp_path):
    server = ServerProcess(tmp_path).start()
    http = Http(server.url)
    fill(http.database("a"))
    replicate(http, "a", "b", 202, continuous=True, create_target=True)
    replicate(http, f"{server.url}a", "c", 202, continuous=True, create_target=True)
    until("all documents are copied", lambda: http.database("c").get().json()["doc_count"] >= 280)
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 20


def pouch_state(database):
    rows = database.get("_all_docs", params={"include_docs": "true", "conflicts": "true"}).json()["rows"]
    return {row["id"]: row["doc"] for row in rows}


def test_replication_with_pouchdb_round_trips(http, pouch, name):
    source, between, back = http.database(name), pouch.database(name), http.database(f"{name}-back")
    fill(source)
    fill_large(source)
    history = replicate(http, name, between.url, create_target=True)["history"][0]
    assert history["doc_write_failures"] == 0 and history["docs_written"] == 324, history
    assert replicate(http, name, between.url)["no_changes"]
    history = replicate(http, between.url, f"{name}-back", create_target=True)["history"][0]
    assert history["doc_write_failures"] == 0, history
    here, there = pouch_state(source), pouch_state(back)
    assert here.keys() == there.keys()
    for id, doc in here.items():
        other = there[id]
        for attachment in [*doc.get("_attachments", {}).values(), *other.get("_attachments", {}).values()]:
            for member in ("revpos", "digest"):
                attachment.pop(member, None)
        assert doc == other
    assert back.get("large/raw").content == LARGE and back.get("large/dir/text.txt").content == TEXT
    # A continuous replication copies a later change.
    id = replicate(http, between.url, name, 202, continuous=True)["_local_id"]
    between.put("from-pouch", json={"n": 1}).raise_for_status()
    until("the write arrives", lambda: source.get("from-pouch").status_code == 200)
    http.post("_replicate", json={"cancel": True, "replication_id": id}).raise_for_status()
