"""Clients that run in Node.js: the MongoDB driver, mongoose, mongosh, nano, PouchDB, RxDB."""

import os
import subprocess

import pytest
from server_process import REPOSITORY

NODE = REPOSITORY / "tests" / "node"
RUN_SECONDS = 120
FILES = ["driver.test.js", "mongoose.test.js", "nano.test.js", "pouchdb.test.js", "rxdb.test.js"]


def run(command, server, text=None):
    environment = {**os.environ, "DIWAN_URI": server.uri, "DIWAN_URL": server.url, "HOME": str(server.directory)}
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
