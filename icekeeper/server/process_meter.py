"""What a server process uses of the machine. The names are those of Prometheus' own libraries; values add up."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from icekeeper.kernel.meters import Meter, Series

_PROC = Path("/proc/self")


def process_meter() -> Meter:
    """Memory and open files on Linux only: other systems do not tell a process so cheaply."""
    series = [
        Series("icekeeper_workers", "gauge", "Server processes that take requests"),
        Series("process_cpu_seconds_total", "counter", "CPU time of the server processes"),
    ]
    if sys.platform == "linux":
        series += [
            Series(
                "process_resident_memory_bytes",
                "gauge",
                "Memory of the server processes; what they share counts in each",
            ),
            Series("process_open_fds", "gauge", "Open files and connections of the server processes"),
        ]
    return Meter(series, _read)


def _read() -> Sequence[float]:
    times = os.times()
    numbers = [1.0, times.user + times.system]
    if sys.platform == "linux":
        pages = int((_PROC / "statm").read_text().split()[1])
        open_files = len(os.listdir(_PROC / "fd")) - 1  # noqa: PTH208 - one is that of the listing itself
        numbers += [pages * os.sysconf("SC_PAGE_SIZE"), open_files]
    return numbers
