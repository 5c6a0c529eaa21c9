"""A started system for the tests that all systems pass."""

import pytest

from bench.tests.systems import STARTED, started


@pytest.fixture(scope="session", params=STARTED)
def system(request, tmp_path_factory):
    """Each system in turn, started once."""
    target = started(request.param, tmp_path_factory.mktemp(request.param))
    yield target
    target.stop()
