"""A task is leased to one worker at a time, in order, and a worker without its lease changes nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from tasks.models import Task
from tasks.queue import leases
from tasks.queue.leases import LEASE_SECONDS, Lease, LeaseLost, lease_task
from tests.workers.lease_fixtures import lease_due_task

pytestmark = pytest.mark.both_databases

PURGE = Task.Queue.TABULAR_PURGE
QUEUES = list(Task.Queue.values)


def queue_task(**fields: Any) -> Task:
    return Task.objects.create(**{"queue": PURGE, "warehouse_id": new_id(), "entity_id": new_id(), **fields})


def let_time_pass(task: Task) -> None:
    """Let the lease expire."""
    assert Task.objects.live().filter(pk=task.pk, status="running").update(leased_until=now() - timedelta(seconds=1))


def row(task: Task) -> dict[str, Any]:
    return {**Task.objects.live().filter(pk=task.pk).values().get()}


def taken(lease: Lease | None) -> Lease:
    assert lease is not None
    return lease


@pytest.mark.django_db
def test_a_task_is_leased_once() -> None:
    task = queue_task(payload={"a": [1, "\u4e2d"]})
    before = now()
    lease = taken(lease_due_task(QUEUES))
    assert (lease.task_id, lease.queue, lease.warehouse_id, lease.entity_id, lease.payload, lease.attempt) == (
        task.pk, "tabular_purge", task.warehouse_id, task.entity_id, {"a": [1, "\u4e2d"]}, 1
    )  # fmt: skip
    assert lease_due_task(QUEUES) is None
    assert lease_task(task.pk) is None
    found = row(task)
    assert (found["status"], found["attempt"]) == ("running", 1)
    assert timedelta(0) < found["leased_until"] - before - timedelta(seconds=LEASE_SECONDS - 5) < timedelta(minutes=2)
    lease.finish()
    assert not Task.objects.live().exists()


@pytest.mark.django_db
def test_the_oldest_due_task_of_the_requested_queues_is_first() -> None:
    at = now()
    warehouse_id = new_id()
    late, early = (queue_task(warehouse_id=warehouse_id, scheduled_for=at - timedelta(seconds=age)) for age in (10, 20))
    other = queue_task(queue=Task.Queue.SOFT_DELETION, scheduled_for=at - timedelta(seconds=30))
    future = queue_task(scheduled_for=at + timedelta(hours=1))
    assert [taken(lease_due_task([PURGE.value])).task_id for _ in range(2)] == [early.pk, late.pk]
    assert lease_due_task([PURGE.value]) is None
    assert taken(lease_due_task(QUEUES)).task_id == other.pk
    assert lease_due_task(QUEUES) is None
    assert taken(lease_task(future.pk)).attempt == 1, "by its id a task is taken before it is due"
    assert lease_task(new_id()) is None


@pytest.mark.django_db
def test_a_task_is_due_when_it_is_written() -> None:
    for _ in range(30):
        queue_task()
        taken(lease_due_task(QUEUES)).finish()


@pytest.mark.django_db
def test_another_worker_takes_over_from_a_dead_one_which_changes_nothing_later() -> None:
    task = queue_task()
    first = taken(lease_due_task(QUEUES))
    let_time_pass(task)
    second = taken(lease_due_task(QUEUES))
    assert (second.task_id, second.attempt) == (task.pk, 2)
    before = row(task)
    with pytest.raises(LeaseLost):
        first.finish()
    first.extended_at -= leases.HEARTBEAT_SECONDS + 1
    with pytest.raises(LeaseLost):
        first.extend()
    first.release()
    first.fail("too late")
    assert row(task) == before
    second.finish()
    assert not Task.objects.live().exists()
    second.fail("too late")
    second.release()
    with pytest.raises(LeaseLost):
        second.finish()
    assert not Task.objects.live().exists()


@pytest.mark.django_db
def test_work_extends_the_lease_now_and_then() -> None:
    task = queue_task()
    lease = taken(lease_due_task(QUEUES))
    Task.objects.live().update(leased_until=now() + timedelta(seconds=1))
    before = row(task)
    lease.extend()
    assert row(task) == before, "each step would be too often"
    lease.extended_at -= leases.HEARTBEAT_SECONDS + 1
    lease.extend()
    assert row(task)["leased_until"] > now() + timedelta(seconds=LEASE_SECONDS - 20)
    lease.extended_at -= LEASE_SECONDS * (1 - leases.MARGIN_SHARE)
    with pytest.raises(LeaseLost, match="not extended in time"):
        lease.extend()


@pytest.mark.django_db
def test_a_task_that_is_given_back_is_due_at_once() -> None:
    task = queue_task()
    taken(lease_due_task(QUEUES)).release()
    assert (row(task)["status"], row(task)["leased_until"], row(task)["message"]) == ("scheduled", None, "")
    assert taken(lease_due_task(QUEUES)).attempt == 2


@pytest.mark.django_db
def test_a_task_that_fails_is_tried_again_later_and_later_until_it_has_failed() -> None:
    task = queue_task()
    pauses = []
    for attempt in range(1, 31):
        lease = taken(lease_task(task.pk))
        assert lease.attempt == attempt
        before = now()
        pause = lease.fail(f"no \0 {attempt}" + "x" * 10_000)
        assert pause is not None
        pauses.append(pause)
        found = row(task)
        assert (found["status"], found["leased_until"]) == ("scheduled", None)
        assert found["message"].startswith(f"no \ufffd {attempt}x")
        assert len(found["message"]) == leases.MAX_MESSAGE_LENGTH
        due_in = (found["scheduled_for"] - before).total_seconds()
        assert pauses[-1] - 1 < due_in < pauses[-1] + 60
        assert lease_due_task(QUEUES) is None
    assert taken(lease_task(task.pk)).fail("no") is None
    assert Task.objects.get().status == "failed"
    assert 2.5 <= pauses[0] <= 5
    assert all(later > earlier for earlier, later in pairwise(pauses[:10]))
    assert all(1800 <= pause <= 3600 for pause in pauses[10:])
    assert len(set(pauses[10:])) > 5, "jittered"


@pytest.mark.django_db
@pytest.mark.parametrize("payload", [[], "text", "{", 7, True, [{"a": 1}]])
def test_a_payload_that_is_no_object_is_an_empty_one(payload: Any) -> None:
    queue_task(payload=payload)
    assert taken(lease_due_task(QUEUES)).payload == {}


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_workers_that_ask_at_once_get_different_tasks() -> None:
    tasks = {queue_task().pk for _ in range(40)}
    workers = 4
    start = threading.Barrier(workers)

    def work() -> list[Any]:
        start.wait(30)
        done = []
        try:
            while (lease := lease_due_task(QUEUES)) is not None:
                done.append(lease.task_id)
                lease.finish()
        finally:
            connection.close()
        return done

    with ThreadPoolExecutor(workers) as pool:
        parts = [each.result(60) for each in [pool.submit(work) for _ in range(workers)]]
    assert sorted(task for part in parts for task in part) == sorted(tasks), "each once"
    assert not Task.objects.live().exists()
