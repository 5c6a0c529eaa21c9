"""Profiles: selection of stages by name, graphs from samples, and reports of missing tools."""

import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest
from rich.progress import Progress

from bench import command, profile, results
from bench.measure import Stage
from bench.targets import TARGETS
from bench.tests.systems import ROOT, options
from bench.workloads.washers import EACH, Washers

TOOLS = ROOT / "target/tools/bin"
PROGRAM = options().diwan_program


def usable() -> str | None:
    """The reason why profiling is not possible on this machine, or None."""
    try:
        profile.inferno(TOOLS)
        profile.perf()
    except profile.Unusable as lack:
        return str(lack)
    return None if PROGRAM.is_file() else "Diwan is not built"


def profiled(tmp_path, tools=TOOLS) -> tuple[profile.Profile, results.Recorder]:
    settings = options(scale=0.002, rounds=1, clients=2, diwan_program=PROGRAM)
    targets, recorder = [TARGETS["diwan"].configured(settings)], results.Recorder(tmp_path)
    experiment = Washers(settings, targets, recorder, tmp_path / "tmp")
    return profile.Profile(experiment, targets, recorder, tmp_path / "tmp", tools), recorder


def test_a_profiled_operation_has_a_flame_graph(tmp_path):
    if lack := usable():
        pytest.skip(lack)
    run, recorder = profiled(tmp_path)
    with Progress(disable=True) as progress:
        ((what, graph, samples),) = run.run(progress, f"{EACH} · 200", "INSERT")
    recorder.close()
    assert what == f"insert, {EACH} · diwan · {EACH} · 200"
    folded = graph.with_suffix(".folded").read_text()
    assert samples == sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()) > 0
    assert "diwan_mongo::" in folded and "start_thread;" in folded, "stacks reach the start of a thread"
    assert "<svg" in graph.read_text() and "diwan_mongo::" in graph.read_text()
    kinds = [record["record"] for record in results.read(tmp_path)]
    assert "sample" in kinds and "size" not in kinds and "failure" not in kinds, "stages after the last chosen one do not run"


def test_stages_are_chosen_by_name(tmp_path):
    run, _ = profiled(tmp_path)
    stages = [Stage("prepare", 1, print, record="prepared"), Stage("Insert", 2, print), Stage("size", 1, print, record="size"), Stage("find", 1, print)]
    told = {name: [(stage.operation, stage.run is print) for stage in run._chosen("data", stages, name)] for name in ("", "insert", "size", "absent")}
    assert told[""] == [("prepare", True), ("Insert", False), ("size", True), ("find", False)]
    assert told["insert"] == told[""][:2] and told["size"] == [("prepare", True), ("Insert", True), ("size", False)]
    assert told["absent"] == []


def test_missing_tools_are_reported(tmp_path, monkeypatch, capsys):
    with pytest.raises(profile.Unusable, match="make target/tools"):
        profile.inferno(tmp_path)
    monkeypatch.setattr(profile.shutil, "which", lambda _: "/usr/bin/perf")
    refusal = SimpleNamespace(returncode=255, stderr=b"Access to performance monitoring is limited.")
    monkeypatch.setattr(profile.subprocess, "run", lambda *_, **__: refusal)
    monkeypatch.setattr("sys.argv", ["bench", "profile", "washers", "--runs", str(tmp_path)])
    assert command.main() == 2
    said = capsys.readouterr().out
    assert "perf_event_paranoid" in said and "monitoring is limited" in said and not list(tmp_path.iterdir())


def test_sampling_an_ended_process_raises(tmp_path):
    if lack := usable():
        pytest.skip(lack)
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(RuntimeError, match="perf takes no samples"), profile.sampled(ended.pid, tmp_path / "data"):
        pass


def test_stacks_of_rounds_are_summed(tmp_path):
    if lack := usable():
        pytest.skip(lack)
    run, recorder = profiled(tmp_path)
    _, graph, samples = run._draw(("data", "diwan", "insert"), Counter({"main;a": 2}) + Counter({"main;a": 1, "main;b": 4}))
    recorder.close()
    assert samples == 7 and graph.with_suffix(".folded").read_text() == "main;a 3\nmain;b 4\n"
