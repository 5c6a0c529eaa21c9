"""Runs pymongo's own test suite, from the source package of the installed version, against a server."""

import os
import subprocess
import sys
from pathlib import Path

from server_process import ServerProcess
from suite_report import Outcome, outcomes, sources

EXPECTED_FAILURES = Path(__file__).with_name("pymongo_expected_failures.txt")
RUN_SECONDS = 300

MODULES = [
    "test_bulk",
    "test_client",
    "test_client_bulk_write",
    "test_collation",
    "test_collection",
    "test_collection_management",
    "test_comment",
    "test_crud_unified",
    "test_cursor",
    "test_custom_types",
    "test_database",
    "test_grid_file",
    "test_gridfs",
    "test_gridfs_bucket",
    "test_gridfs_spec",
    "test_index_management",
    "test_retryable_reads_unified",
    "test_retryable_writes",
    "test_retryable_writes_unified",
    "test_run_command",
    "test_session",
    "test_sessions_unified",
    "test_transactions",
    "test_transactions_unified",
]

# Tests of the driver alone, and tests that need a service which is not available. The key is a part of the test's name.
DESELECTED = {
    "ClientUnitTest": "tests the driver alone",
    "test_handshake_": "metadata that the driver finds in its environment",
    "TestClientLazyConnect": "threads of the driver",
    "TestMongoClientFailover": "mocked servers",
    "TestClientPool": "mocked servers",
    "TestErrorPropagationAfterEncounteringMultipleErrors": "always connects to localhost:27017",
    "SearchIndex": "a hosted search service",
    "test_background_connections": "the driver's pool",
    "test_continuous_network_errors": "the driver's monitor",
    "test_init_disconnected": "the driver's connection timeouts",
    "test_server_selection_timeout": "the driver's timeouts",
    "test_database_aggregation_fake_cursor": "waits for minutes on $listLocalSessions, which is refused",
    "srv": "DNS names of a test service",
    "test_service_name_from_kwargs": "DNS names of a test service",
    "test_interrupt_signal": "needs $where with sleep",
    "csot": "the driver's time limits",
    "secondary_read": "needs a member that is no primary",
}


def run(server: ServerProcess, report: Path) -> dict[str, Outcome]:
    """Runs the selected tests, and returns their outcomes by `module::Class::test`."""
    directory = sources("pymongo")
    expression = " and ".join(f"not {name}" for name in DESELECTED)
    modules = [f"test/{module}.py" for module in MODULES if (directory / "test" / f"{module}.py").exists()]
    # -P keeps the working directory out of the path, so the tests import the installed driver. The source package has
    # one without compiled extensions.
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *modules]
    command += ["-k", expression, "-o", "addopts=", "-o", "junit_family=xunit2", f"--junitxml={report}", "--tb=line"]
    environment = {**os.environ, "DB_IP": "127.0.0.1", "DB_PORT": str(server.port)}
    environment.pop("PYTHONPATH", None)
    subprocess.run(command, cwd=directory, env=environment, timeout=RUN_SECONDS, stdout=subprocess.DEVNULL, check=False)
    return outcomes(report, "test.")
