"""The figures of a report, from records made by hand."""

from bench import report
from bench.results import Recorder

ABOUT = {"workload": "persons", "shape": "flat", "durability": "relaxed"}
MACHINE = {"processor": "P", "cores": 2, "memory_bytes": 2**32, "kernel": "6", "python": "3", "clients": {}, "started": "now"}


def test_medians_differences_and_sizes(tmp_path):
    recorder = Recorder(tmp_path)
    settings = {"rounds": 3, "slices": 3}
    recorder.write("run", machine={**MACHINE, "load_before": 3.0}, settings=settings)
    for target, kind, times in (("fast", "server", (0.3, 0.1, 0.2)), ("null-mongo", "null", (0.05, 0.05, 0.05))):
        baseline = None if kind == "null" else "null-mongo"
        base = {**ABOUT, "size": 1000, "target": target, "kind": kind}
        recorder.write("target", **base, baseline=baseline, means="m", status="runs", version="1")
        recorder.write("start", **base, baseline=baseline, ready_seconds=0.05, idle_memory_bytes=20_000_000)
        for time in times:
            fields = dict(operations=1000, wall_seconds=time, client_cpu_seconds=0.01, server_cpu_seconds=0.02, rows=None)
            recorder.write("sample", **base, operation="insert, 1 client", **fields)
    base = {**ABOUT, "size": 1000, "target": "fast"}
    recorder.write("size", **base, resting_bytes=150_000, maintenance="rest", maintained_bytes=90_000, table_bytes=80_000)
    recorder.write("memory", **base, peak_bytes=30_000_000)
    recorder.write("failure", **base, operation="Q1", error="broken | pipe")
    recorder.close()
    lines = report.write(tmp_path).read_text().splitlines()
    assert "| insert, 1 client (µs) | fast | 200 | 100 – 300 | 150 | 20.0 | 10.0 | 5,000 | – |" in lines
    assert "| flat | 1,000 | fast | 0.15 | 0.09 (rest) | 0.08 | 90.0 | 80.0 |" in lines
    assert "| flat · 1,000 · relaxed | fast | 50.0 | 20.0 | 30.0 |" in lines
    assert "| flat · 1,000 · relaxed | fast | Q1 | broken \\| pipe |" in lines
    assert any("busy" in line for line in lines)
    assert (tmp_path / "persons-flat.png").exists()


def test_an_interrupted_run_has_a_report(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.write("run", machine={**MACHINE, "load_before": 0.0}, settings={"rounds": 1, "slices": 1})
    recorder.close()
    with open(tmp_path / "results.jsonl", "a") as file:
        file.write('{"record": "sam')
    assert "busy" not in report.write(tmp_path).read_text()
