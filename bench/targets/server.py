"""A server process started by the bench, with its output in a log file. It is stopped by its pid."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from bench import process


@cache
def _templates() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="bench-templates-"))
    directory.chmod(0o755)  # if the bench runs as root, servers run as other users
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def fill(data: Path, name: str, make: Callable[[Path], None]) -> None:
    """Fills a new data directory. `make` runs once per run, and its result is then copied, because it takes some systems seconds."""
    template = _templates() / name
    if not template.exists():
        make(part := template.with_suffix(".part"))
        part.rename(template)
    subprocess.run(["cp", "-a", template, data], check=True)


class ServerProcess:
    """Runs one server until stopped."""

    def __init__(self, command: list[str], log: Path, user: str | None = None) -> None:
        self.log = log
        with open(log, "wb") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=user,
                group=user,
                extra_groups=[] if user else None,
                start_new_session=True,  # the bench handles interrupts from the terminal, not the server
                cwd=log.parent,
            )
        self.pid = self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._child.poll() is None

    def wait_ready(self, port: int) -> None:
        """Returns when the port accepts connections. If the server has ended, the error shows the end of its log."""
        try:
            process.wait_for_port(port, lambda: self.running)
        except RuntimeError as failure:
            raise RuntimeError(f"{failure}: {self.last_words()}") from None

    def last_words(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-600:].strip()

    def kill(self) -> None:
        """Kills the process and its descendants without running their handlers. Returns when all have ended."""
        members = process.family(self.pid) if self.running else []
        for member in members:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself when its parent was killed
        self._child.wait()
        while any(_lives(member) for member in members):
            time.sleep(0.001)

    def stop(self, how: signal.Signals = signal.SIGTERM, patience: float = 60.0) -> None:
        """Asks the process to end, and kills it if it does not end within `patience` seconds."""
        if not self.running:
            return
        os.kill(self.pid, how)
        try:
            self._child.wait(patience)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _lives(pid: int) -> bool:
    """Whether a process still runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
