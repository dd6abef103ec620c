"""Child processes that read hostile or large files: bounded in memory, CPU time, wall clock time and output.

A program is a module of its own without Django (`icekeeper.kernel.bounded_program` is its side). It gets no environment
variable of the server but those of `_PASSED_VARIABLES`, and everything it needs, also credentials, in the frames that
it reads from its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from icekeeper.kernel.bounded_program import BrokenFrame, read_frame, write_frame
from icekeeper.kernel.json.strict import read_stored_json

ROOT: Final = Path(__file__).resolve().parents[2]

_PASSED_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
_NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


class ProcessFailed(Exception):
    """The program ended without a result: it was stopped at a limit, or it crashed."""


class ProcessTimedOut(ProcessFailed):
    """The program was stopped at its limit of wall clock time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one child process. CPU time is rounded up to whole seconds by the system."""

    memory_bytes: int
    cpu_seconds: int
    seconds: float
    output_bytes: int


class BoundedProcess:
    """A running program, with which the parent exchanges frames; at the end of the block its process group is killed.

    Raises `ProcessFailed` when the program ends early, and `ProcessTimedOut` when that is due to the time limit.
    """

    def __init__(self, program: str, limits: Limits, variables: Mapping[str, str] = _NO_VARIABLES) -> None:
        """Start the program, with `variables` besides those that are passed from this process."""
        self._limits = limits
        self._has_timed_out = False
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - a module of this code base
            [sys.executable, "-s", "-P", "-m", program, json.dumps(asdict(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**environment, **variables, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        self._timer = Timer(limits.seconds, self._stop)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stop_timer()
        self._kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def ask(self, frame: bytes) -> Any:
        """Send a frame and return the JSON value with which the program responds."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stdout is not None  # noqa: S101
        try:
            write_frame(self._process.stdin, frame)
            return read_stored_json(read_frame(self._process.stdout, self._limits.output_bytes))
        except (OSError, BrokenFrame, ValueError):
            raise self._failure() from None

    def _failure(self) -> ProcessFailed:
        self._stop_timer()
        if self._has_timed_out:
            return ProcessTimedOut(f"it took longer than {self._limits.seconds:g} seconds")
        self._kill()
        status = self._process.wait()
        if status == -signal.SIGXCPU:
            return ProcessTimedOut(f"it used more than {self._limits.cpu_seconds} seconds of CPU time")
        if status == -signal.SIGALRM:
            return ProcessTimedOut(f"it took longer than {self._limits.seconds:g} seconds")
        return ProcessFailed("the program that reads it was stopped: it needs too much memory, or the file is broken")

    def _stop_timer(self) -> None:
        """Afterwards nothing but the caller kills the process, so that its id cannot be that of another one."""
        self._timer.cancel()
        self._timer.join()

    def _stop(self) -> None:
        self._has_timed_out = True
        self._kill()

    def _kill(self) -> None:
        """Kill the process group. The id is that of the child until it is waited for, so it names no other group."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
