"""Fixtures of the crash tests."""

import pytest
from server_process import ServerProcess


@pytest.fixture
def server(tmp_path):
    process = ServerProcess(tmp_path, data=tmp_path / "data")
    yield process
    process.kill()
    assert "panicked" not in process.log.read_text(errors="replace")
