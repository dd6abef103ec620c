"""Renewal of expiring keys that many threads request at the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request_context import deadline
from storage.errors import StoreUnavailable
from storage.identity.keys import RefreshingValue

SECONDS = 10


@dataclass(frozen=True)
class Token:
    number: int
    expires_at: datetime | None


class SlowIssuer:
    """An issuer that sets `asked` when it is called and waits for `may_continue`; once set, it does not wait again."""

    def __init__(self, *lives: float | None) -> None:
        self._lives = list(lives)
        self.asked, self.may_continue = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> Token:
        self.calls += 1
        self.asked.set()
        assert self.may_continue.wait(SECONDS)
        life = self._lives.pop(0)
        if life is None:
            raise StoreUnavailable(f"attempt {self.calls}")
        return Token(self.calls, now() + timedelta(seconds=life))


def waiting(pool: ThreadPoolExecutor, renewed: RefreshingValue[Token], threads: int) -> list[Future[Token]]:
    """Return futures of threads that have begun to request the value; they cannot be seen waiting for the lock."""
    begun = threading.Barrier(threads + 1)

    def ask() -> Token:
        begun.wait(SECONDS)
        return renewed.current()

    asking = [pool.submit(ask) for _ in range(threads)]
    begun.wait(SECONDS)
    threading.Event().wait(0.1)
    return asking


def test_one_request_serves_all_threads() -> None:
    issuer = SlowIssuer(3600.0)
    with ThreadPoolExecutor(8) as pool:
        asking = waiting(pool, RefreshingValue(issuer), 8)
        issuer.may_continue.set()
        assert {each.result(SECONDS).number for each in asking} == {1}


def test_no_request_waits_for_a_renewal_while_the_old_one_is_valid() -> None:
    issuer = SlowIssuer(2.0, 3600.0)
    issuer.may_continue.set()
    renewed = RefreshingValue(issuer)
    assert renewed.current().number == 1
    issuer.may_continue.clear()
    issuer.asked.clear()
    threading.Event().wait(1.65)  # at 0.8 of the lifetime
    with ThreadPoolExecutor(1) as pool:
        renewing = pool.submit(renewed.current)
        assert issuer.asked.wait(SECONDS)
        assert renewed.current().number == 1
        issuer.may_continue.set()
        assert renewing.result(SECONDS).number == 2
    assert (renewed.current().number, issuer.calls) == (2, 2)


def test_who_waited_in_vain_does_not_ask_again() -> None:
    issuer = SlowIssuer(None, 3600.0)
    renewed = RefreshingValue(issuer)
    with ThreadPoolExecutor(8) as pool:
        asking = waiting(pool, renewed, 8)
        issuer.may_continue.set()
        failures = [each.exception(SECONDS) for each in asking]
    assert {str(failure) for failure in failures} == {"attempt 1"}
    assert len({id(failure) for failure in failures}) == 8, "each thread has a traceback of its own"
    assert issuer.calls == 1
    assert renewed.current().number == 2


@pytest.mark.django_db  # waiting code closes its database connection
def test_who_waits_for_another_has_no_more_time_than_its_request() -> None:
    issuer = SlowIssuer(3600.0)
    renewed = RefreshingValue(issuer)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(renewed.current)
        assert issuer.asked.wait(SECONDS)
        with deadline(time.monotonic() + 0.2), pytest.raises(RequestTimeout):
            renewed.current()
        issuer.may_continue.set()
        assert first.result(SECONDS).number == 1
