"""A server process of ours: started with its output in a log file, known by pid, stopped by that pid."""

import os
import signal
import subprocess
import time
from pathlib import Path

from bench import process


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
                start_new_session=True,  # an interrupt at the terminal is ours to handle, not the server's
                cwd=log.parent,
            )
        self.pid = self._child.pid

    def wait_ready(self, port: int) -> None:
        """Returns when the port answers; an ended server is an error that shows its last words."""
        try:
            process.wait_for_port(port, lambda: self._child.poll() is None)
        except RuntimeError as failure:
            raise RuntimeError(f"{failure}: {self.last_words()}") from None

    def last_words(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-600:].strip()

    def kill(self) -> None:
        """Ends the process and its descendants as a power cut would: no handler of theirs runs. Returns when all are gone."""
        members = process.family(self.pid) if self._child.poll() is None else []
        for member in members:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself as its parent died
        self._child.wait()
        while any(_lives(member) for member in members):
            time.sleep(0.001)

    def stop(self, how: signal.Signals = signal.SIGTERM, patience: float = 60.0) -> None:
        """Asks the process to end, and ends it when it does not within `patience` seconds."""
        if self._child.poll() is not None:
            return
        os.kill(self.pid, how)
        try:
            self._child.wait(patience)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _lives(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
