"""couchdb-python's own test suite: only the documented failures may occur."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ServerProcess
from suite_report import expected_failures, outcomes, sources, unexpected, unexpected_passes

EXPECTED_FAILURES = Path(__file__).with_name("couchdb_python_expected_failures.txt")
RUN_SECONDS = 180

# The modules that use a server. The others test the client alone.
MODULES = ["client", "couch_tests", "couchhttp", "design", "loader", "mapping"]

# Uses a timeout of zero and expects the server to be slower than that.
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


def test_suite_ran_most_tests(suite):
    assert sum(outcome.status == "passed" for outcome in suite.values()) > 120


def test_no_unexpected_failures(suite):
    assert not (failures := unexpected(suite, expected_failures(EXPECTED_FAILURES))), failures


def test_no_expected_failure_passes(suite):
    assert not (passed := unexpected_passes(suite, expected_failures(EXPECTED_FAILURES))), passed
