"""Every experiment at the smallest scale, on Diwan and on a library: each stage of each data set leaves its records."""

from types import SimpleNamespace

import pytest

from bench import results
from bench.command import main, parsers
from bench.tests.systems import options
from bench.workloads import EXPERIMENTS

SMALLEST = ["--scale", "0.001", "--rounds", "1", "--clients", "2", "--targets", "diwan,sqlite"]
# Options of single experiments that are still too long at the smallest scale.
SHORTER = {
    "persons": ["--shapes", "nested", "--slices", "1", "--sizes", "100,300"],
    "comments": ["--batches", "1"],
    "ycsb": ["--scale", "0.0003"],
}


def expected(experiment: str, arguments: list[str]) -> set[tuple]:
    """Data set, stage and round of all expected records."""
    settings = parsers()[0].parse_args(["run", experiment, *arguments])
    rows = set()
    for data in EXPERIMENTS[experiment](settings, [], None, None).data_sets():
        about, stages = data.make()
        key = (about["shape"], about["size"], data.durability)
        rows |= {(*key, stage.operation, number) for stage in stages for number in range(stage.rounds)}
    return rows


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_records_every_stage(experiment, monkeypatch, tmp_path):
    program = options().diwan_program
    if not program.is_file():
        pytest.skip("Diwan is not built (cargo build --bin diwan)")
    arguments = [*SMALLEST, *SHORTER.get(experiment, [])]
    places = ["--diwan-program", str(program), "--temporary", str(tmp_path / "tmp"), "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr("sys.argv", ["bench", "run", experiment, *arguments, *places])
    assert main() == 0
    (directory,) = (tmp_path / "runs").iterdir()
    records = [SimpleNamespace(**{"stage": record.get("operation"), **record}) for record in results.read(directory)]
    wanted = expected(experiment, arguments)
    for target in ("diwan", "sqlite"):
        mine = [record for record in records if getattr(record, "target", None) == target]
        told = {(one.shape, one.size, one.durability, one.stage, one.round) for one in mine if hasattr(one, "round")}
        lacking = {(one.shape, one.size, one.durability, one.stage) for one in mine if one.record == "unsupported"}
        missing = {row for row in wanted - told if row[:4] not in lacking}
        assert not missing or target == "sqlite" and lacking >= {(*row[:3], "prepare") for row in missing}, (target, missing)
        assert told, f"{target} has no row"
    text = (directory / "report.md").read_text()
    assert EXPERIMENTS[experiment].title in text and "![" in text
