"""Cached documents of providers: lifetime and refresh. The clock only advances when a test sets it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tenancy.authn import provider_documents as module
from tenancy.authn.authenticator import ProviderUnavailable
from tenancy.authn.provider_documents import FetchFailed, RefreshingCache

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Source:
    """Count the fetches; each waits for `gate`, and fails while `fails` is set."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, False
        self.before: list[int | None] = []
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self, before: int | None) -> int:
        self.asked += 1
        self.before.append(before)
        number = self.asked
        self.gate.wait(30)
        if self.fails:
            raise FetchFailed("away")
        return number


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(module, "time", stopped)
    return stopped


@pytest.fixture
def source() -> Iterator[Source]:
    created = Source()
    yield created
    created.gate.set()


@pytest.fixture
def kept(source: Source, clock: Clock) -> RefreshingCache[int]:
    return RefreshingCache("it", source.fetch, lifetime=100, pause=10, timeout=20)


def wait_for_end(source: Source, kept: RefreshingCache[int]) -> None:
    """Wait for the running fetch."""
    flight = kept._attempt
    source.gate.set()
    assert flight is None or flight.has_ended.wait(30)


def more_than(number: int) -> Callable[[int], bool]:
    return lambda known: known > number


def test_a_document_is_fetched_once_and_cached(kept: RefreshingCache[int], source: Source, clock: Clock) -> None:
    assert (source.asked, kept.known) == (0, None)
    for _ in range(5):
        assert kept.get() == 1
    clock.now += 99.9
    assert kept.get() == 1
    assert (source.asked, source.before, kept.known) == (1, [None], 1)


def test_an_old_document_is_used_while_a_newer_one_is_fetched(
    kept: RefreshingCache[int], source: Source, clock: Clock
) -> None:
    assert kept.get() == 1
    clock.now += 100
    source.gate.clear()
    for _ in range(5):
        assert kept.get() == 1  # without waiting
    wait_for_end(source, kept)
    assert kept.get() == 2
    assert source.before == [None, 1]


def test_a_very_old_document_is_fetched_before_use(kept: RefreshingCache[int], clock: Clock) -> None:
    assert kept.get() == 1
    clock.now += 200
    assert kept.get() == 2


def test_a_very_old_document_is_used_when_the_fetch_fails(
    kept: RefreshingCache[int], source: Source, clock: Clock
) -> None:
    assert kept.get() == 1
    clock.now += 100_000
    source.fails = True
    assert [kept.get() for _ in range(5)] == [1] * 5
    assert source.asked == 2  # one attempt per pause
    clock.now += 10
    source.fails = False
    assert kept.get() == 3


def test_an_insufficient_document_is_fetched_once_per_pause(
    kept: RefreshingCache[int], source: Source, clock: Clock
) -> None:
    assert kept.get() == 1
    for _ in range(5):
        with pytest.raises(ProviderUnavailable):  # whether a newer one exists is unknown
            kept.get(more_than(1))
    assert (source.asked, kept.get()) == (1, 1)
    clock.now += 10
    assert kept.get(more_than(1)) == 2
    clock.now += 10
    assert kept.get(more_than(7)) == 3  # it was fetched, and is still not sufficient
    with pytest.raises(ProviderUnavailable):
        kept.get(more_than(7))
    assert source.asked == 3


def test_the_cause_behind_a_failure_stays_hidden(kept: RefreshingCache[int], source: Source, clock: Clock) -> None:
    assert kept.get() == 1
    clock.now += 10
    source.fails = True
    for _ in range(3):
        with pytest.raises(ProviderUnavailable) as refused:
            kept.get(more_than(1))
        assert refused.value.reason == "it: away"
    assert kept.get() == 1
    assert source.asked == 2


def test_a_first_failure_is_not_tried_again_at_once(kept: RefreshingCache[int], source: Source, clock: Clock) -> None:
    source.fails = True
    for _ in range(3):
        with pytest.raises(ProviderUnavailable):
            kept.get()
    assert source.asked == 1
    clock.now += 10
    source.fails = False
    assert kept.get() == 2


def test_a_fetch_that_breaks_is_a_failure(clock: Clock) -> None:
    def broken(_: int | None) -> int:
        raise KeyError("jwks")

    kept: RefreshingCache[int] = RefreshingCache("it", broken, lifetime=100, pause=10, timeout=20)
    with pytest.raises(ProviderUnavailable) as refused:
        kept.get()
    assert refused.value.reason == "it: KeyError"


def test_the_late_result_of_an_abandoned_fetch_is_ignored(
    kept: RefreshingCache[int], source: Source, clock: Clock
) -> None:
    assert kept.get() == 1
    clock.now += 150
    source.gate.clear()
    assert kept.get() == 1
    given_up = kept._attempt
    clock.now += 20 + 10  # its timeout, and the pause after it
    assert kept.get() == 1
    latest = kept._attempt
    assert given_up is not None
    assert latest not in {None, given_up}
    source.gate.set()
    assert given_up.has_ended.wait(30)
    assert latest is None or latest.has_ended.wait(30)
    assert kept.get() == 3


def test_the_pause_begins_when_a_failure_ends(kept: RefreshingCache[int], source: Source, clock: Clock) -> None:
    assert kept.get() == 1
    clock.now += 150
    source.gate.clear()
    assert kept.get() == 1
    for seconds in (20, 9.9):  # its timeout, and most of the pause after it
        clock.now += seconds
        with pytest.raises(ProviderUnavailable) as refused:
            kept.get(more_than(1))
        assert (refused.value.reason, source.asked) == ("it: it did not respond in time", 2)
    source.gate.set()
    clock.now += 0.1
    assert kept.get(more_than(1)) == 3


def test_the_pause_begins_when_a_failure_lands(kept: RefreshingCache[int], source: Source, clock: Clock) -> None:
    assert kept.get() == 1
    clock.now += 150
    source.gate.clear()
    source.fails = True
    assert kept.get() == 1
    clock.now += 15
    wait_for_end(source, kept)
    source.fails = False
    with pytest.raises(ProviderUnavailable):
        kept.get(more_than(1))
    assert source.asked == 2
    clock.now += 10
    assert kept.get(more_than(1)) == 3
