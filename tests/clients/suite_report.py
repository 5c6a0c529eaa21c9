"""Test suites of client libraries: their source, their reports, and their expected failures."""

import importlib.metadata
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from server_process import REPOSITORY

CACHE = REPOSITORY / ".venv" / "suites"


@dataclass
class Outcome:
    """The result of one test."""

    status: str
    message: str


def sources(package: str) -> Path:
    """The directory of the unpacked source package of the installed version. It is downloaded once."""
    version = importlib.metadata.version(package)
    directory = CACHE / f"{package}-{version}"
    if not directory.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        # Unpacking into a temporary directory keeps an interrupted run from leaving an incomplete package.
        with tempfile.TemporaryDirectory(dir=CACHE) as fetched:
            unpacking = Path(fetched)
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            source = ["--no-binary", ":all:", "--no-deps", "--dest", str(unpacking), f"{package}=={version}"]
            subprocess.run(download + source, check=True)
            (packed,) = unpacking.glob("*.tar.gz")
            with tarfile.open(packed) as archive:
                archive.extractall(unpacking, filter="data")
            packed.unlink()
            # The directory's name may be spelled differently from the package's.
            (unpacked,) = unpacking.iterdir()
            unpacked.rename(directory)
    return directory


def outcomes(report: Path, prefix: str) -> dict[str, Outcome]:
    """The results in a JUnit report, by `module::Class::test`. Module names lose `prefix`.

    A test whose teardown fails has two results. The failure counts.
    """
    found: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module, _, class_name = case.get("classname").removeprefix(prefix).rpartition(".")
        name = f"{module}::{class_name}::{case.get('name')}"
        outcome = Outcome("passed", "")
        for status in ("failure", "error", "skipped"):
            element = case.find(status)
            if element is not None:
                outcome = Outcome("skipped" if status == "skipped" else "failed", (element.get("message") or "")[:300])
                break
        if name not in found or outcome.status == "failed":
            found[name] = outcome
    return found


def expected_failures(path: Path) -> dict[str, str]:
    """Reads a file of expected failures: the reason for each test. A section is a line `# reason`, then one test a line."""
    expected = {}
    reason = None
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line:
            if reason is None:
                raise ValueError(f"{line}: expected failure without a reason")
            expected[line] = reason
    return expected


def unexpected(found: dict[str, Outcome], expected: dict[str, str]) -> str:
    """The failures that are not expected, one a line."""
    failed = {name: outcome for name, outcome in found.items() if outcome.status == "failed" and name not in expected}
    return "\n".join(f"{name}: {outcome.message}" for name, outcome in failed.items())


def unexpected_passes(found: dict[str, Outcome], expected: dict[str, str]) -> str:
    """The tests that are expected to fail but do not, one a line."""
    return "\n".join(name for name in expected if name not in found or found[name].status != "failed")
