"""A supervised child process of the arbiter: restarted when it exits, stopped with the server."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any

MIN_RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 60.0
"""The pause before a restart doubles with each exit, and is reset when the process has run for the maximum."""

_PR_SET_PDEATHSIG = 1
_SIGNALS = frozenset(
    {signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGTERM, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1,
     signal.SIGUSR2, signal.SIGWINCH, signal.SIGCHLD}
)  # fmt: skip
"""Signals for which the child must not inherit the handlers of gunicorn's arbiter."""

logger = logging.getLogger("icekeeper.server")


class ChildProcess:
    """Calls `run` in the child with the process id of the parent; the process exits when it returns.

    Of the server's sockets only `listens_on` stays open in the child. gunicorn's arbiter reaps every child, so the exit
    status can be unknown.
    """

    def __init__(self, name: str, run: Callable[[int], None], *, listens_on: socket.socket | None = None) -> None:
        self.name, self.run, self.listens_on = name, run, listens_on
        self.pid: int | None = None
        self._started = self._next_start = 0.0
        self._pause = MIN_RESTART_SECONDS

    def supervise(self, listeners: Iterable[Any]) -> None:
        """Start the process if it does not run and its pause is over. `listeners` are the server's sockets."""
        self.reap()
        if self.pid is None and monotonic() >= self._next_start:
            self._start(listeners)

    def reap(self) -> None:
        """Reap the process if it has exited, and log it."""
        if self.pid is None:
            return
        try:
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # reaped by the arbiter
            status = None
        else:
            if not pid:
                return
            status = os.waitstatus_to_exitcode(wait_status)
        if monotonic() - self._started >= MAX_RESTART_SECONDS:
            self._pause = MIN_RESTART_SECONDS
        extra = {"pid": self.pid, "status": status, "next_start_in_s": self._pause}
        self.pid = None
        self._next_start = monotonic() + self._pause
        self._pause = min(self._pause * 2, MAX_RESTART_SECONDS)
        logger.warning("%s exited and is restarted", self.name, extra=extra)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def wait(self, until: float) -> None:
        """Wait for the exit of the process; kill it at `until`, in seconds on the monotonic clock."""
        while self._is_running() and monotonic() < until:
            sleep(0.02)
        if self._is_running():
            logger.warning("%s did not stop and is killed", self.name, extra={"pid": self.pid})
            self._signal(signal.SIGKILL)
            while self._is_running():
                sleep(0.02)

    def _is_running(self) -> bool:
        if self.pid is None:
            return False
        try:
            is_there = os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            is_there = False
        if not is_there:
            self.pid = None
        return is_there

    def _signal(self, number: signal.Signals) -> None:
        if self._is_running() and self.pid is not None:
            os.kill(self.pid, number)

    def _start(self, listeners: Iterable[Any]) -> None:
        gc.freeze()  # the collector would write to shared objects in the child
        parent = os.getpid()
        # A signal that arrives before the child has replaced the arbiter's handlers would be lost.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._started = monotonic()
            self.pid = os.fork()
            if self.pid == 0:
                self._run_child(parent, listeners, blocked)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _run_child(self, parent: int, listeners: Iterable[Any], mask: set[Any]) -> None:
        status = 1
        try:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            for listener in listeners:
                if listener is not self.listens_on:
                    listener.close()
            if os.getppid() == parent:
                self.run(parent)
            status = 0
        except BaseException:
            logger.exception("%s failed", self.name)
        finally:
            logging.shutdown()
            os._exit(status)
