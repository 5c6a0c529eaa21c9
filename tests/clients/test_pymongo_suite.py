"""pymongo's own test suite: only the documented failures may occur."""

import pymongo_suite
import pytest
from server_process import ServerProcess
from suite_report import expected_failures, unexpected, unexpected_passes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pymongo-suite")
    server = ServerProcess(directory).start()
    yield pymongo_suite.run(server, directory / "report.xml")
    server.end()


def test_suite_ran_most_tests(outcomes):
    assert sum(outcome.status == "passed" for outcome in outcomes.values()) > 500


def test_no_unexpected_failures(outcomes):
    assert not (failures := unexpected(outcomes, expected_failures(pymongo_suite.EXPECTED_FAILURES))), failures


def test_no_expected_failure_passes(outcomes):
    assert not (passed := unexpected_passes(outcomes, expected_failures(pymongo_suite.EXPECTED_FAILURES))), passed
