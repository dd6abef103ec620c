"""Health checks run rarely, one at a time, and never block for long."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone

import pytest
from django.http import HttpRequest

from management import health as module
from management.health import HealthCheck, ServiceHealth
from tasks.runtime import runs
from tasks.runtime.runs import run_job
from tasks.runtime.status import JobStatus


class CountingCheck(HealthCheck):
    """A check that ends when `may_end` is set."""

    def __init__(self, frequency: float) -> None:
        super().__init__("write_pool", frequency)
        self.runs, self.may_end = 0, threading.Event()

    def _check(self) -> ServiceHealth:
        self.runs += 1
        self.may_end.wait()
        return ServiceHealth("write_pool", "ok", 1)


class Clock:
    """A stopped clock; waiting for a check with `Wait` takes the whole timeout."""

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


def test_a_check_runs_at_most_once_per_frequency(clock: Clock) -> None:
    check = CountingCheck(frequency=10)
    check.may_end.set()
    for _ in range(50):
        assert check.health().status == "ok"
    assert check.runs == 1
    clock.now = 9.9
    check.health()
    assert check.runs == 1
    clock.now = 10.0
    check.health()
    assert check.runs == 2


def test_concurrent_requests_share_one_check(clock: Clock) -> None:
    check = CountingCheck(frequency=60)
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(check.health().status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert not seen
    check.may_end.set()
    for thread in threads:
        thread.join()
    assert seen == ["ok"] * 20
    assert check.runs == 1


def test_a_check_that_blocks_is_unknown_after_the_timeout(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    class Wait(Future[ServiceHealth]):
        def result(self, timeout: float | None = None) -> ServiceHealth:
            assert timeout is not None
            clock.now += timeout
            raise NotDone

    monkeypatch.setattr(module, "Future", Wait)
    check = CountingCheck(frequency=0.01)
    assert [check.health().status for _ in range(10)] == ["unknown"] * 10
    assert clock.now == module.CHECK_SECONDS  # for all ten together
    assert check.runs == 1
    check.may_end.set()


@pytest.mark.parametrize(
    ("services", "is_stopping", "reasons"),
    [
        ([("write_pool", "ok", 0), ("read_pool", "ok", 0)], False, []),
        (
            [("write_pool", "ok", 2), ("read_pool", "ok", 0)],
            False,
            ["write_pool lacks 2 migrations: manage.py migrate"],
        ),
        ([("write_pool", "ok", 0), ("read_pool", "error", 0)], False, ["read_pool does not respond"]),
        ([("write_pool", "unknown", 0)], True, ["the server is stopping", "write_pool does not respond"]),
    ],
)
def test_readiness(
    monkeypatch: pytest.MonkeyPatch, services: list[tuple[str, str, int]], is_stopping: bool, reasons: list[str]
) -> None:
    class FixedCheck:
        def __init__(self, name: str, status: str, missing: int) -> None:
            self._fixed = ServiceHealth(name, status, 1, missing)

        def health(self) -> ServiceHealth:
            return self._fixed

    monkeypatch.setattr(module, "_database_checks", lambda: [FixedCheck(*service) for service in services])
    request = HttpRequest()
    request.method, request.META = "GET", {"icekeeper.is_stopping": is_stopping}
    response = module.ready(request)
    expected = {"status": "not ready", "reasons": reasons} if reasons else {"status": "ready"}
    assert (response.status_code, json.loads(response.content)) == (503 if reasons else 200, expected)
    assert module.live(request).status_code == 200


def test_health_is_that_of_the_first_service_that_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    body = module._health_body([ServiceHealth("write_pool", "ok", 1), ServiceHealth("read_pool", "unknown", 2)])
    databases = [
        {"name": "write_pool", "lastCheck": 1, "status": "ok"},
        {"name": "read_pool", "lastCheck": 2, "status": "unknown"},
    ]
    assert body == {
        "health": "unknown",
        "services": {"catalog": databases, "secrets": databases, "auth": []},
        "maintenance_mode": "off",
    }


@pytest.mark.parametrize(
    ("header", "more"),
    [
        (None, set()),
        ("false", set()),
        ("x", set()),
        ("true", {"authentication", "jobs"}),
        ("True", {"authentication", "jobs"}),
    ],
)
def test_health_has_the_members_of_lakekeeper(
    monkeypatch: pytest.MonkeyPatch, header: str | None, more: set[str]
) -> None:
    """Strict clients fail on other members."""
    monkeypatch.setattr(module, "_database_checks", list)
    monkeypatch.setattr(module, "_authorization_checks", list)
    monkeypatch.setattr(module, "_list_jobs", list)
    request = HttpRequest()
    request.method, request.META = "GET", {} if header is None else {"HTTP_X_ICEKEEPER_EXTENSIONS": header}
    body = json.loads(module.health(request).content)
    assert set(body) == {"health", "services", "maintenance_mode"} | more
    assert set(body["services"]) == {"catalog", "secrets", "auth"}


def test_health_lists_the_last_runs_of_jobs_without_messages_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    class FixedCheck(module.WorkerJobsCheck):
        def health(self) -> ServiceHealth:
            self.jobs = [JobStatus("old-tokens", "unknown", None, None, "")]
            return ServiceHealth("jobs", "error", 1)

    def fail() -> None:
        raise RuntimeError("password=secret")

    monkeypatch.setattr(module, "_database_checks", list)
    monkeypatch.setattr(module, "_authorization_checks", list)
    monkeypatch.setattr(module, "_worker_jobs_check", lambda: FixedCheck("jobs", 10))
    monkeypatch.setattr(runs, "_last_runs", {})
    monkeypatch.setattr(runs, "job_ended", lambda *_, **__: None)
    run_job("token-uses", fail)
    run_job("audit-records", lambda: None)
    request = HttpRequest()
    request.method, request.META = "GET", {"HTTP_X_ICEKEEPER_EXTENSIONS": "true"}
    response = module.health(request)
    jobs = {job.pop("name"): job for job in json.loads(response.content)["jobs"]}
    assert response.status_code == 200, "a failing job is no failing service"
    never = {"status": "unknown", "lastRun": None, "durationMs": None, "lastError": None}
    assert jobs["old-tokens"] == jobs["permission-epoch"] == never
    failed, succeeded = jobs["token-uses"], jobs["audit-records"]
    assert (failed["status"], failed["lastError"]) == ("error", "RuntimeError")
    assert (succeeded["status"], succeeded["lastError"]) == ("ok", None)
    assert all(job["durationMs"] >= 0 and job["lastRun"] > 1.7e12 for job in (failed, succeeded))
    assert b"password" not in response.content
