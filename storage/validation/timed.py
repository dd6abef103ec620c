"""Steps of a validation that end at its deadline, whatever the store does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import BoundedSemaphore, Thread
from typing import Final, TypeVar

from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.errors.types import Busy, RequestTimeout
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.context import copy_request_context
from storage.errors import StoreUnavailable

T = TypeVar("T")

MAX_UNFINISHED: Final = 64
"""Steps that run at the same time in a process, abandoned ones included."""

_unfinished = BoundedSemaphore(MAX_UNFINISHED)


class StepTimedOut(StoreUnavailable):
    """The store did not finish a step of a validation before the deadline."""


def finish_in_time(step: Callable[[], T]) -> T:
    """What `step` returns, if it does so before the deadline.

    It runs in a thread of its own: the libraries that ask stores cannot be interrupted, and each of their requests has
    a timeout of its own. A step that is not waited for any more ends with the request to the store that it is at, as
    it asks the same deadline before the next one. Raises what `step` raises, `StepTimedOut` (503), `Busy` (503).
    """
    try:
        left = deadline.remaining()
    except RequestTimeout:
        raise _timed_out() from None
    if not _unfinished.acquire(blocking=False):
        raise Busy("Too many storage validations are running")
    future: Future[T] = Future()
    context = copy_request_context()
    try:
        Thread(target=context.run, args=(_run, step, future), name="validation", daemon=True).start()
    except RuntimeError:  # the system has no thread left
        _unfinished.release()
        raise Busy("Too many storage validations are running") from None
    release_connections()
    if not wait([future], left).done:
        raise _timed_out()
    try:
        return future.result()
    except RequestTimeout:
        raise _timed_out() from None


def _run(step: Callable[[], T], future: Future[T]) -> None:
    try:
        result = step()
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _unfinished.release()


def _timed_out() -> StepTimedOut:
    return StepTimedOut(
        "The store did not finish this step in time: a validation may take 30 seconds, or "
        "LAKEKEEPER__MAX_REQUEST_TIME if that is shorter"
    )
