"""Steps of a validation that end at its deadline."""

from __future__ import annotations

import time
from threading import BoundedSemaphore, Event

import pytest

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import Busy, Conflict
from storage.validation import checks
from storage.validation.checks import StepTimedOut, finish_in_time

pytestmark = pytest.mark.django_db


def in_seconds(seconds: float) -> float:
    return time.monotonic() + seconds


def test_a_step_returns_its_result_or_raises_its_error() -> None:
    def fail() -> None:
        raise Conflict("its own")

    with request_context.deadline(in_seconds(10)):
        assert finish_in_time(lambda: 7) == 7
        with pytest.raises(Conflict, match="its own"):
            finish_in_time(fail)


def test_a_step_sees_the_deadline_and_stops_at_it() -> None:
    left: list[float | None] = []
    ended = Event()

    def step() -> None:
        left.append(request_context.remaining_seconds())
        while not request_context.deadline_expired():
            time.sleep(0.01)
        ended.set()
        request_context.remaining_seconds()

    with request_context.deadline(in_seconds(0.3)):
        with pytest.raises(StepTimedOut):
            finish_in_time(step)
        with pytest.raises(StepTimedOut):
            finish_in_time(lambda: pytest.fail("no time was left to begin"))
    assert left[0] is not None
    assert ended.wait(5), "the step ends by itself, without a waiting caller"


def test_an_abandoned_step_frees_the_slot_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that an earlier test abandoned do not free a slot of a later one."""
    may_continue = Event()
    before = BoundedSemaphore(1)
    monkeypatch.setattr(checks, "_unfinished", before)
    with request_context.deadline(in_seconds(0.2)), pytest.raises(StepTimedOut):
        finish_in_time(lambda: may_continue.wait(30))
    after = BoundedSemaphore(1)
    monkeypatch.setattr(checks, "_unfinished", after)
    assert after.acquire(blocking=False)
    may_continue.set()
    assert before.acquire(timeout=30), "the slot of the step is free again"
    assert not after.acquire(blocking=False)


def test_steps_that_do_not_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_unfinished", BoundedSemaphore(1))
    may_continue = Event()
    try:
        with request_context.deadline(in_seconds(0.2)), pytest.raises(StepTimedOut):
            finish_in_time(lambda: may_continue.wait(30))
        with request_context.deadline(in_seconds(10)), pytest.raises(Busy):
            finish_in_time(lambda: None)
    finally:
        may_continue.set()
    with request_context.deadline(in_seconds(10)):
        for _ in range(200):
            try:
                finish_in_time(lambda: None)
            except Busy:
                time.sleep(0.02)
            else:
                return
    pytest.fail("its slot was never free again")
