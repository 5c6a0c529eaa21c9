"""pymongo's own tests: what fails is what is expected to fail, for a reason that is written down."""

import pymongo_suite
import pytest
from server_process import ServerProcess
from suite_report import expected_failures, fine, unexpected


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pymongo-suite")
    server = ServerProcess(directory).start()
    yield pymongo_suite.run(server, directory / "report.xml")
    server.end()


def test_enough_was_run(outcomes):
    assert sum(outcome.status == "passed" for outcome in outcomes.values()) > 500


def test_nothing_fails_unexpectedly(outcomes):
    assert not (failures := unexpected(outcomes, expected_failures(pymongo_suite.EXPECTED_FAILURES))), failures


def test_nothing_passes_that_is_expected_to_fail(outcomes):
    assert not (passed := fine(outcomes, expected_failures(pymongo_suite.EXPECTED_FAILURES))), passed
