"""The task loop: failed tasks are retried, interrupted ones are returned to the queue, and no error stops the loop."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalog.models import IdempotencyRecord, LocationClaim
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from icekeeper.logs import JsonFormatter
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from tasks.models import Task, TaskQueueConfig
from tasks.queue.cleanup import delete_ended_tasks
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.models import Project
from tenancy.services.project_tasks import schedule_project_tasks
from tenancy.services.projects import create_project, delete_project
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def worker() -> Worker:
    return Worker(poll_interval=60)


@pytest.fixture
def purged(catalog: ApiClient, create_table: Callable[..., Any]) -> Path:
    """The folder of a table that was dropped with purge."""
    folder = Path(create_table()["metadata"]["location"].removeprefix("file://"))
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    assert folder.exists()
    return folder


def test_an_empty_queue(worker: Worker) -> None:
    assert worker.work() is False


def test_a_purge_is_done_and_logged(worker: Worker, purged: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = Task.objects.live().get()
    with caplog.at_level(logging.INFO, "icekeeper.tasks"):
        assert worker.work() is True
    assert not purged.exists()
    assert not Task.objects.live().exists()
    assert not LocationClaim.objects.exists()
    deleted, done = (json.loads(JsonFormatter().format(record)) for record in caplog.records)
    assert (deleted["message"], deleted["location"], deleted["task"]) == (
        "files are deleted", f"file://{purged}", str(task.pk)
    )  # fmt: skip
    assert done["message"] == "task done"
    assert (done["task"], done["queue"], done["warehouse"], done["entity"], done["attempt"]) == (
        str(task.pk), "tabular_purge", str(task.warehouse_id), str(task.entity_id), 1
    )  # fmt: skip
    assert done["duration_ms"] >= 0


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (StoreUnavailable("The local store failed: Permission denied"), "The local store failed: Permission denied"),
        (ZeroDivisionError("a bug"), "ZeroDivisionError: a bug"),
    ],
)
def test_a_failure_is_kept_and_tried_again(
    worker: Worker, purged: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reported: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_below", fail)
        assert worker.work() is True
    task = Task.objects.live().get()
    assert (task.status, task.attempt, task.message, task.leased_until) == ("scheduled", 1, reported, None)
    assert task.scheduled_for > now()
    assert LocationClaim.objects.count() == 1, "the location stays claimed"
    assert worker.work() is False
    Task.objects.live().update(scheduled_for=now())
    assert worker.work() is True
    assert not purged.exists()
    assert not Task.objects.live().exists()


def test_a_stop_gives_the_task_back(worker: Worker, purged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_below = LocalStore.delete_below

    def stop_first(store: LocalStore, location: str, checkpoint: Callable[[], object], *counted: Any) -> None:
        worker.stop()
        delete_below(store, location, checkpoint, *counted)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_below", stop_first)
        worker.work()
    assert purged.exists()
    assert Task.objects.live().get().status == "scheduled"
    assert Worker(poll_interval=60).work() is True
    assert not purged.exists()


def test_a_worker_that_stops_claims_nothing_more(worker: Worker, purged: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        worker.stop()  # after the loop has looked whether it is to stop
        worker.start_due_tasks(pool)
    assert [(task.status, task.attempt) for task in Task.objects.live()] == [("scheduled", 0)]
    assert purged.exists()


def test_a_worker_without_its_parent_stops(purged: Path) -> None:
    Worker(poll_interval=60, parent=1_000_000_000).work()
    assert Task.objects.live().get().status == "scheduled"
    assert purged.exists()
    Worker(poll_interval=3600, parent=1_000_000_000).run()  # returns


def test_a_signal_wakes_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(poll_interval=3600)

    def stop(_: object) -> float:
        worker.stop()
        return 3600

    monkeypatch.setattr(worker, "start_due_tasks", stop)
    worker.run()  # returns
    assert worker.is_stopping


def test_the_loop_survives_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from tasks.workers import worker as module

    monkeypatch.setattr(module, "PAUSE_AFTER_ERROR", 0.0)
    worker = Worker(poll_interval=3600)
    responses: list[Any] = [OperationalError("away"), ValueError("odd"), 0.0]

    def start(_: object) -> float:
        response = responses.pop(0)
        if isinstance(response, Exception):
            raise response
        worker.stop()
        return 0.0

    monkeypatch.setattr(worker, "start_due_tasks", start)
    worker.run()
    assert responses == []


def test_old_results_are_deleted(bootstrapped: None) -> None:
    for age in (0, 1000, *[10_000] * 10):
        IdempotencyRecord.objects.create(
            warehouse_id=new_id(), key=new_id(), fingerprint=b"", status=200, response="{}",
            created_at=now() - timedelta(seconds=age),
        )  # fmt: skip
    Worker(poll_interval=60).run_once()
    assert IdempotencyRecord.objects.count() == 2


def test_a_worker_can_be_limited_to_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    command, seen = "management.management.commands.worker", []
    monkeypatch.setattr(f"{command}.check_databases", lambda: None)
    monkeypatch.setattr(f"{command}.run_worker", lambda **options: seen.append(options))
    call_command("worker", "--once", "--queue", "tabular_purge")
    call_command("worker")
    assert seen == [{"once": True, "queues": ["tabular_purge"]}, {"once": False, "queues": None}]
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("worker", "--once", "--queue", "event_delivery")


def test_ended_tasks_are_deleted_after_the_retention_of_their_project(bootstrapped: None) -> None:
    create_project(actor=INTERNAL, name="p", project_id="p")
    create_project(actor=INTERNAL, name="q", project_id="q")
    for project, age, finished in (("p", 91, True), ("p", 89, True), ("q", 3, True), ("q", 300, False)):
        at = now() - timedelta(days=age)
        ended = {"status": "success", "finished_at": at} if finished else {}
        later = {"scheduled_for": now() + timedelta(days=1), "created_at": at}
        Task.objects.create(queue="tabular_purge", project_id=project, entity_id=new_id(), **later, **ended)
    config = {"retention-period": "P2D", "cleanup-period": "P3D"}
    TaskQueueConfig.objects.create(queue="task_log_cleanup", project_id="q", config=config)
    schedule_project_tasks(actor=INTERNAL)
    schedule_project_tasks(actor=INTERNAL)
    assert Task.objects.filter(queue="task_log_cleanup").count() == Project.objects.count()
    worker = Worker(poll_interval=60)
    while worker.work():
        pass
    purges = Task.objects.filter(queue="tabular_purge")
    assert sorted(purges.values_list("project_id", "status")) == [("p", "success"), ("q", "scheduled")]
    done, following = Task.objects.filter(queue="task_log_cleanup", project_id="q").order_by("created_at")
    assert (done.status, done.execution_details) == ("success", {"deleted-tasks": 1})
    assert timedelta(days=2.9) < following.scheduled_for - now() <= timedelta(days=3)


def test_successful_statistics_are_deleted_after_a_week(bootstrapped: None) -> None:
    project_id = Project.objects.get().pk
    for queue, days, status in (
        ("statistics", 8, "success"),
        ("statistics", 8, "failed"),
        ("statistics", 6, "success"),
        ("tabular_purge", 8, "success"),
    ):
        at = now() - timedelta(days=days)
        Task.objects.create(queue=queue, project_id=project_id, entity_type="project", status=status, finished_at=at)
    assert delete_ended_tasks(Task.objects.all(), project_id, lambda: None) == 1
    kept = Task.objects.order_by("queue", "finished_at").values_list("queue", "status")
    assert list(kept) == [("statistics", "failed"), ("statistics", "success"), ("tabular_purge", "success")]
    TaskQueueConfig.objects.create(queue="task_log_cleanup", project_id=project_id, config={"retention-period": "P1D"})
    assert delete_ended_tasks(Task.objects.all(), project_id, lambda: None) == 3


def test_tasks_of_deleted_projects_are_deleted(bootstrapped: None) -> None:
    create_project(actor=INTERNAL, name="p", project_id="p")
    schedule_project_tasks(actor=INTERNAL)
    ended = {"status": "success", "finished_at": now() - timedelta(days=91)}
    Task.objects.create(queue="tabular_purge", project_id="p", warehouse_id=new_id(), entity_id=new_id(), **ended)
    TaskQueueConfig.objects.create(queue="task_log_cleanup", project_id="p", config={"retention-period": "P2D"})
    delete_project(actor=INTERNAL, project_id="p")
    assert not TaskQueueConfig.objects.exists()
    assert list(Task.objects.filter(project_id="p").values_list("queue", flat=True)) == ["tabular_purge"]
    # One that ran during the deletion has enqueued the next one.
    following = Task.objects.create(queue="task_log_cleanup", project_id="p", entity_type="project")
    assert schedule_project_tasks(actor=INTERNAL) == 1
    assert list(Task.objects.filter(project_id="p").values_list("pk", "status")) == [(following.pk, "cancelled")]
