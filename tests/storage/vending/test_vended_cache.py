"""Cache of vended credentials: lifetime, maximum number of uses, and results that are not cached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from icekeeper.kernel.errors.types import Busy, RequestTimeout
from icekeeper.kernel.request_context import deadline
from icekeeper.kernel.threads import MAX_LONG_WAITERS, MAX_SHORT_WAITERS
from storage.identity.keys import CredentialNotIssued
from storage.vending import vend as module
from storage.vending.delegation import Vended
from storage.vending.vend import CredentialCache
from tests.storage.vending.cache_metrics_fixtures import CacheNumbers, cache_numbers, reset_metrics

pytestmark = pytest.mark.django_db


class Clock:
    """A clock that advances only when it is set."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def time(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return time.monotonic()


class Issuer:
    """Issue credentials with a lifetime of `life` seconds, each with its number."""

    def __init__(self, clock: Clock, life: float = 3600) -> None:
        self.clock, self.life, self.issued = clock, life, 0

    def __call__(self) -> Vended:
        self.issued += 1
        expires_at = datetime.fromtimestamp(self.clock.at, UTC) + timedelta(seconds=self.life)
        return Vended({"number": str(self.issued)}, expires_at)


@pytest.fixture(autouse=True)
def new_metrics() -> None:
    reset_metrics()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def number(vended: Vended) -> int:
    return int(vended.config["number"])


@pytest.mark.parametrize(
    ("life", "reused"),
    [(43_200, 34_560), (3600, 2880), (1800, 1440), (1500, 1140), (900, 540), (720, 360), (600, 300), (120, 60)],
)
def test_a_credential_is_reused_for_most_of_its_lifetime(clock: Clock, life: float, reused: float) -> None:
    """Four fifths of its lifetime; short-lived ones are not reused when clients would need another at once."""
    cache, issue = CredentialCache(10, cloud="s3"), Issuer(clock, life)
    assert number(cache.get("k", issue)) == 1
    clock.at += reused - 1
    assert number(cache.get("k", issue)) == 1
    clock.at += 1
    assert number(cache.get("k", issue)) == 2
    assert cache_numbers() == CacheNumbers(size=1, hits=1, misses=2)


@pytest.mark.parametrize("life", [0, -60])
def test_expired_credentials_are_not_cached(clock: Clock, life: float) -> None:
    cache, issue = CredentialCache(10, cloud="s3"), Issuer(clock, life)
    assert [number(cache.get("k", issue)) for _ in range(2)] == [1, 2]
    assert cache_numbers() == CacheNumbers(size=0, hits=0, misses=2)


def test_the_duration_of_the_request_counts_as_lifetime(clock: Clock) -> None:
    cache, issue = CredentialCache(10, cloud="s3"), Issuer(clock, 3600)

    def slow() -> Vended:
        vended = issue()
        clock.at += 100
        return vended

    cache.get("k", slow)
    clock.at += 2880 - 100 - 1
    assert number(cache.get("k", slow)) == 1
    clock.at += 1
    assert number(cache.get("k", slow)) == 2


def test_least_recently_used_credentials_are_evicted_first(clock: Clock) -> None:
    cache, issue = CredentialCache(2, cloud="s3"), Issuer(clock)
    for key in ("a", "b", "a", "c", "a"):
        cache.get(key, issue)
    assert cache_numbers() == CacheNumbers(size=2, hits=2, misses=3)
    assert number(cache.get("b", issue)) == 4


def test_failures_are_not_kept(clock: Clock) -> None:
    cache, issue = CredentialCache(2, cloud="s3"), Issuer(clock)

    def refuse() -> Vended:
        raise CredentialNotIssued("no")

    for _ in range(2):
        with pytest.raises(CredentialNotIssued):
            cache.get("k", refuse)
    assert number(cache.get("k", issue)) == 1
    assert cache_numbers() == CacheNumbers(size=1, hits=0, misses=3)


class Gate:
    """An issuer that waits until it is opened; `began` is set by the first call."""

    def __init__(self, issue: Callable[[], Vended]) -> None:
        self.issue, self.calls = issue, 0
        self.began, self.opened = threading.Event(), threading.Event()

    def __call__(self) -> Vended:
        self.calls += 1
        self.began.set()
        assert self.opened.wait(20)
        return self.issue()


def all_waiting(misses: int) -> None:
    until = time.monotonic() + 10
    while cache_numbers().misses < misses:
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(0.05)


def test_of_many_one_asks_the_store(clock: Clock) -> None:
    cache, many = CredentialCache(10, cloud="s3"), 1 + MAX_LONG_WAITERS
    gate = Gate(Issuer(clock))
    with ThreadPoolExecutor(many + 1) as threads:
        waiting = [threads.submit(cache.get, "k", gate) for _ in range(many)]
        all_waiting(many)
        assert number(threads.submit(cache.get, "other", Issuer(clock)).result(5)) == 1, "other keys do not wait"
        gate.opened.set()
        assert {number(each.result(10)) for each in waiting} == {1}
    assert gate.calls == 1
    assert cache_numbers() == CacheNumbers(size=2, hits=0, misses=many + 1)


def test_a_failure_reaches_every_waiting_caller(clock: Clock) -> None:
    def refuse() -> Vended:
        raise CredentialNotIssued("no")

    cache, gate, many = CredentialCache(10, cloud="s3"), Gate(refuse), 1 + MAX_LONG_WAITERS
    with ThreadPoolExecutor(many) as threads:
        waiting = [threads.submit(cache.get, "k", gate) for _ in range(many)]
        all_waiting(many)
        gate.opened.set()
        assert [type(each.exception(10)) for each in waiting] == [CredentialNotIssued] * many
    assert gate.calls == 1
    assert cache_numbers().size == 0


def test_the_next_caller_continues_after_a_timeout_of_the_first(clock: Clock) -> None:
    issue = Issuer(clock)

    def late_at_first() -> Vended:
        if gate.calls == 1:
            raise RequestTimeout("too late")
        return issue()

    cache, gate = CredentialCache(10, cloud="s3"), Gate(late_at_first)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(cache.get, "k", gate)
        assert gate.began.wait(5)
        others = [threads.submit(cache.get, "k", gate) for _ in range(3)]
        all_waiting(4)
        gate.opened.set()
        assert isinstance(first.exception(10), RequestTimeout)
        assert [number(each.result(10)) for each in others] == [1, 1, 1]
    assert gate.calls == 2


def test_who_has_no_time_left_does_not_begin(clock: Clock) -> None:
    cache, issue = CredentialCache(10, cloud="s3"), Issuer(clock)
    with deadline(time.monotonic() - 1), pytest.raises(RequestTimeout):
        cache.get("k", issue)
    assert issue.issued == 0
    assert number(cache.get("k", issue)) == 1


def test_waiting_ends_with_the_time_of_the_request(clock: Clock) -> None:
    cache, gate = CredentialCache(10, cloud="s3"), Gate(Issuer(clock))
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(cache.get, "k", gate)
        assert gate.began.wait(5)
        began = time.monotonic()
        with deadline(began + 0.3), pytest.raises(RequestTimeout):
            cache.get("k", gate)
        assert time.monotonic() - began < 2
        gate.opened.set()
        assert number(first.result(10)) == 1


def test_a_flood_does_not_wait_for_a_store_that_hangs(clock: Clock) -> None:
    cache, gate, many = CredentialCache(10, cloud="s3"), Gate(Issuer(clock)), MAX_SHORT_WAITERS + MAX_LONG_WAITERS + 10
    with ThreadPoolExecutor(many) as threads:
        waiting = [threads.submit(cache.get, "k", gate) for _ in range(many)]
        until = time.monotonic() + 15
        while sum(each.done() for each in waiting) < many - 1 - MAX_LONG_WAITERS:
            assert time.monotonic() < until
            time.sleep(0.02)
        gate.opened.set()
        failed = [each.exception(10) for each in waiting]
    assert [type(each) for each in failed if each is not None] == [Busy] * (many - 1 - MAX_LONG_WAITERS)
    assert gate.calls == 1
