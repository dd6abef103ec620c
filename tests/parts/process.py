"""Child processes of a test run: free ports, readiness, and termination in every case."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1

OWN_PORTS = (10_000, 32_768)
"""First port, and the one after the last, of the servers that tests start."""


class PartError(RuntimeError):
    """A part could not be installed, started or prepared; the message contains the end of its log."""


_given_ports: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free and that this process did not get before.

    It lies below the range from which the kernel picks the ports of outgoing connections, so that none of them takes it
    before its server starts. Another test process may take it first.
    """
    while True:
        port = random.SystemRandom().randrange(*OWN_PORTS)
        if port in _given_ports:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given_ports.add(port)
            return port


def _die_with_parent() -> None:
    """Run in the child: when the test run is killed, the part gets SIGTERM."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    account: Mapping[str, Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in its own process group, output appended to `log`; `account` is Popen's user and group."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [os.fspath(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            **(account or {}),
        )


def wait_until_ready(ready: Callable[[], bool], process: subprocess.Popen[bytes], *, log: Path, seconds: float) -> None:
    """Return once `ready()` is true; raise `PartError` with the log's end when the process ends or on timeout."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise PartError(f"{process.args!r} ended with status {process.returncode}:\n{log_end(log)}")
        if time.monotonic() > deadline:
            raise PartError(f"{process.args!r} was not ready after {seconds:.0f} s:\n{log_end(log)}")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes], *, gently: signal.Signals, seconds: float = 20) -> None:
    """Send `gently`, then kill the process group."""
    if process.poll() is None:
        process.send_signal(gently)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to the whole process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def suspend(process: subprocess.Popen[bytes]) -> None:
    """Stop a process without closing its connections, and wait until it has stopped; SIGCONT continues it."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def log_end(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
