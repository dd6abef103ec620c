"""The health check asks seldom, one at a time, and never hangs."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from management.api import health as module
from management.api.health import DatabaseHealth, ServiceHealth


class Counting(DatabaseHealth):
    """Instead of a database: an answer that takes `seconds`."""

    def __init__(self, seconds: float, frequency: float) -> None:
        super().__init__("default", frequency)
        self.seconds, self.asked = seconds, 0

    def _check(self, outcome: Any) -> None:
        self.asked += 1
        time.sleep(self.seconds)
        outcome.set_result(ServiceHealth("write_pool", "ok", 1))


def test_the_database_is_asked_at_most_so_often() -> None:
    health = Counting(0, frequency=0.3)
    for _ in range(50):
        assert health.look().status == "ok"
    assert health.asked == 1
    time.sleep(0.35)
    health.look()
    assert health.asked == 2


def test_many_askers_share_one_check() -> None:
    health = Counting(0.2, frequency=60)
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(health.look().status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["ok"] * 20
    assert health.asked == 1


def test_a_database_that_hangs_is_unknown_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.2)
    health = Counting(2, frequency=0.01)
    began = time.monotonic()
    assert [health.look().status for _ in range(10)] == ["unknown"] * 10
    assert time.monotonic() - began < 0.5
    assert health.asked == 1
