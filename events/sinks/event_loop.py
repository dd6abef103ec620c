"""A thread with an event loop, for sinks whose client library is asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from threading import Thread
from typing import Any, Final, TypeVar

T = TypeVar("T")

STOP_SECONDS: Final = 2.0
"""Maximum wait for the thread when it stops."""


class EventLoopThread:
    """Runs coroutines in a background thread. `stop` ends it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T], timeout: float) -> T:
        """Return the result of a coroutine, or raise its exception. After `timeout` seconds it is cancelled, and this
        raises `TimeoutError`, whether it ends or not.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except NotInTime:
            future.cancel()
            raise TimeoutError from None

    def stop(self) -> None:
        """Cancel all tasks and end the thread. Never raises."""
        with suppress(Exception):
            self.call(_cancel_tasks(), STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)


async def _cancel_tasks() -> None:
    """Cancel all other tasks and wait until they have ended."""
    tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
