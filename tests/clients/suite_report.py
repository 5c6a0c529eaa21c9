"""What a client's own test-suite reported, and what of it is expected to fail."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Outcome:
    """How one test ended."""

    status: str
    message: str


def outcomes(report: Path, prefix: str) -> dict[str, Outcome]:
    """The tests of a JUnit report by `module::Class::test`, their module's name without `prefix`. A test may appear twice, when its end fails too: a failure counts."""
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
