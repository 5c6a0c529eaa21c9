"""Fixtures of the tests of several processes."""

import pytest
from cluster import Cluster


@pytest.fixture
def cluster(tmp_path):
    processes = Cluster(tmp_path)
    yield processes
    processes.end()
