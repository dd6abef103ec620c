"""Who may wait for an answer that may never come."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from icekeeper.kernel.request.waiting import BRIEFLY, MOST_BRIEFLY, MOST_PATIENT, WaitingRoom

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MANY = MOST_BRIEFLY + MOST_PATIENT + 10


def waits(room: WaitingRoom, event: threading.Event, *, seconds: float) -> tuple[bool, float]:
    """Whether it came, and how long that took."""
    began = time.monotonic()
    try:
        return room.wait(event.wait, seconds=seconds), time.monotonic() - began
    finally:
        connections.close_all()  # this thread's own


def test_nobody_waits_for_what_is_there() -> None:
    room, there = WaitingRoom(most_briefly=0), threading.Event()
    there.set()
    assert all(waits(room, there, seconds=10)[0] for _ in range(MANY))


def test_many_are_served_by_what_comes_soon() -> None:
    room, event = WaitingRoom(), threading.Event()
    with ThreadPoolExecutor(MOST_BRIEFLY) as pool:
        waiting = [pool.submit(waits, room, event, seconds=10) for _ in range(MOST_BRIEFLY)]
        time.sleep(BRIEFLY / 4)
        event.set()
        assert all(each.result()[0] for each in waiting)


def test_few_wait_for_what_does_not_come_and_all_others_do_not() -> None:
    room, never, patience = WaitingRoom(), threading.Event(), BRIEFLY + 2
    with ThreadPoolExecutor(MANY) as pool:
        waiting = [pool.submit(waits, room, never, seconds=patience) for _ in range(MANY)]
        took = sorted(each.result()[1] for each in waiting)
    assert not any(each.result()[0] for each in waiting)
    at_once, briefly, long = took[:10], took[10:-MOST_PATIENT], took[-MOST_PATIENT:]
    assert max(at_once) < BRIEFLY
    assert max(briefly) < patience
    assert min(long) >= patience


def test_a_seat_is_free_again_for_the_next() -> None:
    room, never = WaitingRoom(most_briefly=1), threading.Event()
    for _ in range(MOST_PATIENT + 2):
        assert waits(room, never, seconds=0.05)[1] >= 0.05
