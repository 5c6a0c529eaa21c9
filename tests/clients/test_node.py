"""Clients that run in Node.js: the MongoDB driver, mongoose, mongosh, Prisma, nano, PouchDB, RxDB."""

import os
import subprocess

import pytest
from server_process import REPOSITORY, ServerProcess, binary

NODE = REPOSITORY / "tests" / "node"
RUN_SECONDS = 120
FILES = [f"{name}.test.js" for name in ("driver", "faces", "mongoose", "nano", "pouchdb", "prisma", "rxdb")]


def run(command, server, text=None, **more):
    environment = {**os.environ, **more, "DIWAN_URI": server.uri, "DIWAN_URL": server.url, "HOME": str(server.directory)}
    return subprocess.run(
        command,
        cwd=NODE,
        env=environment,
        timeout=RUN_SECONDS,
        input=text,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


@pytest.mark.parametrize("file", FILES)
def test_node_clients(server, file):
    finished = run(["node", "--test", "--test-force-exit", "--test-reporter=spec", file], server)
    assert finished.returncode == 0, finished.stdout


def test_mongosh_session(server):
    finished = run([NODE / "node_modules/.bin/mongosh", "--quiet", server.uri, "mongosh.js"], server)
    assert finished.returncode == 0, finished.stdout
    assert finished.stdout.strip().splitlines()[-1] == "all is well"
    assert "rror" not in finished.stdout and "arning" not in finished.stdout


def test_mongosh_starts_without_errors(server):
    finished = run([NODE / "node_modules/.bin/mongosh", server.uri], server, "show dbs\nexit\n")
    assert finished.returncode == 0, finished.stdout
    assert "Using MongoDB:" in finished.stdout
    assert "rror" not in finished.stdout


@pytest.fixture
def guarded(tmp_path):
    """A server whose administrator is `ada`."""
    process = ServerProcess(tmp_path, environment={"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "secret"}).start()
    yield process
    process.end()


def test_node_clients_sign_in(guarded):
    command = ["node", "--test", "--test-force-exit", "--test-reporter=spec", "users.test.js"]
    finished = run(command, guarded, DIWAN_USER="ada", DIWAN_PASSWORD="secret")
    assert finished.returncode == 0, finished.stdout


def test_mongosh_administers_users_over_tls(tmp_path):
    subprocess.run([binary(), "certificate", "--self-signed", "--host", "127.0.0.1"], cwd=tmp_path, check=True, timeout=RUN_SECONDS)
    arguments = ("--tls-certificate", "diwan-certificate.pem", "--tls-key", "diwan-key.pem")
    environment = {"DIWAN_ROOT_USERNAME": "ada", "DIWAN_ROOT_PASSWORD": "secret"}
    server = ServerProcess(tmp_path, arguments=arguments, environment=environment).start()
    try:
        options = ["--tls", "--tlsCAFile", tmp_path / "diwan-certificate.pem", "--username", "ada", "--password", "secret"]
        finished = run([NODE / "node_modules/.bin/mongosh", "--quiet", server.uri, *options, "mongosh_users.js"], server)
        assert finished.returncode == 0, finished.stdout
        assert finished.stdout.strip().splitlines()[-1] == "all is well"
    finally:
        server.end()
