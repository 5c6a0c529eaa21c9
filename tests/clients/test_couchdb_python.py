"""couchdb-python's own tests: what fails is what is expected to fail, for a reason that is written down."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ServerProcess
from suite_report import expected_failures, fine, outcomes, sources, unexpected

EXPECTED_FAILURES = Path(__file__).with_name("couchdb_python_expected_failures.txt")
RUN_SECONDS = 180

# The modules that talk to a server; the others test the client alone.
MODULES = ["client", "couch_tests", "couchhttp", "design", "loader", "mapping"]

# Waits for no time at all, and finds that some servers answer in it.
DESELECTED = "test_timeout_retry"


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    directory = tmp_path_factory.mktemp("couchdb-python")
    server = ServerProcess(directory).start()
    report = directory / "report.xml"
    modules = [f"couchdb/tests/{module}.py" for module in MODULES]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *modules, "-k", f"not {DESELECTED}"]
    command += ["-o", "addopts=", "-o", "python_files=*.py", "-o", "junit_family=xunit2", f"--junitxml={report}"]
    environment = {**os.environ, "COUCHDB_URL": server.url}
    subprocess.run(command, cwd=sources("couchdb"), env=environment, timeout=RUN_SECONDS, stdout=subprocess.DEVNULL, check=False)
    yield outcomes(report, "couchdb.tests.")
    server.end()


def test_enough_was_run(suite):
    assert sum(outcome.status == "passed" for outcome in suite.values()) > 120


def test_nothing_fails_unexpectedly(suite):
    assert not (failures := unexpected(suite, expected_failures(EXPECTED_FAILURES))), failures


def test_nothing_passes_that_is_expected_to_fail(suite):
    assert not (passed := fine(suite, expected_failures(EXPECTED_FAILURES))), passed
