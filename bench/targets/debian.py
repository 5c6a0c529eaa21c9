"""Installs Debian's packages where a system is missing, without the services that they would start."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.targets.base import NotGiven

POLICY = Path("/usr/sbin/policy-rc.d")
TIMEOUT = 900


def install(*packages: str) -> None:
    """Installs packages; where that cannot be, NotGiven says why."""
    named = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotGiven(f"not installed, and only root can do so here: {named}")
    with _no_services():
        refusal = _apt("install", "-y", "--no-install-recommends", *packages)
        if refusal:
            # The lists of packages may be missing or old.
            _apt("update")
            refusal = _apt("install", "-y", "--no-install-recommends", *packages)
    if refusal:
        raise NotGiven(f"could not be installed: {named}: {refusal}")


def _apt(*arguments: str) -> str | None:
    """Why apt refused, if it did."""
    # The lock's timeout: two runs may find the same package missing.
    command = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={TIMEOUT}", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"not done within {TIMEOUT} s"
    return (done.stderr.strip()[-200:] or f"exit code {done.returncode}") if done.returncode else None


@contextmanager
def _no_services() -> Iterator[None]:
    """Packages of servers start them when installed, unless this program forbids it; one that is there already stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
