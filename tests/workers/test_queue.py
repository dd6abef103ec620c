"""The queue: fair claims, wake-ups, retries and dead letters, control by operators, and configuration."""

from __future__ import annotations

import select
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from pydantic import SecretStr

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import new_id
from tasks.models import NO_ID, Task, TaskAttempt, TaskQueueConfig
from tasks.queue import wake
from tasks.queue.config import (
    QUEUES,
    InvalidQueueConfig,
    QueueConfig,
    QueueNotFound,
    find_queue,
    get_queue_config,
    parse_duration,
    set_queue_config,
)
from tasks.queue.control import (
    TaskAlreadyActive,
    TaskNotFound,
    lock_and_end,
    lock_tasks,
    retry_tasks,
    run_tasks_at,
    stop_tasks,
)
from tasks.queue.enqueue import NewTask, enqueue
from tasks.queue.leases import Lease, LeaseLost, StopRequested, claim_tasks, lease_task, queue_state
from tasks.queue.leases import recover_expired_leases as recover
from tasks.queue.wake import open_listener, wake_workers
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

PURGE = Task.Queue.TABULAR_PURGE.value
WAREHOUSES = [UUID(int=number) for number in (1, 2, 3)]


def new(warehouse_id: UUID = WAREHOUSES[0], **fields: Any) -> NewTask:
    given = {"queue": PURGE, "project_id": "p", "entity_type": "table", "entity_id": new_id()} | fields
    return NewTask(warehouse_id=warehouse_id, **given)


def queue(*tasks: NewTask) -> list[UUID]:
    with transaction.atomic():
        return enqueue(tasks)


def rows(*task_ids: UUID) -> list[Task]:
    return list(Task.objects.filter(pk__in=task_ids).order_by("pk"))


def claimed(count: int, *, after: UUID = NO_ID) -> list[UUID]:
    return [lease.warehouse_id for lease in claim_tasks({PURGE: count}, after=after)]


def lease_of(task_id: UUID) -> Lease:
    lease = lease_task(task_id)
    assert lease is not None
    return lease


def expire(task_id: UUID) -> None:
    Task.objects.filter(pk=task_id).update(leased_until=now() - timedelta(seconds=1))


def test_a_server_whose_clock_is_fast_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has the clock of its server")
    later = now() + timedelta(hours=1)
    monkeypatch.setattr("tasks.queue.enqueue.now", lambda: later)
    queue(new())
    assert len(claimed(1)) == 1


def test_a_warehouse_with_many_tasks_does_not_delay_the_others() -> None:
    first, second, third = WAREHOUSES
    queue(*[new(first) for _ in range(50)])
    queue(new(second), new(third))
    assert sorted(claimed(3)) == [first, second, third]
    assert claimed(2) == [first, first]


def test_warehouses_alternate_between_claims() -> None:
    for warehouse_id in WAREHOUSES:
        queue(*[new(warehouse_id) for _ in range(3)])
    first, second, third = WAREHOUSES
    assert claimed(1) == [first]
    assert claimed(1, after=first) == [second]
    assert claimed(1, after=second) == [third]
    assert claimed(1, after=third) == [first]


def test_lower_priority_numbers_come_first_and_then_the_oldest() -> None:
    late, early = (new(scheduled_for=now() - timedelta(seconds=age)) for age in (10, 20))
    urgent = new(WAREHOUSES[2], priority=-1)
    queue(late, early, urgent)
    order = [lease.task_id for _ in range(3) for lease in claim_tasks({PURGE: 1})]
    assert order == [urgent.id, early.id, late.id]


def test_each_queue_has_its_own_limit_and_unknown_work_is_left() -> None:
    queue(*[new() for _ in range(3)])
    queue(*[new(queue=Task.Queue.SOFT_DELETION.value) for _ in range(3)])
    queue(new(queue="later_queue"), new(queue="later_queue"))
    newer = new(WAREHOUSES[1], payload_version=2)
    queue(newer)
    slots = {PURGE: 6, Task.Queue.SOFT_DELETION.value: 1, "event_delivery": 3}
    found = [lease.queue for lease in claim_tasks(slots)]
    assert sorted(found) == ["soft_deletion", *["tabular_purge"] * 3]
    assert lease_task(newer.id) is None
    assert [task.status for task in rows(newer.id)] == ["scheduled"]


def test_an_object_has_one_task_of_a_queue_until_it_has_ended() -> None:
    task = new(entity_uuid=new_id(), entity_name=["a", "b\0\ud800"], created_by="oidc~alice", payload={"a": [1]})
    assert queue(task) == [task.id]
    again = new(entity_id=task.entity_id)
    assert queue(again) == []
    [row] = rows(task.id)
    assert (row.entity_name, row.payload, row.created_by, row.entity_uuid) == (
        ["a", "b\ufffd?"], {"a": [1]}, "oidc~alice", task.entity_uuid,
    )  # fmt: skip
    lease_of(task.id).finish()
    assert queue(again) == [again.id]


def test_the_state_says_what_is_due() -> None:
    idle = queue_state([PURGE])
    assert (idle.is_due, idle.seconds_until_due, idle.has_expired_leases) == (False, None, False)
    queue(new(scheduled_for=now() + timedelta(seconds=60)), new(queue=Task.Queue.SOFT_DELETION.value))
    waiting = queue_state([PURGE])
    assert not waiting.is_due
    assert waiting.seconds_until_due is not None
    assert 50 < waiting.seconds_until_due < 61
    task = new()
    queue(task)
    assert queue_state([PURGE]).is_due
    lease_of(task.id)
    expire(task.id)
    assert queue_state([PURGE]).has_expired_leases


def test_a_failed_attempt_is_recorded_and_the_last_one_ends_the_task() -> None:
    task = new()
    queue(task)
    TaskQueueConfig.objects.create(queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], config={"max-retries": 1})
    pause = lease_of(task.id).fail("the store is down")
    assert pause is not None
    assert 2.5 <= pause <= 5
    assert lease_of(task.id).fail("still down") is None
    [row] = rows(task.id)
    assert (row.status, row.attempt, row.message, row.leased_until) == ("failed", 2, "still down", None)
    assert row.finished_at is not None
    attempts = TaskAttempt.objects.order_by("attempt").values_list("attempt", "status", "message")
    assert list(attempts) == [(1, "failed", "the store is down"), (2, "failed", "still down")]
    assert lease_task(task.id) is None


def test_a_dead_worker_s_attempt_times_out_and_counts() -> None:
    task = new()
    queue(task)
    TaskQueueConfig.objects.create(queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], config={"max-retries": 1})
    first = lease_of(task.id)
    expire(task.id)
    assert recover() == 1
    with pytest.raises(LeaseLost), transaction.atomic():
        first.finish()
    [second] = claim_tasks({PURGE: 1})
    assert second.attempt == 2
    expire(task.id)
    assert recover() == 1
    assert recover() == 0
    [row] = rows(task.id)
    assert (row.status, row.message) == ("failed", "Attempt timed out.")


def test_a_task_that_is_too_old_is_not_tried_again() -> None:
    task = new()
    queue(task)
    TaskQueueConfig.objects.create(queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], config={"max-age": "PT1H"})
    Task.objects.update(created_at=now() - timedelta(hours=2))
    assert lease_of(task.id).fail("no") is None
    assert [row.status for row in rows(task.id)] == ["failed"]


def test_a_dead_letter_can_be_retried_with_new_attempts() -> None:
    task = new()
    queue(task)
    config = TaskQueueConfig.objects.create(
        queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], config={"max-retries": 0}
    )
    assert lease_of(task.id).fail("no") is None
    assert [row.pk for row in retry_tasks(rows(task.id))] == [task.id]
    assert retry_tasks(rows(task.id)) == []
    TaskQueueConfig.objects.filter(pk=config.pk).update(config={"max-retries": 1})
    assert lease_of(task.id).fail("no") is not None
    assert lease_of(task.id).fail("no") is None
    queue(new(entity_id=task.entity_id))
    with pytest.raises(TaskAlreadyActive):
        retry_tasks(rows(task.id))


def test_a_lease_reports_progress_and_the_result_is_kept() -> None:
    task = new()
    queue(task)
    lease = lease_of(task.id)
    lease.progress, lease.execution_details = 0.5, {"files": 10}
    lease.extended_at -= 60
    lease.extend()
    [row] = rows(task.id)
    assert (row.status, row.progress, row.execution_details) == ("running", 0.5, {"files": 10})
    lease.execution_details = {"files": 20}
    lease.finish()
    [row] = rows(task.id)
    assert (row.status, row.progress, row.execution_details, row.leased_until) == ("success", 1.0, {"files": 20}, None)
    assert TaskAttempt.objects.get().execution_details == {"files": 20}


def test_a_queue_s_limit_of_the_heartbeat_is_that_of_the_lease() -> None:
    TaskQueueConfig.objects.create(
        queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], max_seconds_since_last_heartbeat=600
    )
    task, other = new(), new(WAREHOUSES[1])
    queue(task, other)
    assert [lease_of(each.id).seconds for each in (task, other)] == pytest.approx([600, 120], abs=0.01)


def test_a_stopped_attempt_ends_at_its_next_heartbeat() -> None:
    task, waiting = new(), new()
    queue(task, waiting)
    lease = lease_of(task.id)
    stop_tasks(rows(task.id, waiting.id))
    assert {row.pk: row.status for row in rows(task.id, waiting.id)} == {task.id: "stopping", waiting.id: "scheduled"}
    lease.extended_at -= 60
    with pytest.raises(StopRequested):
        lease.extend()
    lease.stop()
    [row] = rows(task.id)
    assert (row.status, row.attempts.get().status) == ("scheduled", "cancelled")
    assert timedelta(seconds=50) < row.scheduled_for - now() < timedelta(seconds=61), "time to cancel it"


@pytest.mark.parametrize("at", [None, timedelta(days=3)])
def test_a_stopping_task_stays_with_its_worker_until_it_has_ended(at: timedelta | None) -> None:
    """Two workers must never have it; the time of the next attempt is the one that was set."""
    task = new()
    queue(task)
    lease = lease_of(task.id)
    stop_tasks(rows(task.id))
    assert run_tasks_at(rows(task.id), None if at is None else now() + at)
    assert [row.status for row in rows(task.id)] == ["stopping"]
    assert claim_tasks({PURGE: 5}) == []
    assert lease_task(task.id) is None
    lease.stop()
    [row] = rows(task.id)
    assert row.status == "scheduled"
    assert abs(row.scheduled_for - (now() + (at or timedelta()))) < timedelta(seconds=5)


@pytest.mark.parametrize("end", ["fails", "dies", "is released"])
def test_a_time_that_was_set_for_a_stopping_task_is_kept_however_its_attempt_ends(end: str) -> None:
    task, later = new(), now() + timedelta(days=3)
    queue(task)
    lease = lease_of(task.id)
    stop_tasks(rows(task.id))
    run_tasks_at(rows(task.id), later)
    if end == "fails":
        lease.fail("a broken disk")
    elif end == "is released":
        lease.release()
    else:
        Task.objects.update(leased_until=now() - timedelta(seconds=1))
        assert recover() == 1
    [row] = rows(task.id)
    assert (row.status, row.scheduled_for) == ("scheduled", later)


def test_a_stop_is_no_failure() -> None:
    TaskQueueConfig.objects.create(queue=PURGE, project_id="p", warehouse_id=WAREHOUSES[0], config={"max-retries": 0})
    task = new()
    queue(task)
    for _ in range(3):
        lease = lease_task(task.id)
        assert lease is not None
        stop_tasks(rows(task.id))
        lease.stop()
    assert [row.status for row in rows(task.id)] == ["scheduled"]


def test_a_retry_is_independent_of_tasks_of_other_projects_and_types() -> None:
    cleanup = Task.Queue.TASK_LOG_CLEANUP.value
    failed = {"status": "failed", "finished_at": now()}
    Task.objects.create(queue=cleanup, project_id="other", entity_type="project")
    task = Task.objects.create(queue=cleanup, project_id="p", entity_type="project", **failed)
    assert [row.pk for row in retry_tasks(rows(task.pk))] == [task.pk]
    assert [row.status for row in rows(task.pk)] == ["scheduled"]
    again = Task.objects.create(queue=cleanup, project_id="q", entity_type="project", **failed)
    Task.objects.create(queue=cleanup, project_id="q", entity_type="project")
    with pytest.raises(TaskAlreadyActive):
        retry_tasks(rows(again.pk))
    assert [row.status for row in rows(again.pk)] == ["failed"]


def test_a_cancelled_task_cannot_be_completed() -> None:
    task, waiting, done = new(), new(), new()
    queue(task, waiting, done)
    lease_of(done.id).finish()
    lease = lease_of(task.id)
    ended = lock_and_end(rows(task.id, waiting.id, done.id))
    assert {row.pk for row in ended} == {task.id, waiting.id}
    states = {row.pk: row.status for row in rows(task.id, waiting.id, done.id)}
    assert states == {task.id: "cancelled", waiting.id: "cancelled", done.id: "success"}
    with pytest.raises(LeaseLost), transaction.atomic():
        lease.finish()
    assert lock_and_end(rows(task.id)) == []
    assert TaskAttempt.objects.filter(status="cancelled").count() == 1, "the other one had not begun"
    assert claim_tasks({PURGE: 5}) == []


def test_a_task_can_be_run_now_or_later() -> None:
    task, running = new(scheduled_for=now() + timedelta(days=1)), new()
    queue(task, running)
    lease_of(running.id)
    assert claim_tasks({PURGE: 5}) == []
    run_tasks_at(rows(task.id, running.id), None)
    assert [lease.task_id for lease in claim_tasks({PURGE: 5})] == [task.id]
    with pytest.raises(BadRequest, match="365 days"):
        run_tasks_at(rows(task.id), now() + timedelta(days=366))


def test_tasks_are_found_in_their_own_warehouse_alone() -> None:
    task = new()
    queue(task)
    assert [row.pk for row in lock_tasks([task.id, task.id], project_id="p", warehouse_id=WAREHOUSES[0])] == [task.id]
    for project, warehouse_id in (("q", WAREHOUSES[0]), ("p", WAREHOUSES[1]), ("p", NO_ID)):
        with pytest.raises(TaskNotFound):
            lock_tasks([task.id], project_id=project, warehouse_id=warehouse_id)
    with pytest.raises(BadRequest, match="at most 100"):
        lock_tasks([new_id() for _ in range(101)], project_id="p", warehouse_id=WAREHOUSES[0])


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_worker_is_woken_by_the_commit_and_not_by_a_rollback() -> None:
    listener = open_listener()
    try:
        descriptor = listener.fileno()
        assert descriptor is not None

        def is_woken(seconds: float) -> bool:
            return bool(select.select([descriptor], [], [], seconds)[0])

        with transaction.atomic():
            enqueue([new()])
            assert not is_woken(0.1)
        assert is_woken(5)
        listener.drain()
        assert not is_woken(0.1)
        with suppress(ZeroDivisionError), transaction.atomic():
            enqueue([new()])
            raise ZeroDivisionError
        assert not is_woken(0.1)
        wake_workers(PURGE)
        assert is_woken(5)
    finally:
        listener.close()


def test_a_direct_connection_keeps_the_settings_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"host": "pooler", "sslmode": "verify-full", "sslrootcert": "/ca.pem", "options": "-c x=1", "user": None}
    monkeypatch.setattr(connection, "get_connection_params", lambda: known, raising=False)
    use_settings(monkeypatch, pg_database_url_direct=SecretStr("postgresql://direct/db"))
    found = wake._direct_parameters()
    assert (found["conninfo"], found["sslmode"], found["sslrootcert"]) == (
        "postgresql://direct/db", "verify-full", "/ca.pem",
    )  # fmt: skip
    assert not {"host", "options"} & found.keys()
    use_settings(monkeypatch, pg_database_url_direct=None)
    assert wake._direct_parameters().items() >= {"host": "pooler", "sslmode": "verify-full"}.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-retries", -1), ("max-retries", 10**9), ("max-retries", True), ("max-retries", "3"), ("max-age", "PT1S"),
        ("max-age", "soon"), ("max-age", 5), ("cleanup-period", "P1D"), ("", 1), ("x" * 10_000, 1),
    ],
)  # fmt: skip
def test_invalid_members_are_rejected(name: str, value: object) -> None:
    with pytest.raises(InvalidQueueConfig):
        set_queue_config(QUEUES[PURGE], QueueConfig({name: value}, None), "p", WAREHOUSES[0])
    assert not TaskQueueConfig.objects.exists()


def test_a_configuration_is_stored_per_warehouse() -> None:
    purge = find_queue(PURGE, "warehouse")
    new_config = QueueConfig({"max-retries": 3, "max-age": "P7D"}, 300)
    set_queue_config(purge, new_config, "p", WAREHOUSES[0])
    set_queue_config(purge, new_config, "p", WAREHOUSES[0])
    assert get_queue_config(purge, "p", WAREHOUSES[0]) == new_config
    assert get_queue_config(purge, "p", WAREHOUSES[1]) == QueueConfig({}, None)
    for seconds in (-1, 9, 86_401):
        with pytest.raises(InvalidQueueConfig):
            set_queue_config(purge, QueueConfig({}, seconds), "p", WAREHOUSES[0])
    cleanup = find_queue("task_log_cleanup", "project")
    for short in ("PT1H", "P0D", "P36501D"):
        with pytest.raises(InvalidQueueConfig):
            set_queue_config(cleanup, QueueConfig({"retention-period": short}, None), "p")
    assert find_queue("tabular_expiration", "warehouse").name == "soft_deletion"
    for name, scope in (("task_log_cleanup", "warehouse"), ("soft_deletion", "project"), ("", "warehouse")):
        with pytest.raises(QueueNotFound):
            find_queue(name, scope)


def test_durations_are_those_of_iso_8601() -> None:
    assert parse_duration("P1DT2H3M4.5S") == timedelta(days=1, hours=2, minutes=3, seconds=4.5)
    assert parse_duration("P2W") == timedelta(weeks=2)
    for text in ("P", "PT", "P1DT", "1D", "P-1D", "P1Y", "", None, 5, "P1D "):
        assert parse_duration(text) is None
