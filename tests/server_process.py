"""The server under test: a `diwan serve` process, found by the environment variable DIWAN_BIN.

Where the environment variable DIWAN_TEST_POSTGRES has the URI of a PostgreSQL server, each server keeps its documents in a schema
of its own there, whether it was to be in memory or on a directory.
"""

import os
import re
import signal
import subprocess
import time
import uuid
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 30
STOP_SECONDS = 30


def binary() -> Path:
    """The program: DIWAN_BIN, relative to the repository, or what `make test-clients` builds."""
    path = REPOSITORY / os.environ.get("DIWAN_BIN", "target/debug/diwan")
    if not path.exists():
        raise RuntimeError(f"{path} is missing: build it with `cargo build --bin diwan`, or set DIWAN_BIN")
    return path


class ServerProcess:
    """One server, in memory or on a directory. Its first ports are free ones and stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        data: Path | None = None,
        arguments: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ):
        self.directory = directory
        self.data = data
        self.postgres = os.environ.get("DIWAN_TEST_POSTGRES")
        self.schema = f"diwan_{uuid.uuid4().hex}"
        self.arguments = arguments
        self.environment = os.environ | (environment or {})
        self.port = 0
        self.http_port = 0
        self.process: subprocess.Popen | None = None
        self.runs = 0

    def start(self) -> "ServerProcess":
        """Starts the program and returns when it has printed its address."""
        self.runs += 1
        out = self.directory / f"stdout-{self.runs}"
        if self.postgres:
            store = ["--store", f"{self.postgres}?schema={self.schema}"]
        else:
            store = ["--data", str(self.data)] if self.data else ["--memory"]
        command = [binary(), "serve", *store, "--listen", f"127.0.0.1:{self.port}"]
        command += ["--http", f"127.0.0.1:{self.http_port}", *self.arguments]
        with open(out, "wb") as stdout, open(self.log, "ab") as stderr:
            self.process = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=self.directory, env=self.environment)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            greeting = out.read_text(errors="replace")
            mongodb = re.search(r"mongodb://127\.0\.0\.1:(\d+)/", greeting)
            http = re.search(r"https?://127\.0\.0\.1:(\d+)/\n", greeting)
            if mongodb and http:
                self.port, self.http_port = int(mongodb.group(1)), int(http.group(1))
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        self.kill()
        raise RuntimeError(f"diwan did not start: {self.log.read_text(errors='replace')}")

    @property
    def log(self) -> Path:
        return self.directory / "stderr"

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}/"

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def end(self) -> None:
        """Stops, and complains of a server that had ended before, did not end as it was asked to, or panicked."""
        assert self.process is not None and self.process.poll() is None, f"the server ended: {self.log.read_text(errors='replace')}"
        assert self.stop() == 0
        self.check_log()

    def check_log(self) -> None:
        """Complains of a panic in any run so far."""
        assert "panicked" not in self.log.read_text(errors="replace")

    def kill(self) -> int:
        """SIGKILL, as a crash; the exit status."""
        return self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.process = None
        return status
