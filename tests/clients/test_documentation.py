"""Runs the programs of docs/transactions-and-change-streams.md as a reader would, and compares what they print."""

import json
import os
import re
import subprocess

import pytest
from server_process import REPOSITORY, ServerProcess

GUIDE = (REPOSITORY / "docs" / "transactions-and-change-streams.md").read_text()
NODE = REPOSITORY / "tests" / "node"
PYTHON = REPOSITORY / ".venv" / "bin" / "python"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def printed(tmp_path):
    """Runs one command on a program of the guide; it returns what is printed."""
    server = ServerProcess(tmp_path, data=tmp_path / "data").start()

    def run(command, program, **options):
        for port, own in ((27017, server.port), (5984, server.http_port)):
            program = program.replace(f"localhost:{port}", f"localhost:{own}")
        finished = subprocess.run(command, input=program, capture_output=True, text=True, timeout=60, check=False, **options)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    yield run
    server.end()


def test_python_program_prints_what_the_guide_says(printed):
    (program,), (expected,) = blocks("python"), blocks("text")
    assert printed([PYTHON, "-"], program) == expected


def test_node_program_prints_what_the_guide_says(printed):
    (program,), (expected,) = blocks("js"), blocks("text")
    output = printed(["node", "--input-type=module", "-"], program, cwd=NODE, env={**os.environ, "NO_COLOR": "1"})
    assert output == expected.replace("'_id'", "_id").replace("'euros'", "euros").replace("{", "{ ").replace("}", " }")


def test_http_transaction_answers_what_the_guide_says(printed, tmp_path):
    script = next(block for block in blocks("sh") if "_transaction" in block).replace("curl ", "curl -sS ")
    *_, written, refused = (json.loads(line) for line in printed(["bash", "-e"], script).splitlines())
    assert refused["error"] == "conflict" and [doc["id"] for doc in refused["docs"]] == ["lamp"]
    orders = "curl -sS http://localhost:5984/orders/_all_docs | tr -d '\\n'"
    assert json.loads(printed(["bash", "-e"], orders))["rows"] == []
    again = "curl" + script.split("curl")[-1].replace('"left"', f'"_rev": "{written["rev"]}", "left"')
    assert json.loads(printed(["bash", "-e"], again))["ok"]
    assert [row["id"] for row in json.loads(printed(["bash", "-e"], orders))["rows"]] == ["1"]
