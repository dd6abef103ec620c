"""How long a commit is tried again."""

from __future__ import annotations

import math
import time
from threading import Event, Thread

import pytest

from catalog.services import contention
from catalog.services.contention import attempts, turns_at
from icekeeper.kernel import deadline
from icekeeper.kernel.errors import CommitContended, CommitFailed


def test_tries_end_with_the_time_that_the_request_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a try has written, which ends the request's own deadline."""
    at = 100.0
    monkeypatch.setattr(contention.time, "monotonic", lambda: at)
    monkeypatch.setattr(contention.time, "sleep", lambda _: None)
    with deadline.deadline(at + 10):
        trying = attempts("t")
        for tries in range(4):
            assert next(trying) == tries
            deadline.begin_write()
            at += 3
        with pytest.raises(CommitContended, match="again and again"):
            next(trying)


def test_tries_are_numbered_and_nobody_sleeps_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(CommitContended):
        list(attempts("t"))
    assert len(slept) == contention.ATTEMPTS - 1


def test_who_waited_while_another_was_refused_lets_it_come_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "HEAD_START_SECONDS", 60.0)
    monkeypatch.setattr(contention, "MOST_COURTESY_SECONDS", 60.0)
    order: list[str] = []
    waits = Event()

    def wait_behind() -> None:
        waits.set()
        with turns_at(["t"]):
            order.append("waited")

    behind = Thread(target=wait_behind)
    with pytest.raises(CommitFailed), turns_at(["t"]):  # noqa: PT012 - the block is what is refused
        behind.start()
        assert waits.wait(10)
        until = time.monotonic() + 10
        while contention._turns["t"].wanted_by < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(0.05)  # from wanting it to waiting for it
        raise CommitFailed("planted")
    with turns_at(["t"]):
        order.append("came back")
    behind.join(10)  # long before its head start is over, which ends with the turn that it was for
    assert order == ["came back", "waited"]
    assert not contention._turns


def test_a_head_start_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "HEAD_START_SECONDS", 0.01)
    turn = contention._Turn()
    assert turn.take(1)
    behind = Thread(target=lambda: turn.take(10) and turn.give_back(refused=False))
    behind.start()
    time.sleep(0.05)
    turn.give_back(refused=True)
    behind.join(10)
    assert not behind.is_alive()
    assert not turn.is_taken


def test_nobody_is_put_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often others are refused."""
    monkeypatch.setattr(contention, "HEAD_START_SECONDS", 60.0)
    monkeypatch.setattr(contention, "MOST_COURTESY_SECONDS", 0.1)
    turn = contention._Turn()
    assert turn.take(1)
    behind = Thread(target=lambda: turn.take(30) and turn.give_back(refused=False))
    behind.start()
    time.sleep(0.02)
    turn.give_back(refused=True)
    behind.join(10)
    assert not behind.is_alive()


def test_who_gets_no_turn_at_one_table_is_not_refused_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that waits for its second table in vain saw nothing old of the first."""
    monkeypatch.setattr(contention, "LONGEST_WAIT_SECONDS", 0.01)
    with turns_at(["b"]):
        first = contention._turns.setdefault("a", contention._Turn())
        first.wanted_by += 1
        with pytest.raises(CommitContended), turns_at(["a", "b"]):
            raise AssertionError("b is taken")
        assert first.refused_at == -math.inf
    del contention._turns["a"]


def test_a_turn_that_does_not_come_is_not_waited_for_for_ever() -> None:
    turn = contention._Turn()
    assert turn.take(1)
    assert not turn.take(0.01)
    turn.give_back(refused=False)
    assert turn.take(0)
