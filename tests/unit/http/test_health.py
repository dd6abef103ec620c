"""The health check asks seldom, one at a time, and never hangs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any

import pytest

from management.api import health as module
from management.api.health import DatabaseHealth, ServiceHealth


class Counting(DatabaseHealth):
    """Instead of a database: it answers once `may_answer` is set."""

    def __init__(self, frequency: float) -> None:
        super().__init__("default", frequency)
        self.asked, self.may_answer = 0, threading.Event()

    def _check(self, outcome: Any) -> None:
        self.asked += 1
        self.may_answer.wait()
        outcome.set_result(ServiceHealth("write_pool", "ok", 1))


class Clock:
    """Stands still but for those who wait for a check: `Wait` lets all their patience pass at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(module, "time", stopped)
    monkeypatch.setattr(module, "CHECK_SECONDS", 60.0)
    return stopped


def test_the_database_is_asked_at_most_so_often(clock: Clock) -> None:
    health = Counting(frequency=10)
    health.may_answer.set()
    for _ in range(50):
        assert health.look().status == "ok"
    assert health.asked == 1
    clock.now = 9.9
    health.look()
    assert health.asked == 1
    clock.now = 10.0
    health.look()
    assert health.asked == 2


def test_many_askers_share_one_check(clock: Clock) -> None:
    health = Counting(frequency=60)
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(health.look().status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert not seen
    health.may_answer.set()
    for thread in threads:
        thread.join()
    assert seen == ["ok"] * 20
    assert health.asked == 1


def test_a_database_that_hangs_is_unknown_soon(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    class Wait(Future[ServiceHealth]):
        def result(self, timeout: float | None = None) -> ServiceHealth:
            assert timeout is not None
            clock.now += timeout
            raise NotDone

    monkeypatch.setattr(module, "Future", Wait)
    health = Counting(frequency=0.01)
    assert [health.look().status for _ in range(10)] == ["unknown"] * 10
    assert clock.now == module.CHECK_SECONDS  # all ten together
    assert health.asked == 1
    health.may_answer.set()
