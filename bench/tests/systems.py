"""Which systems the tests start, and how."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.targets import TARGETS, NotGiven, Target

ROOT = Path(__file__).resolve().parents[2]

# Every one runs through the same tests. What only a given address reaches is tested by its requests, in files of their own.
STARTED = ("diwan", "diwan-http", "sqlite", "postgres", "postgres-relational", "mariadb", "mariadb-json", "redis", "berkeleydb", "tokyo-hash", "tokyo-tree", "tokyo-table")
# Those that the bench can kill, and that it starts a replica of.
KILLED = ("diwan", "diwan-http", "postgres", "mariadb", "redis")
REPLICATED = ("diwan", "diwan-http", "postgres", "mariadb")


def options(**given) -> SimpleNamespace:
    """The command line's options with no address given."""
    none = {option: None for target in TARGETS.values() for option in target.options}
    programs = (ROOT / "target" / profile / "diwan" for profile in ("release", "fast", "debug"))
    program = next(filter(Path.is_file, programs), ROOT / "target/release/diwan")
    return SimpleNamespace(**{**none, "diwan_program": program, "diwan_uri": None, **given})


def started(name: str, directory: Path, **set_before) -> Target:
    """A running target; the test is skipped where the system is not to be had."""
    for parent in (directory, *directory.parents):
        if "pytest-of-" in str(parent):
            parent.chmod(0o755)  # some servers run as another user when we are root
    target = TARGETS[name].configured(options())
    for attribute, value in set_before.items():
        setattr(target, attribute, value)
    try:
        target.start(directory)
    except NotGiven as absence:
        target.stop()
        pytest.skip(str(absence))
    except BaseException:
        target.stop()
        raise
    return target
