"""The health check asks seldom, one at a time, and never hangs."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from typing import Any

import pytest
from django.http import HttpRequest

from management import health as module
from management.health import DatabaseHealth, ServiceHealth


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


@pytest.mark.parametrize(
    ("services", "is_stopping", "reasons"),
    [
        ([("write_pool", "ok", 0), ("read_pool", "ok", 0)], False, []),
        (
            [("write_pool", "ok", 2), ("read_pool", "ok", 0)],
            False,
            ["write_pool lacks 2 migrations: manage.py migrate"],
        ),
        ([("write_pool", "ok", 0), ("read_pool", "error", 0)], False, ["read_pool does not answer"]),
        ([("write_pool", "unknown", 0)], True, ["the server is stopping", "write_pool does not answer"]),
    ],
)
def test_readiness(
    monkeypatch: pytest.MonkeyPatch, services: list[tuple[str, str, int]], is_stopping: bool, reasons: list[str]
) -> None:
    class Known:
        def __init__(self, name: str, status: str, lacks: int) -> None:
            self.health = ServiceHealth(name, status, 1, lacks)

        def look(self) -> ServiceHealth:
            return self.health

    monkeypatch.setattr(module, "_databases", lambda: [Known(*service) for service in services])
    request = HttpRequest()
    request.method, request.META = "GET", {"icekeeper.is_stopping": is_stopping}
    answer = module.ready(request)
    expected = {"status": "not ready", "reasons": reasons} if reasons else {"status": "ready"}
    assert (answer.status_code, json.loads(answer.content)) == (503 if reasons else 200, expected)
    assert module.live(request).status_code == 200


def test_health_tells_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    told = module._described([ServiceHealth("write_pool", "ok", 1), ServiceHealth("read_pool", "unknown", 2)])
    databases = [
        {"name": "write_pool", "lastCheck": 1, "status": "ok"},
        {"name": "read_pool", "lastCheck": 2, "status": "unknown"},
    ]
    assert told == {
        "health": "unknown",
        "services": {"catalog": databases, "secrets": databases, "auth": []},
        "maintenance_mode": "off",
    }


@pytest.mark.parametrize(
    ("header", "more"),
    [(None, set()), ("false", set()), ("x", set()), ("true", {"authentication"}), ("True", {"authentication"})],
)
def test_health_has_the_members_of_lakekeeper(
    monkeypatch: pytest.MonkeyPatch, header: str | None, more: set[str]
) -> None:
    """Strict clients fail on others."""
    monkeypatch.setattr(module, "_databases", list)
    monkeypatch.setattr(module, "_judges", list)
    request = HttpRequest()
    request.method, request.META = "GET", {} if header is None else {"HTTP_X_ICEKEEPER_EXTENSIONS": header}
    body = json.loads(module.health(request).content)
    assert set(body) == {"health", "services", "maintenance_mode"} | more
    assert set(body["services"]) == {"catalog", "secrets", "auth"}
