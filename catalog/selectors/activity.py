"""What was done to a table, view, generic table or namespace: commits, tasks, events and audit records by time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.conf import settings

from catalog.models import Snapshot
from icekeeper.kernel.http.paging import Page
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import OutboxEvent, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.audit_records import AuditFilters, list_audit_records_for
from tenancy.selectors.projects import server_ref

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIMESTAMP_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""Writers may claim any time of a snapshot: those before 1970 and after the year 9999 are left out."""


class ActivityKind(StrEnum):
    COMMIT = "commit"
    TASK = "task"
    EVENT = "event"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that the caller has located, with its own id, the id that clients see, and what is above it."""

    type: Securable.Type
    own_id: UUID
    public_id: UUID
    warehouse_id: UUID
    project_id: str

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.type, self.own_id)


@dataclass(frozen=True, slots=True)
class Activity:
    """One line: what was done, by whom, and with which engine or result. `task_id` is that of a task."""

    at: datetime
    kind: ActivityKind
    what: str
    by: str
    note: str = ""
    task_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """The newest lines before a moment. `kinds` are those that the caller may see; `before` is for the next page."""

    rows: Sequence[Activity]
    kinds: Sequence[ActivityKind]
    before: datetime | None


Read = Callable[[Subject, datetime | None, int], list[Activity]]


def list_activity_for(
    *, actor: Actor, subject: Subject, kind: ActivityKind | None, before: datetime | None, limit: int
) -> ActivityPage:
    """Return the newest lines of one kind, or of commits, tasks and events together.

    Audit records are read only if `kind` asks for them, because each read of them is recorded. Tasks need `get_tasks`;
    events and audit records need `read_audit`. At most six statements.
    """
    kinds = _visible_kinds(actor, subject)
    rows: list[Activity] = []
    for each in kinds:
        if each in _READS and kind in {None, each}:
            rows += _READS[each](subject, before, limit + 1)
        elif each is kind:
            rows += _audit(actor, subject, before, limit + 1)
    rows.sort(key=lambda row: row.at, reverse=True)
    if len(rows) <= limit:
        return ActivityPage(rows, kinds, None)
    last = rows[limit - 1].at
    shown = [each for each in rows if each.at >= last]  # all lines of the last moment: the next page is before it
    return ActivityPage(shown, kinds, last)


def _visible_kinds(actor: Actor, subject: Subject) -> list[ActivityKind]:
    has_tasks = subject.type is not Securable.Type.NAMESPACE
    checks = [
        (Can.READ_AUDIT, ObjectRef(Securable.Type.PROJECT, subject.project_id)),
        (Can.READ_AUDIT, server_ref()),
        *(
            [
                (Can.GET_TASKS, subject.ref),
                (Can.GET_ALL_TASKS, ObjectRef(Securable.Type.WAREHOUSE, subject.warehouse_id)),
            ]
            if has_tasks
            else []
        ),
    ]
    of_project, of_server, *of_tasks = check_permissions(actor, checks)
    kinds = [ActivityKind.COMMIT] if subject.type is Securable.Type.TABLE else []
    if any(of_tasks):
        kinds.append(ActivityKind.TASK)
    if of_project or of_server:
        kinds += [ActivityKind.EVENT, ActivityKind.AUDIT]
    return kinds


def _commits(subject: Subject, before: datetime | None, limit: int) -> list[Activity]:
    rows = Snapshot.objects.using(settings.READ_DATABASE).filter(
        tabular_id=subject.own_id, timestamp_ms__gte=0, timestamp_ms__lte=_MAX_TIMESTAMP_MS
    )
    if before is not None:
        rows = rows.filter(timestamp_ms__lt=-((_EPOCH - before) // timedelta(milliseconds=1)))
    columns = ("timestamp_ms", "snapshot_id", "summary__operation", "committed_by", "engine")
    return [
        Activity(
            _EPOCH + timedelta(milliseconds=milliseconds), ActivityKind.COMMIT,
            f"{operation or 'snapshot'} {snapshot_id}", by or "", engine or "",
        )
        for milliseconds, snapshot_id, operation, by, engine in rows.order_by("-timestamp_ms", "-snapshot_id")
        .values_list(*columns)[:limit]
    ]  # fmt: skip


def _tasks(subject: Subject, before: datetime | None, limit: int) -> list[Activity]:
    rows = Task.objects.using(settings.READ_DATABASE).filter(
        warehouse_id=subject.warehouse_id, entity_id=subject.own_id
    )
    if before is not None:
        rows = rows.filter(created_at__lt=before)
    columns = ("pk", "created_at", "queue", "status", "created_by")
    return [
        Activity(at, ActivityKind.TASK, queue, by, status, task_id)
        for task_id, at, queue, status, by in rows.order_by("-created_at", "-pk").values_list(*columns)[:limit]
    ]


def _events(subject: Subject, before: datetime | None, limit: int) -> list[Activity]:
    key = f"{subject.type.value}:{subject.own_id}"
    rows = OutboxEvent.objects.using(settings.READ_DATABASE).filter(object_key=key)
    if before is not None:
        rows = rows.filter(at__lt=before)
    columns = ("at", "type", "actor")
    return [
        Activity(at, ActivityKind.EVENT, event, by)
        for at, event, by in rows.order_by("-sequence").values_list(*columns)[:limit]
    ]


def _audit(actor: Actor, subject: Subject, before: datetime | None, limit: int) -> list[Activity]:
    own_ids = () if subject.own_id == subject.public_id else (str(subject.own_id),)
    filters = AuditFilters(project=subject.project_id, object_id=str(subject.public_id), own_ids=own_ids, end=before)
    records, _ = list_audit_records_for(actor=actor, filters=filters, page=Page("activity", None, limit))
    return [
        Activity(record.at, ActivityKind.AUDIT, f"{record.event} {record.action}".strip(), record.actor, record.outcome)
        for record in records
    ]


_READS: Final[dict[ActivityKind, Read]] = {
    ActivityKind.COMMIT: _commits,
    ActivityKind.TASK: _tasks,
    ActivityKind.EVENT: _events,
}
