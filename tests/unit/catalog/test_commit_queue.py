"""The commit queue: order, reserved slots, and attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread

import pytest

from catalog.services.commit import queue
from catalog.services.commit.queue import CommitQueue, attempts, reserve_commit_slots
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CommitContended, CommitFailed
from icekeeper.kernel.request_context import current_context

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_attempts_end_with_the_time_that_the_request_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when an attempt has written, which ends the request's own deadline."""
    at = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: at)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with request_context.deadline(at + 10):
        trying = attempts("t")
        for tries in range(4):
            assert next(trying) == tries
            request_context.begin_write()
            at += 3
        with pytest.raises(CommitContended, match="again and again"):
            next(trying)


def test_attempts_are_numbered_without_a_pause_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(CommitContended):
        list(attempts("t"))
    assert len(slept) == queue.MAX_ATTEMPTS - 1


class Writer(Thread):
    """A thread that waits for the slot of "t" on its own connection and runs `act` in it."""

    def __init__(self, client: str, act: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._client, self._act = client, act

    def run(self) -> None:
        current_context().client_connection = self._client
        with suppress(CommitContended), reserve_commit_slots(["t"]):
            self._act()

    def start_waiting(self) -> None:
        """Start, and return when it is the last waiter."""
        waiters = queue._queues["t"].waiters
        before = len(waiters)
        self.start()
        _until(lambda: len(waiters) > before)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def own_connection() -> Iterator[None]:
    queue._queues.clear()
    current_context().client_connection = "own:1"
    yield
    current_context().client_connection = None
    assert not any(each.is_taken or each.waiters for each in queue._queues.values())


def _appending(order: list[str], name: str) -> Writer:
    return Writer(name, lambda: order.append(name))


def test_waiters_get_the_slot_in_their_order() -> None:
    order: list[str] = []
    writers = [_appending(order, f"{number}") for number in range(5)]
    with reserve_commit_slots(["t"]):
        for writer in writers:
            writer.start_waiting()
    for writer in writers:
        writer.join(30)
    assert order == ["0", "1", "2", "3", "4"]


def test_a_client_whose_commit_failed_returns_before_the_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RESERVED_SECONDS", 60.0)
    monkeypatch.setattr(queue, "MAX_YIELD_SECONDS", 60.0)
    order: list[str] = []
    waiting = _appending(order, "waited")
    with pytest.raises(CommitFailed), reserve_commit_slots(["t"]):  # noqa: PT012 - the block is what fails
        waiting.start_waiting()
        raise CommitFailed("planted")
    newcomer = _appending(order, "came after the failure")
    newcomer.start_waiting()
    with reserve_commit_slots(["t"]):
        order.append("came back")
    waiting.join(30)
    newcomer.join(30)
    assert order == ["came back", "waited", "came after the failure"]


@pytest.mark.parametrize(
    ("reserved", "yields", "error"),
    [
        pytest.param(0.01, 60.0, CommitFailed, id="the client does not return in time"),
        pytest.param(60.0, 0.05, CommitFailed, id="others fail and return again and again"),
        pytest.param(60.0, 60.0, CommitContended, id="the client may have read the newest version"),
    ],
)
def test_a_waiter_gets_the_slot_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch, reserved: float, yields: float, error: type[CommitFailed]
) -> None:
    monkeypatch.setattr(queue, "RESERVED_SECONDS", reserved)
    monkeypatch.setattr(queue, "MAX_YIELD_SECONDS", yields)
    order: list[str] = []
    waiting = _appending(order, "waited")
    with pytest.raises(error), reserve_commit_slots(["t"]):  # noqa: PT012 - the block is what fails
        waiting.start_waiting()
        raise error("planted")
    waiting.join(30)
    assert order == ["waited"]


def test_no_slot_at_one_table_reserves_none_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that times out at its second table has read no stale state of the first."""
    monkeypatch.setattr(queue, "MAX_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(queue, "lease_number", ord)  # in the order of the leases
    with reserve_commit_slots(["b"]):
        with pytest.raises(CommitContended), reserve_commit_slots(["a", "b"]):
            raise AssertionError("b is taken")
        assert queue._queues["a"].reserved_for is None


def test_waiting_for_a_slot_times_out() -> None:
    slots = CommitQueue()
    assert slots.acquire(1, client="a")
    assert not slots.acquire(0.01, client="b")
    slots.release(has_committed=True, is_reserved=False)
    assert slots.acquire(0, client="c")


def test_a_waiter_that_times_out_notifies_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    behind = _appending(order, "behind")
    monkeypatch.setattr(queue, "MAX_WAIT_SECONDS", 1.0)
    hasty = _appending(order, "hasty")
    with reserve_commit_slots(["t"]):
        hasty.start_waiting()
        monkeypatch.setattr(queue, "MAX_WAIT_SECONDS", 60.0)
        behind.start_waiting()
        hasty.join(30)
    behind.join(30)
    assert order == ["behind"]


def _commit_and_return(order: list[str], times: int) -> None:
    """A writer that sends its next commit as soon as the last one has its response."""
    for _ in range(times):
        with reserve_commit_slots(["t"]):
            order.append("quick")


@pytest.fixture
def contended(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESERVED_SECONDS", "MAX_YIELD_SECONDS", "MAX_CONTINUE_SECONDS", "CONTENTION_SECONDS"):
        monkeypatch.setattr(queue, name, 60.0)


def _fail_once() -> None:
    with pytest.raises(CommitFailed), reserve_commit_slots(["t"]):
        raise CommitFailed("planted")


@pytest.mark.usefixtures("contended")
def test_a_client_that_commits_again_and_again_continues_before_the_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    waiting = _appending(order, "waited")
    _fail_once()
    _commit_and_return(order, 2)
    with reserve_commit_slots(["t"]):
        waiting.start_waiting()
        order.append("quick")
    _commit_and_return(order, 2)
    assert order == ["quick"] * 5
    monkeypatch.setattr(queue, "MAX_CONTINUE_SECONDS", 0.0)
    with reserve_commit_slots(["t"]):
        pass
    waiting.join(30)
    assert order == ["quick"] * 5 + ["waited"]


@pytest.mark.usefixtures("contended")
def test_without_failures_waiters_come_in_order() -> None:
    order: list[str] = []
    waiting = _appending(order, "waited")
    _commit_and_return(order, 2)
    with reserve_commit_slots(["t"]):
        waiting.start_waiting()
        order.append("quick")
    _commit_and_return(order, 1)
    assert order == ["quick", "quick", "quick", "waited", "quick"]


@pytest.mark.usefixtures("contended")
def test_a_single_commit_reserves_nothing() -> None:
    order: list[str] = []
    waiting = _appending(order, "waited")
    _fail_once()
    with reserve_commit_slots(["t"]):
        waiting.start_waiting()
        order.append("once")
    waiting.join(30)
    assert order == ["once", "waited"]
