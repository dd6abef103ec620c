"""Story: tasks of a warehouse and of its project, and the configuration of their queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tasks.queue.config import QUEUES
from tasks.queue.enqueue import enqueue_for_projects
from tenancy.selectors.projects import get_project
from tests.openapi_examples.story import Story

HEARTBEAT = {"max-seconds-since-last-heartbeat": 300}
CONFIGS: dict[str, dict[str, Any]] = {
    "soft_deletion": {"max-retries": 5},
    "tabular_purge": {"max-retries": 100, "max-age": "P7D"},
    "task_log_cleanup": {"cleanup-period": "P1D", "retention-period": "P30D"},
    "statistics": {"max-retries": 3},
    "expire_snapshots": {"enable-expire-snapshots": True, "min-snapshots-to-keep": 10},
    "remove_orphan_files": {"enable-remove-orphan-files": True, "dry-run": True},
}


def play(story: Story, warehouse_id: str, table_id: str) -> None:
    configurations(story, {"warehouse_id": warehouse_id})
    of_a_table(story, {"warehouse_id": warehouse_id}, table_id)
    of_the_project(story)


def configurations(story: Story, this: dict[str, str]) -> None:
    for queue in (each for each in QUEUES.values() if each.is_documented):
        name, where = (f"task_queue_config_{queue.name}", this)
        if queue.scope == "project":
            name, where = f"project_{name}", {}
        story.send(f"set_{name}", where, {"queue-config": CONFIGS[queue.name]} | HEARTBEAT)
        story.send(f"get_{name}", where)


def of_a_table(story: Story, this: dict[str, str], table_id: str) -> None:
    """Drop a table, read its task, and cancel it: the table is restored."""
    story.call("DELETE", f"/catalog/v1/{this['warehouse_id']}/namespaces/finance%1Fsales/tables/orders")
    entities = [{"type": "table", "table-id": table_id}]
    wanted = {"entities": entities, "status": ["SCHEDULED"], "queue-name": ["soft_deletion"], "page-size": 100}
    (task,) = story.send("list_tasks", this, wanted, summary="That wait, about one table")["tasks"]
    story.send("get_task_details", this | {"task_id": task["task-id"], "numAttempts": 5})
    later = (story.clock.at + timedelta(days=3)).isoformat()
    at_a_time = {"action-type": "run-at", "scheduled-for": later}
    story.send("control_tasks", this, {"task-ids": [task["task-id"]], "action": at_a_time}, summary="Run at a time")
    cancelled = {"task-ids": [task["task-id"]], "action": {"action-type": "cancel"}}
    story.send("control_tasks", this, cancelled, summary="Cancel: the dropped table is restored")


def of_the_project(story: Story) -> None:
    enqueue_for_projects("task_log_cleanup", [get_project(None).pk], scheduled_for=story.clock.at)
    wanted = {"status": ["SCHEDULED"], "queue-name": ["task_log_cleanup"]}
    (task,) = story.send("list_project_tasks", body=wanted)["tasks"]
    story.send("get_project_task_details", {"task_id": task["task-id"]})
    now = {"task-ids": [task["task-id"]], "action": {"action-type": "run-now"}}
    story.send("control_project_tasks", body=now)
