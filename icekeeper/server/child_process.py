"""A process beside the ones that serve: forked from the same parent, started again when it dies, stopped with it."""

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
"""Seconds until it is started again: the first, doubled each time it dies, until it has lived for the longest."""

_PR_SET_PDEATHSIG = 1
_SIGNALS = frozenset(
    {signal.SIGHUP, signal.SIGQUIT, signal.SIGINT, signal.SIGTERM, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1,
     signal.SIGUSR2, signal.SIGWINCH, signal.SIGCHLD}
)  # fmt: skip
"""Those that gunicorn's arbiter handles; its child must not."""

logger = logging.getLogger("icekeeper.server")


class ChildProcess:
    """`run` is called in the child with the id of its parent; the process ends when it returns. Of the server's sockets
    it keeps `listens_on` open.

    The arbiter reaps every child it finds dead, so this one may be gone before we look: then we know that, and not how
    it ended.
    """

    def __init__(self, name: str, run: Callable[[int], None], *, listens_on: socket.socket | None = None) -> None:
        self.name, self.run, self.listens_on = name, run, listens_on
        self.pid: int | None = None
        self._started = self._next_start = 0.0
        self._pause = MIN_RESTART_SECONDS

    def supervise(self, listeners: Iterable[Any]) -> None:
        """Start it when it does not run and its pause is over. `listeners` are the server's sockets."""
        self.reap()
        if self.pid is None and monotonic() >= self._next_start:
            self._start(listeners)

    def reap(self) -> None:
        """Notice when it has ended, and leave no zombie."""
        if self.pid is None:
            return
        try:
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else took its status: it is gone all the same
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
        logger.warning("%s died and is started again", self.name, extra=extra)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def wait(self, until: float) -> None:
        """Return when it is gone: by itself until then (monotonic seconds), else killed."""
        while self._is_running() and monotonic() < until:
            sleep(0.02)
        if self._is_running():
            logger.warning("%s does not stop and is killed", self.name, extra={"pid": self.pid})
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
        gc.freeze()  # what lives now is shared; the collector would write to it in the child
        parent = os.getpid()
        # A signal that comes before the child has forgotten the arbiter's handlers would be lost.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._started = monotonic()
            self.pid = os.fork()
            if self.pid == 0:
                self._be_child(parent, listeners, blocked)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _be_child(self, parent: int, listeners: Iterable[Any], mask: set[Any]) -> None:
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
            logger.exception("%s cannot go on", self.name)
        finally:
            logging.shutdown()
            os._exit(status)
