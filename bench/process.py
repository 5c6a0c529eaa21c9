"""Reads from the kernel: CPU time, memory and disk blocks of a process and its descendants.

CPU time comes from the CPU clock of each process (nanoseconds, including ended threads). Children that have ended and were waited
for appear in their parent's statistics, in clock ticks. PostgreSQL's parallel workers appear only there.
"""

import os
import socket
import time
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
BLOCK = 512  # the unit of st_blocks, independent of the file system's block size


def family(*pids: int) -> list[int]:
    """The processes and all their living descendants."""
    found = list(pids)
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in task.read_text().split())
            except OSError:
                continue  # the thread ended between listing and reading
    return found


def cpu_seconds(*pids: int) -> float:
    """User and system time of the processes, their descendants and their ended children so far."""
    total = 0.0
    for member in family(*pids):
        try:
            # The clock id that clock_getcpuclockid(3) returns for a process.
            total += time.clock_gettime((~member << 3) | 2)
            after_name = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(after_name[13]) + int(after_name[14])) * TICK
    return total


def _kilobytes(path: str, field: str) -> int:
    for line in Path(path).read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak_memory(*pids: int) -> int:
    """Peak resident memory of a single process in bytes; for several processes, their present proportional memory (shared pages counted once)."""
    members = family(*pids)
    if len(members) == 1:
        return _kilobytes(f"/proc/{members[0]}/status", "VmHWM")
    return _proportional_memory(members)


def _proportional_memory(members: list[int]) -> int:
    total = 0
    for member in members:
        try:
            total += _kilobytes(f"/proc/{member}/smaps_rollup", "Pss")
        except OSError:
            continue
    return total


def resident_memory(*pids: int) -> int:
    """Bytes of present resident memory of one process; of several, their proportional memory (shared pages counted once)."""
    members = family(*pids)
    if len(members) == 1:
        return _kilobytes(f"/proc/{members[0]}/status", "VmRSS")
    return _proportional_memory(members)


def disk_bytes(directory: Path) -> int:
    """Blocks allocated to all files below a directory, in bytes."""
    total = 0
    for base, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(base, name)).st_blocks * BLOCK
            except OSError:
                continue  # deleted by a compaction during the walk
    return total


def free_port() -> int:
    """A TCP port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int, alive, limit: float = 30.0) -> None:
    """Returns when a process accepts connections on the loopback port. It is an error if `alive()` is false or `limit` seconds pass."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if not alive():
                raise RuntimeError("the server ended while starting") from None
            time.sleep(0.001)
    raise RuntimeError(f"nothing listens on port {port} after {limit:.0f} s")


def listener(host: str, port: int) -> int | None:
    """The process on this machine that listens on a loopback port; None for another host or an invisible process."""
    try:
        if not socket.gethostbyname(host).startswith("127."):
            return None
    except OSError:
        return None
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(entry) in inodes:
                return int(entry.parts[2])
        except OSError:
            continue
    return None
