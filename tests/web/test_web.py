"""The page in a headless Chromium: each file of tests has a server of its own."""

import os
import subprocess
from pathlib import Path

import pytest
from server_process import ServerProcess

HERE = Path(__file__).resolve().parent
RUN_SECONDS = 300


@pytest.mark.parametrize("file", sorted(path.name for path in HERE.glob("*.test.js")))
def test_page(tmp_path, file):
    server = ServerProcess(tmp_path, data=tmp_path / "data").start()
    environment = {**os.environ, "DIWAN_URI": server.uri, "DIWAN_URL": server.url, "HOME": str(tmp_path)}
    command = ["node", "--test", "--test-force-exit", "--test-concurrency=1", "--test-reporter=spec", file]
    try:
        finished = subprocess.run(
            command, cwd=HERE, env=environment, timeout=RUN_SECONDS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert finished.returncode == 0, finished.stdout
    finally:
        server.end()
