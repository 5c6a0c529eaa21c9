"""The report's figures, tables and page, from hand-made records."""

import pytest

from bench import report
from bench.exhibits import SIZE, Bars, BySize, OverTime, Published, Quotient
from bench.results import Recorder, resume

RUN = {"processor": "P", "cores": 2, "memory_bytes": 2**32, "kernel": "6", "python": "3", "clients": {}, "started": "now", "load_before": 3.0}
# Diwan over PostgreSQL is the fastest here, and yet no peer of Diwan.
OVER = ("diwan-postgres", "server", 0.07)
SYSTEMS = (("diwan", "server", 0.2), OVER, ("peer", "server", 0.1), ("library", "in-process", 0.05), ("null-mongo", "null", 0.05))


class Made:
    """The attributes of an experiment that the report uses."""

    title = "X. Made"
    about = "Says *what*."
    notes = "- Nothing is."
    whole = ("count",)
    published = (
        Published("table I", "ms", {"Old": {100: 500, 1000: 4000}, "Older": {1000: 8000}}, "insert", "Old", {"Old": "peer"}, shape="single"),
        Published("sizes", "MB", {"Old": {1000: 1.5}}, SIZE, "Old", {"Old": "peer"}),
    )
    charts = (
        BySize("Inserts", "insert", shape="single", caption="figure 1"),
        BySize("Sizes", SIZE),
        Bars("Server", operations=("insert",), measure="server_cpu_seconds", shape="single"),
        Bars("p99", operations=("read",), measure="p99_us", shape="single"),
        OverTime("Stalls", "read"),
        Quotient("Price", shape="single", over="replicated", operations=("insert",)),
        BySize("Nobody measured this", "absent"),
    )


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setitem(report.EXPERIMENTS, "made", Made)
    recorder = Recorder(tmp_path)
    recorder.write("run", experiments=["made"], machine=RUN, settings={"scale": 1.0, "rounds": 3})
    for shape, factor in (("single", 1), ("replicated", 2)):
        about = {"workload": "made", "shape": shape, "durability": "relaxed", "size": 1000}
        for name, kind, wall in SYSTEMS:
            base = {**about, "target": name, "kind": kind}
            baseline = "null-mongo" if kind == "server" else None
            recorder.write("target", **base, baseline=baseline, means="m", status="runs", version="1")
            recorder.write("start", **base, baseline=baseline, ready_seconds=0.05, idle_memory_bytes=20_000_000)
            for time in (wall * factor, wall * factor * 1.5, wall * factor * 0.5):
                server = time / 2 if kind == "server" else None
                fields = dict(operations=1000, wall_seconds=time, client_cpu_seconds=0.01, server_cpu_seconds=server, rows=7)
                recorder.write("sample", **base, operation="insert", **fields)
            if kind != "null":
                percentiles = {"count": 10, "p50_us": 10.0, "p99_us": 20.0, "p999_us": 30.0, "max_us": 40.0}
                recorder.write("latency", **base, operation="read", **percentiles)
                slots = {"slot_seconds": 0.5, "count": [3, 0], "p50_us": [1.0, None], "p99_us": [2.0, None], "max_us": [9.0, None]}
                recorder.write("timeline", **base, operation="read", **slots, events=[[0.4, "killed"]])
                size = dict(resting_bytes=150_000, maintenance="rest", maintained_bytes=90_000, table_bytes=80_000)
                recorder.write("size", **base, operation="size", **size)
                recorder.write("figure", **base, operation="lost", value=3, unit="documents")
                recorder.write("memory", **base, peak_bytes=30_000_000)
        recorder.write("unsupported", **about, target="peer", kind="server", operation="index", reason="has none")
        recorder.write("target", **about, target="other", kind="server", baseline=None, means="m", status="not given: no --other-uri")
    recorder.write("failure", **about, target="peer", operation="Q1", error="broken | pipe")
    recorder.close()
    return tmp_path


def test_report_tables_contain_the_expected_rows(directory):
    report.write(directory)
    text = (directory / "report.md").read_text()
    lines = text.splitlines()
    for line in (
        "| insert | diwan | 200 µs | 100 µs – 300 µs | 150 µs | 100 µs | 10.0 µs | 5,000 | 7 |",
        "| single · 1,000 · relaxed | read | diwan | 10 | 10.0 µs | 20.0 µs | 30.0 µs | 40.0 µs |",
        "| single · 1,000 · relaxed | diwan | 0.15 | 0.0900 (rest) | 0.0800 | 90.0 | 1.00 |",
        "| single · 1,000 · relaxed | lost | diwan | 3.00 | documents | – |",
        "| single · 1,000 · relaxed | index | peer | – | unsupported: has none | – |",
        "| diwan | 50.0 ms | 20.0 | 30.0 |",
        "| made | replicated · 1000 · relaxed | peer | Q1 | broken \\| pipe |",
        "| other | server | – | relaxed: m | – | not given: no --other-uri |",
        # Wall less null: 150 µs against 50 µs; server CPU: 100 µs against 50 µs; bytes: alike.
        "| made | 6 | 2 | 2 | 4 | insert, wall less null: peer, 0.33 |",
        "| behind | single · 1,000 · relaxed | insert | wall less null | diwan | 150 µs | peer 50.0 µs | 0.33 |",
        "| single · 1,000 · relaxed | insert | 100 µs | 0.35 | 0.50 | – |",
        # 4,000 ms for 1,000 documents are 4 ms each, half of the other's, 40 times today's 100 µs.
        "| 1,000 | Old | 4,000 ms | 4.00 ms | 1.00 | peer | 1,000 | 100 µs | 0.50 | 40.0 |",
        "| 1,000 | Older | 8,000 ms | 8.00 ms | 2.00 | – | – | – | – | – |",
        "| 1,000 | Old | 1.5 MB | 1,500 B | 1.00 | peer | 1,000 | 90.0 B | 1.00 | 16.7 |",
    ):
        assert line in lines, line
    assert "busy" in text and "Nothing is." in text and "Says *what*." in text


def test_the_page_embeds_all_charts(directory):
    page = report.write(directory).read_text()
    assert page.count("data:image/svg+xml;base64,") == 8 == len(list((directory / "plots").iterdir()))
    assert "plots/" not in page and "<em>what</em>" in page and '<h2 id="part' in page
    assert "Old" in (directory / "plots/made-inserts-relaxed.svg").read_text(), "the chart shows published figures beside today's"


def test_a_published_report_has_a_plots_directory(directory, tmp_path):
    published = tmp_path / "docs" / "benchmarks.md"
    published.parent.mkdir()
    report.write(directory, published)
    text = published.read_text()
    assert "](benchmarks/made-inserts-relaxed.svg)" in text and "<details>" not in text and "Nothing is." in text
    assert (published.parent / "benchmarks/made-inserts-relaxed.svg").exists()


def test_a_published_report_names_the_commands_that_make_it_again(directory, tmp_path):
    published = tmp_path / "benchmarks.md"
    report.write(directory, published)
    lines = published.read_text().splitlines()
    assert 'make bench EXPERIMENTS="made" OPTIONS="--scale 1.0 --rounds 3"' in lines
    assert f".venv/bin/python -m bench report bench/runs/NAME --publish {published}" in lines


def test_an_interrupted_run_has_a_report_and_can_resume(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.write("run", experiments=["persons"], machine={**RUN, "load_before": 0.0}, settings={"rounds": 1})
    recorder.complete("persons · a", ["sqlite"])
    recorder.write("sample", operation="of a data set that was not ended", target="sqlite")
    recorder.close()
    with open(tmp_path / "results.jsonl", "a") as file:
        file.write('{"record": "sam')
    first, done = resume(tmp_path)
    assert first["experiments"] == ["persons"] and done == {"persons · a": {"sqlite"}}
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    report.write(tmp_path)
    assert "busy" not in (tmp_path / "report.md").read_text()
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match="no run"):
        resume(tmp_path)
