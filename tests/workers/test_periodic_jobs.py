"""Periodic jobs of workers: each is due once in its interval, whichever worker runs it, and one of a dead worker."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from icekeeper.kernel.clock import now
from tasks.models import PeriodicJob
from tasks.runtime import claims, jobs, runs, worker_jobs
from tasks.runtime.claims import LEASE_SECONDS, claim_due_jobs, extend_claims, finish_claim, seconds_until_due
from tasks.runtime.jobs import HOUR, Job, Where, jobs_of_server_processes, jobs_of_workers
from tasks.runtime.scheduler import Scheduler
from tasks.runtime.status import worker_job_statuses
from tasks.runtime.worker_jobs import next_run, run_due_jobs
from tenancy.actor import INTERNAL
from tests.harness.statement_counts import counting
from tests.workers.wait_fixtures import until

pytestmark = pytest.mark.both_databases

NAMES = ("a", "b")
in_transactions = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def worker_job(name: str, every: float = HOUR, **fields: Any) -> Job:
    return Job(name=name, run=name, every=every, where=Where.ONE_WORKER, **fields)


def create(**next_runs: timedelta) -> None:
    """Create rows of jobs, due that long after now."""
    for name, due_in in next_runs.items():
        PeriodicJob.objects.create(name=name, next_run_at=now() + due_in)


def row(name: str) -> PeriodicJob:
    return PeriodicJob.objects.get(name=name)


def expire_lease(name: str) -> None:
    assert PeriodicJob.objects.filter(name=name).update(leased_until=Now() - timedelta(seconds=1))


# --- the registry -----------------------------------------------------------------------------------------------------


def test_each_job_can_be_resolved() -> None:
    names = [job.name for job in settings.PERIODIC_JOBS]
    assert len(set(names)) == len(names)
    for job in settings.PERIODIC_JOBS:
        assert callable(job.resolve())
        assert job.interval() > 0
        assert job.at_stop is None or callable(job.resolve_at_stop())
        assert isinstance(job.is_needed(), bool)


def test_which_process_runs_which_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = ["maintenance-switch", "permission-epoch", "endpoint-statistics", "token-uses", "audit-records"]
    assert [job.name for job in jobs_of_server_processes()] == servers
    assert {job.where for job in jobs_of_workers()} == {Where.ONE_WORKER}
    assert "openfga-delivery-by-worker" not in {job.name for job in jobs_of_workers()}
    chosen = settings.ICEKEEPER.model_copy(update={"authz_backend": "openfga"})
    monkeypatch.setattr(settings, "ICEKEEPER", chosen)
    assert [job.name for job in jobs_of_server_processes()] == [*servers, "openfga-delivery"]
    assert "openfga-delivery-by-worker" in {job.name for job in jobs_of_workers()}


def test_what_runs_in_maintenance_mode_only_reads() -> None:
    reading = {job.name for job in settings.PERIODIC_JOBS if job.runs_in_maintenance}
    assert reading == {"maintenance-switch", "permission-epoch"} == {
        job.name for job in settings.PERIODIC_JOBS if job.is_quick
    }  # fmt: skip


def test_when_a_job_is_due_again() -> None:
    started_at = datetime(2026, 3, 1, 8, 59, 29, tzinfo=UTC)
    assert next_run(worker_job("a"), started_at, 0) == started_at + timedelta(hours=1)
    before_the_hour = worker_job("a", offset=-30.0)
    at_the_end = datetime(2026, 3, 1, 8, 59, 30, tzinfo=UTC)
    assert next_run(before_the_hour, started_at, 0) == at_the_end
    assert next_run(before_the_hour, at_the_end, 0) == at_the_end + timedelta(hours=1)
    for failures, least, most in ((1, 30, 60), (2, 60, 120), (20, 1800, 3600)):
        pause = (next_run(before_the_hour, started_at, failures) - started_at).total_seconds()
        assert least <= pause <= most
    assert (next_run(worker_job("a", every=10.0), started_at, 1) - started_at).total_seconds() <= 10


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_job_without_a_row_gets_one_and_is_due() -> None:
    assert claim_due_jobs(NAMES) == []
    assert seconds_until_due(NAMES) == {"a": 0, "b": 0}
    assert seconds_until_due(NAMES) == {"a": 0, "b": 0}
    assert [(each.name, each.run) for each in claim_due_jobs(NAMES)] == [("a", 1), ("b", 1)]


@pytest.mark.django_db
def test_only_what_is_due_is_claimed_and_only_once() -> None:
    create(a=timedelta(seconds=-1), b=timedelta(hours=1), other=timedelta(seconds=-1))
    before = now()
    [claim] = claim_due_jobs(NAMES)
    assert (claim.name, claim.run) == ("a", 1)
    assert abs(claim.started_at - before) < timedelta(minutes=1)
    found = row("a")
    assert (found.runs, found.last_started_at, found.last_finished_at) == (1, claim.started_at, None)
    assert found.leased_until is not None
    assert abs(found.leased_until - claim.started_at - timedelta(seconds=LEASE_SECONDS)) < timedelta(seconds=1)
    assert claim_due_jobs(NAMES) == []
    pauses = seconds_until_due(NAMES)
    assert LEASE_SECONDS - 60 < pauses["a"] <= LEASE_SECONDS + 1
    assert 3500 < pauses["b"] <= 3600
    assert row("other").runs == 0


@pytest.mark.django_db
def test_the_end_of_a_run_is_recorded() -> None:
    create(a=timedelta(seconds=-1))
    [claim] = claim_due_jobs(NAMES)
    next_run_at = claim.started_at + timedelta(hours=1)
    assert finish_claim(claim, next_run_at=next_run_at, seconds=1.5, error="no luck") is True
    found = row("a")
    assert found.last_finished_at is not None
    assert (found.next_run_at, found.leased_until, found.last_duration, found.last_error, found.runs) == (
        next_run_at, None, 1.5, "no luck", 1,
    )  # fmt: skip
    assert claim_due_jobs(NAMES) == []
    assert finish_claim(claim, next_run_at=now(), seconds=0, error="") is False, "it has ended"


@pytest.mark.django_db
def test_a_job_of_a_dead_worker_is_taken_over_when_its_lease_expires() -> None:
    create(a=timedelta(seconds=-1))
    [dead] = claim_due_jobs(NAMES)
    assert claim_due_jobs(NAMES) == []
    expire_lease("a")
    [heir] = claim_due_jobs(NAMES)
    assert heir.run == 2
    extend_claims([dead])
    assert finish_claim(dead, next_run_at=now() + timedelta(days=1), seconds=1, error="late") is False
    assert (row("a").last_error, row("a").leased_until is None) == ("", False)
    assert finish_claim(heir, next_run_at=now() + timedelta(hours=1), seconds=1, error="") is True


@pytest.mark.django_db
def test_a_lease_is_extended() -> None:
    create(a=timedelta(seconds=-1), b=timedelta(seconds=-1))
    both = claim_due_jobs(NAMES)
    PeriodicJob.objects.update(leased_until=Now() + timedelta(seconds=1))
    extend_claims(both)
    assert min(seconds_until_due(NAMES).values()) > LEASE_SECONDS - 60


@in_transactions
def test_many_workers_claim_each_job_once() -> None:
    names = [f"job {number}" for number in range(10)]
    seconds_until_due(names)

    def claim(_: int) -> list[str]:
        try:
            return [each.name for each in claim_due_jobs(names)]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        claimed = [name for found in pool.map(claim, range(24)) for name in found]
    claimed += [each.name for each in claim_due_jobs(names)]  # rows that all of them skipped as locked
    assert sorted(claimed) == sorted(names)


# --- a worker ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of jobs by name."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(jobs, "_resolve", found.__getitem__)
    monkeypatch.setattr(runs, "_last_runs", {})
    return found


@pytest.mark.django_db
def test_one_pass_runs_what_is_due(functions: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    ran: list[object] = []

    def fail(*, actor: object) -> None:
        raise RuntimeError("no luck")

    functions |= {"a": fail, "b": lambda *, actor: ran.append(actor), "c": lambda *, actor: ran.append("never")}
    create(c=timedelta(hours=1))
    for _ in range(2):
        run_due_jobs([worker_job(name) for name in "abc"], actor="me", checkpoint=lambda: None)
    assert ran == ["me"]
    assert [record.getMessage() for record in caplog.records] == ["job a failed: RuntimeError: no luck"]
    assert [(each.name, each.runs, each.last_error) for each in PeriodicJob.objects.order_by("name")] == [
        ("a", 1, "RuntimeError: no luck"), ("b", 1, ""), ("c", 0, ""),
    ]  # fmt: skip
    assert 20 < (row("a").next_run_at - now()).total_seconds() <= 60
    assert 3500 < (row("b").next_run_at - now()).total_seconds() <= 3600


@pytest.mark.django_db
def test_a_checkpoint_ends_a_pass(functions: dict[str, Any]) -> None:
    functions |= {"a": lambda *, actor: None, "b": lambda *, actor: None}
    left = [True] * 2

    def checkpoint() -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()

    with pytest.raises(KeyboardInterrupt):
        run_due_jobs([worker_job(name) for name in NAMES], actor=None, checkpoint=checkpoint)
    assert (row("a").runs, row("a").leased_until, row("b").runs) == (1, None, 0)


@in_transactions
def test_a_worker_runs_due_jobs_and_knows_when_they_are_due(functions: dict[str, Any]) -> None:
    ran: list[tuple[str, object]] = []
    functions |= {name: lambda *, actor, name=name: ran.append((name, actor)) for name in NAMES}
    scheduler = Scheduler([worker_job("a"), worker_job("b", every=0.2)], actor="me")
    scheduler.start()
    until(lambda: len([name for name, _ in ran if name == "b"]) >= 3)
    scheduler.stop()
    assert ran.count(("a", "me")) == 1
    assert {actor for _, actor in ran} == {"me"}
    assert row("a").leased_until is None
    assert row("b").runs == ran.count(("b", "me"))


@in_transactions
def test_an_idle_worker_asks_only_when_a_job_is_due(functions: dict[str, Any]) -> None:
    """A pass costs a claim and an end for each job; until the next one the database is not asked."""
    functions |= {"a": lambda *, actor: None, "b": lambda *, actor: None}
    at = [0.0]
    scheduler = Scheduler([worker_job(name) for name in NAMES], clock=lambda: at[0])
    seconds_until_due(NAMES)
    scheduler.schedule()
    timers = scheduler._timers
    timers.run_due()
    until(lambda: row("a").last_finished_at and row("b").last_finished_at and not timers._threads)
    with counting() as seen:
        for _ in range(358):
            at[0] += 10
            timers.run_due()
    assert seen["statements"] == 0
    assert [each.runs for each in PeriodicJob.objects.all()] == [1, 1]
    scheduler.stop()


@in_transactions
def test_the_jobs_of_an_idle_worker_send_few_statements(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one in two minutes, which is a twelfth of what an idle worker may send."""
    at, hours = [0.0], 12
    jobs_due_by_interval = [replace(job, offset=None) for job in jobs_of_workers()]  # the database's clock stands still
    scheduler = Scheduler(jobs_due_by_interval, actor=INTERNAL, clock=lambda: at[0])
    worker, timers = scheduler._worker_jobs, scheduler._timers
    assert worker is not None
    seconds_until_due([job.name for job in jobs_of_workers()])
    scheduler.schedule()
    monkeypatch.setattr(timers, "call_slowly", lambda call: call())  # in this thread, whose statements are counted
    with counting() as seen:
        while at[0] < hours * HOUR:
            timers.run_due()
            passed = worker._next_look - at[0]
            at[0] += passed
            before = seen["statements"]
            PeriodicJob.objects.update(next_run_at=F("next_run_at") - timedelta(seconds=passed))
            seen["statements"] = before
    assert all(row.runs > 1 for row in PeriodicJob.objects.all())
    assert seen["statements"] / hours <= 30
    scheduler.stop()


@in_transactions
def test_two_workers_share_the_jobs(functions: dict[str, Any]) -> None:
    ran: list[float] = []
    functions["a"] = lambda *, actor: ran.append(1)
    workers = [Scheduler([worker_job("a")]) for _ in range(2)]
    for each in workers:
        each.start()
    until(lambda: ran)
    for each in workers:
        until(lambda each=each: each._worker_jobs is not None and each._worker_jobs._next_look < float("inf"))
    for each in workers:
        each.stop()
    assert ran == [1]
    assert row("a").runs == 1


@in_transactions
def test_a_long_run_keeps_its_lease(functions: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_jobs, "HEARTBEAT_SECONDS", 0.05)
    may_end, begun = Event(), Event()

    def take_long(*, actor: object) -> None:
        begun.set()
        assert may_end.wait(30)

    functions["a"] = take_long
    scheduler = Scheduler([worker_job("a")])
    scheduler.start()
    assert begun.wait(30)
    expire_lease("a")
    until(lambda: seconds_until_due(["a"])["a"] > 60)
    may_end.set()
    until(lambda: row("a").last_finished_at)
    scheduler.stop()
    assert row("a").runs == 1


@in_transactions
def test_while_paused_no_job_is_claimed(functions: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_jobs, "PAUSED_SECONDS", 0.01)
    ran: list[int] = []
    functions["a"] = lambda *, actor: ran.append(1)
    create(a=timedelta(seconds=-1))
    looks: list[int] = []

    def is_paused() -> bool:
        looks.append(1)
        return len(looks) < 5

    scheduler = Scheduler([worker_job("a")], is_paused=is_paused)
    scheduler.start()
    until(lambda: ran)
    scheduler.stop()
    assert len(looks) >= 5


@in_transactions
def test_claims_survive_a_database_that_is_away(
    functions: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import OperationalError

    monkeypatch.setattr(worker_jobs, "FIRST_BACKOFF_SECONDS", 0.1)
    ran: list[int] = []
    functions["a"] = lambda *, actor: ran.append(1)
    failures = [OperationalError("away"), OperationalError("away")]

    def claim(names: list[str]) -> list[claims.Claim]:
        if failures:
            raise failures.pop()
        return claim_due_jobs(names)

    monkeypatch.setattr(worker_jobs, "claim_due_jobs", claim)
    with caplog.at_level(logging.INFO, "icekeeper.jobs"):
        scheduler = Scheduler([worker_job("a")])
        scheduler.start()
        until(lambda: ran)
        scheduler.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "job claim-jobs failed: OperationalError: away", "job claim-jobs succeeds again",
    ]  # fmt: skip


# --- health -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_status_of_jobs_of_workers() -> None:
    assert {job.status for job in worker_job_statuses()} == {"unknown"}
    seconds_until_due(["old-tokens", "audit-seals", "of-another-version"])
    for claim in claim_due_jobs(["old-tokens", "audit-seals", "of-another-version"]):
        error = "OperationalError: away" if claim.name == "old-tokens" else ""
        finish_claim(claim, next_run_at=now(), seconds=1.5, error=error)
    with counting() as seen:
        found = {job.name: job for job in worker_job_statuses()}
    assert seen["statements"] == 1
    assert (found["old-tokens"].status, found["old-tokens"].error_type) == ("error", "OperationalError")
    assert (found["audit-seals"].status, found["audit-seals"].error_type) == ("ok", "")
    assert found["audit-seals"].seconds == 1.5
    assert found["audit-seals"].ended_at is not None
    assert found["project-tasks"].status == "unknown"
    assert "of-another-version" not in found
