"""Fixtures of the tests of several processes."""

import pytest
from cluster import Cluster


@pytest.fixture
def cluster(tmp_path):
    processes = Cluster(tmp_path)
    yield processes
    processes.end()


@pytest.fixture
def replicated(tmp_path):
    """A cluster whose PostgreSQL has a standby."""
    processes = Cluster(tmp_path, has_standby=True)
    yield processes
    processes.end()
