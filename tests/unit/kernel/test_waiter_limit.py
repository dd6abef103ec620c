"""Limits on the number of requests that wait for a slow response."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from icekeeper.kernel.threads import MAX_LONG_WAITERS, MAX_SHORT_WAITERS, SHORT_WAIT_SECONDS, WaiterLimit

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MANY = MAX_SHORT_WAITERS + MAX_LONG_WAITERS + 10


def waits(project: WaiterLimit, event: threading.Event, *, seconds: float) -> tuple[bool, float]:
    """Return whether the event was set, and the seconds of the wait."""
    began = time.monotonic()
    try:
        return project.wait(event.wait, seconds=seconds), time.monotonic() - began
    finally:
        connections.close_all()  # that of this thread


def test_no_request_waits_for_an_existing_value() -> None:
    project, there = WaiterLimit(max_short_waiters=0), threading.Event()
    there.set()
    assert all(waits(project, there, seconds=10)[0] for _ in range(MANY))


def test_many_wait_for_a_fast_response() -> None:
    project, event = WaiterLimit(), threading.Event()
    with ThreadPoolExecutor(MAX_SHORT_WAITERS) as pool:
        waiting = [pool.submit(waits, project, event, seconds=10) for _ in range(MAX_SHORT_WAITERS)]
        time.sleep(SHORT_WAIT_SECONDS / 4)
        event.set()
        assert all(each.result()[0] for each in waiting)


def test_only_few_wait_for_a_missing_response() -> None:
    project, never, timeout = WaiterLimit(), threading.Event(), SHORT_WAIT_SECONDS + 2
    with ThreadPoolExecutor(MANY) as pool:
        waiting = [pool.submit(waits, project, never, seconds=timeout) for _ in range(MANY)]
        took = sorted(each.result()[1] for each in waiting)
    assert not any(each.result()[0] for each in waiting)
    at_once, briefly, long = took[:10], took[10:-MAX_LONG_WAITERS], took[-MAX_LONG_WAITERS:]
    assert max(at_once) < SHORT_WAIT_SECONDS
    assert max(briefly) < timeout
    assert min(long) >= timeout


def test_a_waiter_releases_its_slot() -> None:
    project, never = WaiterLimit(max_short_waiters=1), threading.Event()
    for _ in range(MAX_LONG_WAITERS + 2):
        assert waits(project, never, seconds=0.05)[1] >= 0.05
