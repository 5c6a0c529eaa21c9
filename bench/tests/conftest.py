"""Fixtures: started systems for the tests that run on all systems."""

import pytest

from bench.tests.systems import STARTED, started


@pytest.fixture(scope="session", params=STARTED)
def system(request, tmp_path_factory):
    """Each system in turn, started once for all its tests."""
    target = started(request.param, tmp_path_factory.mktemp(request.param))
    yield target
    target.stop()
