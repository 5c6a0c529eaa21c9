"""Complete runs at the smallest scale: every operation is recorded, and a failing target does not end the run."""

import subprocess
import sys
import time

import pytest

from bench import results
from bench.command import main
from bench.targets.sqlite import SQLiteAdapter
from bench.tests.systems import ROOT


def run(monkeypatch, tmp_path, *extra: str) -> int:
    arguments = ["bench", "run", "persons", "--scale", "0.001", "--sizes", "200", "--shapes", "nested", "--slices", "2", "--rounds", "2", "--clients", "2"]
    places = ["--temporary", str(tmp_path / "tmp"), "--runs", str(tmp_path / "runs"), "--synced-inserts", "50"]
    monkeypatch.setattr("sys.argv", [*arguments, *places, *extra])
    return main()


def test_a_run_records_every_operation(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, "--targets", "sqlite,mongodb") == 0
    (directory,) = (tmp_path / "runs").iterdir()
    records = results.read(directory)
    samples = [record for record in records if record["record"] == "sample" and record["target"] == "sqlite"]
    inserts = {"insert, 1 client": 2, "insert, 2 clients": 2, "insert, 1000 a command": 2}
    reads = {"find by _id": 2, "count Q1": 2} | {f"Q{n} as {how}": 2 for n in range(1, 6) for how in ("described", "published")}
    for size, durability, expected in ((200, "relaxed", inserts | reads), (50, "synced", inserts)):
        here = [record["operation"] for record in samples if (record["size"], record["durability"]) == (size, durability)]
        assert {operation: here.count(operation) for operation in here} == expected
    text = (directory / "report.md").read_text()
    assert "not given: no --mongodb-uri" in text and "Size on disk" in text and "Failures" not in text
    page = (directory / "report.html").read_text()
    assert page.count("<img") == text.count("![") == 8 and 'src="plots' not in page
    assert not list((tmp_path / "tmp").iterdir())


def test_single_inserts_limits_the_measured_load(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, "--targets", "sqlite", "--durability", "relaxed", "--single-inserts", "60") == 0
    (directory,) = (tmp_path / "runs").iterdir()
    samples = [record for record in results.read(directory) if record["record"] == "sample" and record["target"] == "sqlite"]
    inserted = {operation: [] for operation in ("insert, 1 client", "insert, 2 clients", "insert, 1000 a command")}
    for sample in samples:
        inserted.get(sample["operation"], []).append(sample["operations"])
    assert list(inserted.values()) == [[30, 30], [30, 30], [100, 100]]
    assert "Failures" not in (directory / "report.md").read_text(), "the queries found all 200"


def test_a_wrong_answer_is_a_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(SQLiteAdapter, "count", lambda *_: 1)
    assert run(monkeypatch, tmp_path, "--targets", "sqlite") == 1
    (directory,) = (tmp_path / "runs").iterdir()
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    assert {failure["operation"] for failure in failures} == {"count Q1"}
    assert "returned 1 rows" in (directory / "report.md").read_text()


def test_an_interrupted_run_resumes(tmp_path):
    places = ["--temporary", str(tmp_path / "tmp"), "--runs", str(tmp_path / "runs")]
    command = [sys.executable, "-m", "bench", "run", "washers", "--scale", "0.001", "--targets", "sqlite", *places]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as interrupted:
        while interrupted.poll() is None and not completed(tmp_path):
            time.sleep(0.01)
        interrupted.terminate()
    (directory,) = (tmp_path / "runs").iterdir()
    before = completed(tmp_path)
    assert 1 <= len(before) < 3 and (directory / "report.html").exists() and not list((tmp_path / "tmp").iterdir())
    subprocess.run([*command[:4], "--resume", str(directory), *places[:2]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = completed(tmp_path)
    assert after[: len(before)] == before and len(after) == len(set(after)) == 3
    assert {record["target"] for record in results.read(directory) if record["record"] == "sample"} == {"sqlite"}, "with its settings"


def completed(tmp_path) -> list[str]:
    """The data sets of a run."""
    directories = [directory for directory in (tmp_path / "runs").glob("*") if (directory / "results.jsonl").exists()]
    return [record["name"] for directory in directories for record in results.read(directory) if record["record"] == "complete"]


@pytest.mark.parametrize("wrong", [["--sizes", "0"], ["--targets", "null-mongo"], ["--shapes", ""]])
def test_bad_options_are_refused(monkeypatch, tmp_path, wrong):
    with pytest.raises(SystemExit) as refusal:
        run(monkeypatch, tmp_path, *wrong)
    assert refusal.value.code == 2
