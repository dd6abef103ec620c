"""CPU time and memory of a process and its descendants, from `/proc`."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PPID, UTIME, CSTIME = 1, 11, 15  # positions in /proc/PID/stat after the command's name, which may contain blanks


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def tree(root: int) -> list[int]:
    """Return `root` and its living descendants."""
    parents = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    members = [root]
    for member in members:  # grows during the loop: children of children
        members += [pid for pid, stat in parents.items() if stat and int(stat[PPID]) == member]
    return members


def seconds(root: int) -> float:
    """Return user and system time of the tree so far, including children that ended and were waited for."""
    stats = [stat for pid in tree(root) if (stat := _stat(pid))]
    return sum(int(ticks) for stat in stats for ticks in stat[UTIME : CSTIME + 1]) / TICKS


def largest_memory_mb(root: int) -> float:
    """Return the resident memory of the largest process of the tree."""
    return (
        max((int(stat[21]) for pid in tree(root) if (stat := _stat(pid))), default=0) * os.sysconf("SC_PAGE_SIZE") / 1e6
    )
