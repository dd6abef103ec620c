"""Events of tasks that ended: failed ones of each queue, successful ones of queues that change tables."""

from __future__ import annotations

import json

import pytest

from icekeeper.kernel.ids import new_id
from tasks.models import Task, TaskQueueConfig
from tasks.queue.enqueue import NewTask, enqueue
from tasks.queue.leases import Lease, claim_tasks
from tenancy.models import AuditRecord, OutboxEvent

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
WAREHOUSE, TABLE = new_id(), new_id()


def lease(queue: str) -> Lease:
    enqueue(
        [
            NewTask(
                queue=queue, project_id="p", warehouse_id=WAREHOUSE, entity_type="table", entity_id=new_id(),
                entity_uuid=TABLE, entity_name=["ns", "t"],
            )
        ]
    )  # fmt: skip
    (found,) = claim_tasks({queue: 1})
    return found


@pytest.mark.parametrize("queue", ["soft_deletion", "tabular_purge"])
def test_a_task_that_succeeded(queue: str) -> None:
    own = lease(queue)
    own.execution_details["deleted-files"] = 3
    own.finish()
    event = OutboxEvent.objects.get()
    assert (event.type, event.object_key, event.project_id) == ("completeTask", f"task:{own.task_id}", "p")
    assert (event.warehouse_id, json.loads(event.names), event.actor) == (WAREHOUSE, ["ns", "t"], "internal")
    data = json.loads(event.data or "")
    assert (data["queue"], data["attempt"], data["entity"], data["results"]) == (
        queue, 1, str(TABLE), {"deleted-files": 3},
    )  # fmt: skip
    assert not AuditRecord.objects.exists()


@pytest.mark.parametrize("queue", ["statistics", "file_statistics", "task_log_cleanup"])
def test_routine_tasks_have_no_event(queue: str) -> None:
    lease(queue).finish()
    assert not OutboxEvent.objects.exists()


@pytest.mark.parametrize("queue", ["soft_deletion", "statistics"])
def test_a_task_has_an_event_when_it_failed_for_good(queue: str) -> None:
    TaskQueueConfig.objects.create(queue=queue, project_id="p", warehouse_id=WAREHOUSE, config={"max-retries": 1})
    own = lease(queue)
    assert own.fail("the store is full") is not None
    assert not OutboxEvent.objects.exists(), "it is tried again"
    Task.objects.update(scheduled_for=Task.objects.get().created_at)
    (again,) = claim_tasks({queue: 1})
    assert again.fail("the store is full") is None
    event = OutboxEvent.objects.get()
    assert event.type == "failTask"
    data = json.loads(event.data or "")
    assert (data["error"], data["attempt"], data["queue"]) == ("the store is full", 2, queue)
