"""FerretDB, MongoDB's protocol over SQL: installed, built from the Go module proxy with its SQLite backend, or given by URI.

Version 1 is the last without other requirements. Version 2 requires a PostgreSQL extension that Debian does not package.
"""

import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

from bench import process
from bench.targets.base import RELAXED, SYNCED, NotGiven, Unsupported
from bench.targets.mongo_client import MongoAdapter
from bench.targets.mongodb import MongoDB
from bench.targets.server import ServerProcess

MODULE = "github.com/FerretDB/FerretDB/cmd/ferretdb@v1.24.0"
TOOLS = Path(__file__).resolve().parents[1] / "tmp" / "tools"
BUILD_SECONDS = 1800


@cache
def find_program() -> Path | str:
    """The program, installed or built, or the reason why there is none. Called once per run, because a failure does not change."""
    built = TOOLS / "ferretdb"
    if found := shutil.which("ferretdb"):
        return Path(found)
    if built.is_file():
        return built
    if not shutil.which("go"):
        return "neither FerretDB nor Go, which could build it, is installed"
    environment = {**os.environ, "GOBIN": str(TOOLS), "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(
            ["go", "install", MODULE], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=BUILD_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"{MODULE} could not be built within {BUILD_SECONDS} s"
    if done.returncode:
        # Only the last line: an earlier one may contain the address of the machine's module proxy.
        return f"{MODULE} could not be built: {done.stderr.strip().rpartition(chr(10))[2].strip()[-200:]}"
    return built


class FerretDB(MongoDB):
    """A FerretDB started by the bench, or a running one."""

    name = "ferretdb"
    # FerretDB accepts write concerns and ignores them.
    durability = dict.fromkeys((RELAXED, SYNCED), "SQLite's default, whatever the write concern: every commit fsyncs")
    option = "ferretdb_uri"
    purpose = "a running FerretDB, instead of one built and started by the bench"

    def __init__(self, address: str | None) -> None:
        super().__init__(address)
        self._directory: Path | None = None
        self._command: list[str] = []
        self._server: ServerProcess | None = None
        self._port = 0

    def start(self, directory: Path) -> None:
        if self._given:
            super().start(directory)
            return
        program = find_program()
        if isinstance(program, str):
            raise NotGiven(program)
        self._directory, self.data = directory, directory / "data"
        self.data.mkdir()
        self._port = process.free_port()
        self._command = command(program, self.data, self._port, process.free_port())
        self._address = f"mongodb://127.0.0.1:{self._port}/"
        self.restart()

    def restart(self) -> None:
        if not self._command:
            raise Unsupported("is not a server that the bench started")
        began = time.perf_counter()
        self._server = ServerProcess(self._command, self._directory / "server.log")
        self._server.wait_ready(self._port)
        MongoAdapter(self._address, RELAXED).close()
        self.pid, self.ready_seconds = self._server.pid, time.perf_counter() - began

    def kill(self) -> None:
        if not self._server:
            raise Unsupported("is not a server that the bench started")
        self._server.kill()
        self.pid = None

    def stop(self) -> None:
        if not self._command:
            super().stop()
            return
        if self._server:
            self._server.stop()
        self._server = self._address = self.pid = None
        self._command = []

    def describe(self) -> dict:
        return super().describe() if self._given else {**super().describe(), "settings": "SQLite backend, defaults"}


def command(program: Path, data: Path, port: int, debug: int) -> list[str]:
    """The command line: backend, directories and ports, and no telemetry; everything else is the default."""
    return [
        *(str(program), "--handler=sqlite", f"--sqlite-url=file:{data}/", f"--state-dir={data}"),
        *(f"--listen-addr=127.0.0.1:{port}", f"--debug-addr=127.0.0.1:{debug}", "--telemetry=disable"),
    ]
