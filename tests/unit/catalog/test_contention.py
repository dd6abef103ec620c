"""Whose turn it is to commit, and how long a commit is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread

import pytest

from catalog.services import contention, turns
from catalog.services.contention import attempts, turns_at
from catalog.services.turns import Turn
from icekeeper.kernel import node_leases
from icekeeper.kernel.errors.types import CommitContended, CommitFailed
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.client_connection import set_client_connection

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


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


class Writer(Thread):
    """Wants the turn at "t" over a connection of its own and does `act` in it."""

    def __init__(self, client: str, act: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._client, self._act = client, act

    def run(self) -> None:
        set_client_connection(self._client)
        with suppress(CommitContended), turns_at(["t"]):
            self._act()

    def begin_to_wait(self) -> None:
        """Return once it waits behind all others that do."""
        queue = contention._turns["t"].queue
        before = len(queue)
        self.start()
        _until(lambda: len(queue) > before)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def own_connection() -> Iterator[None]:
    contention._turns.clear()
    set_client_connection("own:1")
    yield
    set_client_connection(None)
    assert not any(turn.is_taken or turn.queue for turn in contention._turns.values())


def _order_of(order: list[str], name: str) -> Writer:
    return Writer(name, lambda: order.append(name))


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    order: list[str] = []
    writers = [_order_of(order, f"{number}") for number in range(5)]
    with turns_at(["t"]):
        for writer in writers:
            writer.begin_to_wait()
    for writer in writers:
        writer.join(30)
    assert order == ["0", "1", "2", "3", "4"]


def test_a_refused_writer_comes_back_before_those_who_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "KEPT_SECONDS", 60.0)
    monkeypatch.setattr(turns, "MOST_COURTESY_SECONDS", 60.0)
    order: list[str] = []
    waiting = _order_of(order, "waited")
    with pytest.raises(CommitFailed), turns_at(["t"]):  # noqa: PT012 - the block is what is refused
        waiting.begin_to_wait()
        raise CommitFailed("planted")
    newcomer = _order_of(order, "came after the refusal")
    newcomer.begin_to_wait()
    with turns_at(["t"]):
        order.append("came back")
    waiting.join(30)
    newcomer.join(30)
    assert order == ["came back", "waited", "came after the refusal"]


@pytest.mark.parametrize(
    ("kept", "courtesy", "refusal"),
    [
        pytest.param(0.01, 60.0, CommitFailed, id="the refused one does not come back in time"),
        pytest.param(60.0, 0.05, CommitFailed, id="however often others are refused and come back"),
        pytest.param(60.0, 60.0, CommitContended, id="the refused one may have seen the newest version"),
    ],
)
def test_who_waits_is_not_put_off_for_ever(
    monkeypatch: pytest.MonkeyPatch, kept: float, courtesy: float, refusal: type[CommitFailed]
) -> None:
    monkeypatch.setattr(turns, "KEPT_SECONDS", kept)
    monkeypatch.setattr(turns, "MOST_COURTESY_SECONDS", courtesy)
    order: list[str] = []
    waiting = _order_of(order, "waited")
    with pytest.raises(refusal), turns_at(["t"]):  # noqa: PT012 - the block is what is refused
        waiting.begin_to_wait()
        raise refusal("planted")
    waiting.join(30)
    assert order == ["waited"]


def test_who_gets_no_turn_at_one_table_is_not_refused_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that waits for its second table in vain saw nothing old of the first."""
    monkeypatch.setattr(contention, "LONGEST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(node_leases, "slot_of", ord)  # turns are taken in the order of the slots
    with turns_at(["b"]):
        with pytest.raises(CommitContended), turns_at(["a", "b"]):
            raise AssertionError("b is taken")
        assert contention._turns["a"].kept_for is None


def test_a_turn_that_does_not_come_is_not_waited_for_for_ever() -> None:
    turn = Turn()
    assert turn.take(1, client="a")
    assert not turn.take(0.01, client="b")
    turn.give_back(has_committed=True, is_kept=False)
    assert turn.take(0, client="c")


def test_who_gives_up_leaves_its_place_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    behind = _order_of(order, "behind")
    monkeypatch.setattr(contention, "LONGEST_WAIT_SECONDS", 1.0)
    hasty = _order_of(order, "hasty")
    with turns_at(["t"]):
        hasty.begin_to_wait()
        monkeypatch.setattr(contention, "LONGEST_WAIT_SECONDS", 60.0)
        behind.begin_to_wait()
        hasty.join(30)
    behind.join(30)
    assert order == ["behind"]


def _commit_and_return(order: list[str], times: int) -> None:
    """A writer that sends its next commit as soon as the last one was answered."""
    for _ in range(times):
        with turns_at(["t"]):
            order.append("quick")


@pytest.fixture
def streaks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEPT_SECONDS", "MOST_COURTESY_SECONDS", "LONGEST_STREAK_SECONDS", "REFUSAL_COUNTS_SECONDS"):
        monkeypatch.setattr(turns, name, 60.0)


def _refuse_once() -> None:
    with pytest.raises(CommitFailed), turns_at(["t"]):
        raise CommitFailed("planted")


@pytest.mark.usefixtures("streaks")
def test_who_commits_again_and_again_goes_on_before_those_it_would_make_old(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    waiting = _order_of(order, "waited")
    _refuse_once()
    _commit_and_return(order, 2)
    with turns_at(["t"]):
        waiting.begin_to_wait()
        order.append("quick")
    _commit_and_return(order, 2)
    assert order == ["quick"] * 5
    monkeypatch.setattr(turns, "LONGEST_STREAK_SECONDS", 0.0)
    with turns_at(["t"]):
        pass
    waiting.join(30)
    assert order == ["quick"] * 5 + ["waited"]


@pytest.mark.usefixtures("streaks")
def test_where_nobody_is_refused_everybody_comes_in_order() -> None:
    order: list[str] = []
    waiting = _order_of(order, "waited")
    _commit_and_return(order, 2)
    with turns_at(["t"]):
        waiting.begin_to_wait()
        order.append("quick")
    _commit_and_return(order, 1)
    assert order == ["quick", "quick", "quick", "waited", "quick"]


@pytest.mark.usefixtures("streaks")
def test_who_commits_once_is_not_waited_for() -> None:
    order: list[str] = []
    waiting = _order_of(order, "waited")
    _refuse_once()
    with turns_at(["t"]):
        waiting.begin_to_wait()
        order.append("once")
    waiting.join(30)
    assert order == ["once", "waited"]
