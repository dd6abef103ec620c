"""Child processes end at their limits, and see nothing of the server but what they are sent."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from icekeeper.kernel.bounded_process import BoundedProcess, Limits, ProcessFailed, ProcessTimedOut

PROGRAM = "tests.unit.kernel.bounded_test_program"
LIMITS = Limits(memory_bytes=1 << 30, cpu_seconds=20, seconds=20, output_bytes=10_000)


def test_frames_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEKEEPER__PG_ENCRYPTION_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with BoundedProcess(PROGRAM, LIMITS) as process:
        seen = process.ask(b"environment")
        assert process.ask(b"print") == seen, "what it prints is no response"
        assert process.ask(b"letters") == "é" * 4_900, "9,802 bytes of UTF-8"
        assert process.ask(b"large") == {"error": "The result is larger than 10,000 bytes"}
        assert process.ask(b"score") == "1000\n", "ended before the server when memory is short"
    assert not [each for each in seen if "KEY" in each or "ICEKEEPER" in each]


@pytest.mark.parametrize("frame", [b"grow", b"exit", b"x" * 1001])
def test_programs_that_end(frame: bytes) -> None:
    with BoundedProcess(PROGRAM, LIMITS) as process, pytest.raises(ProcessFailed):
        process.ask(frame)


def test_limits_of_time() -> None:
    began = time.monotonic()
    with BoundedProcess(PROGRAM, replace(LIMITS, seconds=0.3)) as process, pytest.raises(ProcessTimedOut):
        process.ask(b"sleep")
    with (
        BoundedProcess(PROGRAM, replace(LIMITS, cpu_seconds=1)) as process,
        pytest.raises(ProcessTimedOut, match="CPU"),
    ):
        process.ask(b"spin")
    assert time.monotonic() - began < 15
