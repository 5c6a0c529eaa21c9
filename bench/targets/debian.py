"""Installs the Debian packages of missing systems, without starting their services."""

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
    """Installs packages, or raises NotGiven with the reason."""
    named = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotGiven(f"not installed, and only root can install it: {named}")
    with _no_services():
        refusal = _apt("install", "-y", "--no-install-recommends", *packages)
        if refusal:
            # The package lists may be missing or old.
            _apt("update")
            refusal = _apt("install", "-y", "--no-install-recommends", *packages)
    if refusal:
        raise NotGiven(f"could not be installed: {named}: {refusal}")


def _apt(*arguments: str) -> str | None:
    """Runs apt; returns the reason of a failure, or None."""
    # The timeout is for apt's lock: two runs may install the same package.
    command = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={TIMEOUT}", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"not finished within {TIMEOUT} s"
    return (done.stderr.strip()[-200:] or f"exit code {done.returncode}") if done.returncode else None


@contextmanager
def _no_services() -> Iterator[None]:
    """Installs a policy program that keeps packages from starting their servers. An existing program is not changed."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
