"""Waits for many sockets. Unlike with `selectors`, a thread can re-arm a socket while the event loop waits."""

from __future__ import annotations

import select
import sys
from contextlib import suppress

if sys.platform == "linux":

    class Poller:
        """Reports an armed descriptor once; it must be armed again to be reported again."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self.close = self._epoll.close

        def watch(self, descriptor: int) -> None:
            """Report `descriptor` whenever it is readable (listeners, pipes)."""
            self._epoll.register(descriptor, select.EPOLLIN)

        def add(self, descriptor: int) -> None:
            """Arm a new descriptor for the first time."""
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

        def arm(self, descriptor: int) -> None:
            self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

        def arm_writing(self, descriptor: int) -> None:
            """Report the descriptor when it can be written to."""
            self._epoll.modify(descriptor, select.EPOLLOUT | select.EPOLLONESHOT)

        def remove(self, descriptor: int) -> None:
            self._epoll.unregister(descriptor)

        def wait(self, seconds: float) -> list[int]:
            return [descriptor for descriptor, _ in self._epoll.poll(seconds)]

else:

    class Poller:
        """The implementation for BSD and macOS."""

        def __init__(self) -> None:
            self._kqueue = select.kqueue()
            self.close = self._kqueue.close

        def watch(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD)

        def add(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_ONESHOT)

        arm = add

        def arm_writing(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_FILTER_WRITE)

        def remove(self, descriptor: int) -> None:
            with suppress(FileNotFoundError):  # it is not armed
                self._change(descriptor, select.KQ_EV_DELETE)

        def wait(self, seconds: float) -> list[int]:
            return [event.ident for event in self._kqueue.control(None, 256, seconds)]

        def _change(self, descriptor: int, action: int, direction: int = select.KQ_FILTER_READ) -> None:
            self._kqueue.control([select.kevent(descriptor, direction, action)], 0)
