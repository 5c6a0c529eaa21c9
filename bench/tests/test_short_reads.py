"""Short reads: the data, and a run at the smallest scale on systems with queries and one without."""

from bench import results
from bench.command import main
from bench.targets.sqlite import SQLiteAdapter
from bench.workloads import short_reads
from bench.workloads.short_reads import INDEX, LOAD_BATCHES, LOAD_EACH, RETRIEVE, SEARCH, SEARCH_INDEXED, THRESHOLD, read


def test_reads_are_equal_in_every_run():
    assert read(0) == ("CCGTCTTAGTAACGCAGCAAGCGAATCTATCATTCG", {"count": 2})
    reads = [read(number) for number in range(20_000)]
    assert len({letters for letters, _ in reads}) == len(reads)
    assert all(len(letters) == 36 and set(letters) <= set("ACGT") for letters, _ in reads)
    above = sum(document["count"] > THRESHOLD for _, document in reads)
    assert 150 < above < 250 and min(document["count"] for _, document in reads) == 1


def test_slices_cover_all_reads_once():
    for size in (1, 2_800, 45_678, 2_800_000):
        slices = short_reads._slices(size)
        assert sum(map(len, slices)) == size and slices[0].start == 0 and slices[-1].stop == size
        assert all(one.stop == other.start for one, other in zip(slices, slices[1:]))


def test_a_short_reads_run_records_every_operation(monkeypatch, tmp_path):
    places = ["--temporary", str(tmp_path / "tmp"), "--runs", str(tmp_path / "runs")]
    chosen = ["--scale", "0.001", "--rounds", "2", "--targets", "sqlite,redis,tyrant"]
    monkeypatch.setattr("sys.argv", ["bench", "run", "short-reads", *chosen, *places])
    assert main() == 0
    (directory,) = (tmp_path / "runs").iterdir()
    records = results.read(directory)

    def told(kind: str, target: str) -> list[tuple[str, int]]:
        return [(one["operation"], one.get("operations")) for one in records if one["record"] == kind and one["target"] == target]

    both = [(LOAD_EACH, 1_000), (LOAD_BATCHES, 2_800), (RETRIEVE, 250), (RETRIEVE, 250)]
    assert [one for one in told("sample", "sqlite") if not one[0].startswith((SEARCH, INDEX))] == both
    searched = [operation for operation, _ in told("sample", "sqlite")][4:]
    assert searched == [SEARCH, SEARCH, INDEX, SEARCH_INDEXED, SEARCH_INDEXED]
    assert len(told("size", "sqlite")) == 2
    assert {operation for operation, _ in told("sample", "null-redis")} == {LOAD_EACH, LOAD_BATCHES, RETRIEVE}
    if told("sample", "redis"):  # it is installed, or can be
        assert told("sample", "redis") == both and len(told("size", "redis")) == 2
        assert [operation for operation, _ in told("unsupported", "redis")] == [SEARCH, INDEX, SEARCH_INDEXED]
    text = (directory / "report.md").read_text()
    assert "no --tyrant-address" in text and "Failures" not in text


def test_a_wrong_frequency_is_a_failure(monkeypatch, tmp_path):
    monkeypatch.setattr(SQLiteAdapter, "find_by_id", lambda *_: {"count": 0})
    places = ["--temporary", str(tmp_path / "tmp"), "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr("sys.argv", ["bench", "run", "short-reads", "--scale", "0.001", "--rounds", "1", "--targets", "sqlite", *places])
    assert main() == 1
    (directory,) = (tmp_path / "runs").iterdir()
    failures = [record for record in results.read(directory) if record["record"] == "failure"]
    assert [failure["operation"] for failure in failures] == [RETRIEVE]
