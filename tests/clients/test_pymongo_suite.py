"""pymongo's own tests: what fails is what is expected to fail, for a reason that is written down."""

import pymongo_suite
import pytest
from server_process import ServerProcess


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pymongo-suite")
    server = ServerProcess(directory).start()
    yield pymongo_suite.run(server, directory / "report.xml")
    assert server.stop() == 0
    assert "panicked" not in server.log.read_text(errors="replace")


def test_enough_was_run(outcomes):
    assert sum(outcome.status == "passed" for outcome in outcomes.values()) > 500


def test_nothing_fails_unexpectedly(outcomes):
    expected = pymongo_suite.expected_failures()
    failed = {name: outcome.message for name, outcome in outcomes.items() if outcome.status == "failed" and name not in expected}
    assert not failed, "\n".join(f"{name}: {message}" for name, message in failed.items())


def test_nothing_passes_that_is_expected_to_fail(outcomes):
    fine = [name for name in pymongo_suite.expected_failures() if name not in outcomes or outcomes[name].status != "failed"]
    assert not fine, "remove from the expected failures:\n" + "\n".join(fine)
