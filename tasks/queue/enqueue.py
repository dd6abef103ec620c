"""Enqueues tasks in the caller's transaction, and wakes the workers when it commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from tasks.models import NO_ID, Task
from tasks.queue.wake import NOTIFY, wake_after_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task to enqueue; the fields are those of `Task`. Without `scheduled_for` it is due at once."""

    queue: str
    project_id: str
    warehouse_id: UUID = NO_ID
    entity_type: str
    entity_id: UUID = NO_ID
    entity_uuid: UUID | None = None
    entity_name: list[str] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    payload_version: int = 1
    priority: int = 0
    scheduled_for: datetime | None = None
    parent_id: UUID | None = None
    created_by: str = ""
    id: UUID = field(default_factory=new_id)


_INSERT = f"""
WITH inserted AS (
  INSERT INTO tasks_task (id, queue, project_id, warehouse_id, entity_type, entity_id, entity_uuid, entity_name,
         payload, payload_version, priority, status, scheduled_for, attempt, forgiven_failures, progress, message,
         parent_id, created_by, created_at)
  SELECT t.id, t.queue, t.project_id, t.warehouse_id, t.entity_type, t.entity_id, t.entity_uuid, t.entity_name,
         t.payload, t.payload_version, t.priority, 'scheduled',
         coalesce(t.scheduled_for, statement_timestamp()), 0, 0, 0, '',
         t.parent_id, t.created_by, t.created_at
    FROM jsonb_to_recordset(%s::jsonb) AS t(id uuid, queue text, project_id text, warehouse_id uuid, entity_type text,
         entity_id uuid, entity_uuid uuid, entity_name jsonb, payload jsonb, payload_version smallint,
         priority smallint, scheduled_for timestamptz, parent_id uuid, created_by text, created_at timestamptz)
   ORDER BY t.entity_id
      ON CONFLICT DO NOTHING
  RETURNING id
)
SELECT id, NULL FROM inserted UNION ALL SELECT NULL, {NOTIFY}::text
"""  # noqa: S608 - constants


def enqueue(tasks: Sequence[NewTask]) -> list[UUID]:
    """Insert the tasks of one queue; return the ids of those that were inserted.

    An object has at most one task of a queue that has not ended: for one that has it already, none is inserted. On
    PostgreSQL one statement, which also wakes the workers. Characters that a database cannot store (U+0000, lone
    surrogates) are replaced.
    """
    if not tasks:
        return []
    at, queue = now(), tasks[0].queue
    wake_after_commit(queue)
    if connection.vendor == "postgresql":
        # "At once" is a time of the database: with that of a server whose clock is fast, the task would wait.
        rows = [_printable(asdict(task)) | {"scheduled_for": task.scheduled_for, "created_at": at} for task in tasks]
        inserted = fetch_all("default", _INSERT, [write_json(rows).decode(), queue])
        return [as_uuid(task_id) for task_id, _ in inserted if task_id is not None]
    known = set(
        Task.objects.of_entities(queue, tasks[0].warehouse_id, [task.entity_id for task in tasks]).values_list(
            "project_id", "entity_type", "entity_id"
        )
    )
    new = [task for task in tasks if (task.project_id, task.entity_type, task.entity_id) not in known]
    Task.objects.bulk_create(
        [Task(**_printable(asdict(task)) | {"scheduled_for": task.scheduled_for or at}) for task in new], batch_size=50
    )
    return [task.id for task in new]


def enqueue_for_projects(queue: str, project_ids: Sequence[str], **given: Any) -> None:
    """Enqueue a task of `queue` for each of the projects, with the `given` fields, in the caller's transaction."""
    enqueue([NewTask(queue=queue, project_id=project_id, entity_type="project", **given) for project_id in project_ids])


def _printable(value: Any) -> Any:
    """Replace what a jsonb column cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list) else value
