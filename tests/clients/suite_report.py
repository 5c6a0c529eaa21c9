"""A client's own test-suite: where it comes from, what it reported, and what of it is expected to fail."""

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
    """How one test ended."""

    status: str
    message: str


def sources(package: str) -> Path:
    """The unpacked source package of the installed version, fetched once."""
    version = importlib.metadata.version(package)
    directory = CACHE / f"{package}-{version}"
    if not directory.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        # A run that was broken off leaves nothing that the next one would take for whole.
        with tempfile.TemporaryDirectory(dir=CACHE) as fetched:
            unpacking = Path(fetched)
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            source = ["--no-binary", ":all:", "--no-deps", "--dest", str(unpacking), f"{package}=={version}"]
            subprocess.run(download + source, check=True)
            (packed,) = unpacking.glob("*.tar.gz")
            with tarfile.open(packed) as archive:
                archive.extractall(unpacking, filter="data")
            packed.unlink()
            # Its directory may be spelled otherwise.
            (unpacked,) = unpacking.iterdir()
            unpacked.rename(directory)
    return directory


def outcomes(report: Path, prefix: str) -> dict[str, Outcome]:
    """The tests of a JUnit report by `module::Class::test`, their module's name without `prefix`.

    A test may appear twice, when its end fails too: a failure counts.
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
    """The reasons, by test. The file has sections: `# reason`, then one test a line."""
    expected = {}
    reason = None
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line:
            if reason is None:
                raise ValueError(f"{line}: an expected failure without a reason")
            expected[line] = reason
    return expected


def unexpected(found: dict[str, Outcome], expected: dict[str, str]) -> str:
    """The failures that nobody expects, a line each."""
    failed = {name: outcome for name, outcome in found.items() if outcome.status == "failed" and name not in expected}
    return "\n".join(f"{name}: {outcome.message}" for name, outcome in failed.items())


def fine(found: dict[str, Outcome], expected: dict[str, str]) -> str:
    """The tests that are expected to fail and do not, a line each."""
    return "\n".join(name for name in expected if name not in found or found[name].status != "failed")
