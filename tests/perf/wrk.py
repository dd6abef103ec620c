"""GETs through `wrk` where it is installed: it takes less of the two cores than a generator in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.perf import cpu
from tests.perf.load import Measured

SCRIPT = """
done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{"requests": %d, "micros": %d, "errors": %d, "50": %f, "99": %f}\\n',
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.timeout + errors.status,
    latency:percentile(50), latency:percentile(99)))
end
"""


def is_installed() -> bool:
    return shutil.which("wrk") is not None


def measure(url: str, *, clients: int, seconds: float, trees: dict[str, int]) -> Measured:
    """As `load.measure`; of the latencies there are only two percentiles, which stand for all requests."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "report.lua"
        script.write_text(SCRIPT)
        before = {name: cpu.seconds(pid) for name, pid in trees.items()}
        command = ["wrk", "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "-s", str(script), url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        used = {name: cpu.seconds(pid) - before[name] for name, pid in trees.items()}
    said = json.loads(done.stdout.splitlines()[-1])
    good = said["requests"] - said["errors"]
    slow = round(good * 0.02)
    latencies = [said["50"] / 1e6] * (good - slow) + [said["99"] / 1e6] * slow
    return Measured(seconds=said["micros"] / 1e6, latencies=latencies, errors=said["errors"], cpu=used)
