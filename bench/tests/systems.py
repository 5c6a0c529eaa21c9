"""The systems that tests start, and the options for them."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.targets import TARGETS, NotGiven, Target

ROOT = Path(__file__).resolve().parents[2]

# All of them pass the same tests. Systems that need an address are tested by their requests, in separate files.
STARTED = ("diwan", "diwan-http", "diwan-postgres", "diwan-postgres-2", "sqlite", "postgres", "postgres-relational", "mariadb", "mariadb-json", "redis", "berkeleydb", "tokyo-hash", "tokyo-tree", "tokyo-table")
# Systems that the bench can kill, and systems of which it starts a replica.
KILLED = ("diwan", "diwan-http", "diwan-postgres", "postgres", "mariadb", "redis")
REPLICATED = ("diwan", "diwan-http", "postgres", "mariadb")


def options(**given) -> SimpleNamespace:
    """The command-line options without any address."""
    none = {option: None for target in TARGETS.values() for option in target.options}
    program = ROOT / os.environ.get("DIWAN_BIN", "target/debug/diwan")
    return SimpleNamespace(**{**none, "diwan_program": program, "diwan_uri": None, **given})


def opened(directory: Path) -> Path:
    """The directory, which other users may enter: if the tests run as root, some servers run as another user."""
    for parent in (directory, *directory.parents):
        if "pytest-of-" in str(parent):
            parent.chmod(0o755)
    return directory


def started(name: str, directory: Path, **set_before) -> Target:
    """A running target. The test is skipped if the system is not available."""
    opened(directory)
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
