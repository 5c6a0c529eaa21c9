"""Runs the shell examples of the README."""

import json
import re
import subprocess
import time

import pytest
from http_client import Http
from server_process import REPOSITORY, ServerProcess


def shell_blocks() -> list[str]:
    text = (REPOSITORY / "README.md").read_text()
    return [block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "curl" in block]


@pytest.fixture
def two_servers(tmp_path):
    """The README's two servers, on ports that the test chooses."""
    servers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        servers.append(ServerProcess(tmp_path / name, data=tmp_path / name / "data").start())
    yield servers
    for server in servers:
        server.end()


def test_curl_examples_of_the_readme_work(two_servers, tmp_path):
    first, second = two_servers
    blocks = shell_blocks()
    assert len(blocks) == 2
    answers = []
    for block in blocks:
        script = block.replace("localhost:5984", f"localhost:{first.http_port}")
        script = script.replace("localhost:5985", f"localhost:{second.http_port}").replace("curl ", "curl -sS ")
        finished = subprocess.run(["bash", "-e"], input=script, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        answers += [json.loads(line) for line in joined(finished.stdout)]
    created, written, read, found, changes, replication = answers
    assert created == {"ok": True} and written["id"] == "beetle"
    assert (read["make"], read["year"]) == ("Volkswagen", 1961)
    assert [doc["_id"] for doc in found["docs"]] == ["beetle"]
    assert changes["results"][0]["doc"]["_rev"] == written["rev"]
    assert replication["ok"]
    target = Http(second.url)
    deadline = time.monotonic() + 60
    while target.get("cars/beetle").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert target.get("cars/beetle").json() == read


def joined(text: str) -> list[str]:
    """The answers, each joined into one line. Lists come with a line for each row."""
    lines = []
    for line in text.splitlines():
        if lines and (lines[-1].endswith(("[", ",")) or line.startswith(("]", '"last_seq"'))):
            lines[-1] += line
        elif line:
            lines.append(line)
    return lines
