"""How the rows of tables, views and generic tables go: hidden until they expire, or for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from catalog.models import LocationClaim, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.cascades import delete_rows
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.queue.leases import cancel_tasks, someone_works_at
from tasks.queue.models import Task
from tenancy.actor import Actor
from tenancy.authz.ended_grants import EndedGrants
from tenancy.authz.securables import remove_securables
from tenancy.models import Securable
from tenancy.services.cascaded_grants import audit_revoked_grants

AT_ONCE = 500
"""Rows that one statement deletes or makes."""

PURGE = "purge"
"""The `deletion_kind` of an expiration that a purge follows."""


def hide(row: Tabular, *, warehouse: Warehouse, purge: bool) -> None:
    """Under the locks of both: nobody sees it any more, and its name is free; location, UUID and rights stay.

    When the warehouse's time is over, a task deletes it for good: `catalog.services.expiration`.
    """
    dropped_at = now()
    Tabular.objects.filter(pk=row.pk).update(deleted_at=dropped_at)
    Task.objects.create(
        queue=Task.Queue.SOFT_DELETION,
        warehouse_id=warehouse.pk,
        entity_id=row.pk,
        payload={"deletion_kind": PURGE if purge else "default"},
        scheduled_for=dropped_at + timedelta(seconds=warehouse.delete_profile["expiration-seconds"]),
    )


def cancel_expirations(warehouse_id: UUID, ids: Sequence[UUID]) -> bool:
    """Under the locks of these hidden tabulars and of their warehouse: they do not expire any more.

    False when one is just being deleted for good: then the caller must give up. A worker that takes up a task after
    the look finds it gone when it comes to its end, and undoes what it did.
    """
    for first in range(0, len(ids), AT_ONCE):
        batch = ids[first : first + AT_ONCE]
        if someone_works_at(Task.Queue.SOFT_DELETION, warehouse_id, batch):
            return False
        cancel_tasks(Task.Queue.SOFT_DELETION, warehouse_id, batch)
    return True


def retire(rows: Sequence[Tabular], *, purge: bool) -> EndedGrants:
    """Under the locks of the rows and, to purge them, of their warehouse: delete them; returns the grants on them, of
    which the caller tells the audit trail.

    With `purge` a task is queued for each, which holds their locations until it has deleted the files:
    `catalog.services.purges`. Statements are bounded by the number of rows over `AT_ONCE`.
    """
    ended = EndedGrants()
    for first in range(0, len(rows), AT_ONCE):
        batch = rows[first : first + AT_ONCE]
        if purge:
            _queue_purges(batch)
        delete_rows(Tabular, [row.pk for row in batch])
        ended.merge(remove_securables([(Securable.Type(row.kind), row.pk) for row in batch]))
    return ended


def audit_drop(ended: EndedGrants, row: Tabular, *, actor: Actor, project: str, **details: object) -> None:
    """That the grants on a table, view or generic table ended with it, if there were any."""
    audit_revoked_grants(
        ended, actor=actor, ref=(Securable.Type(row.kind), row.pk), project=project, warehouse=row.warehouse_id,
        uuid=row.uuid, **details,
    )  # fmt: skip


def _queue_purges(rows: Sequence[Tabular]) -> None:
    claims = LocationClaim.objects.filter(tabular_id__in=[row.pk for row in rows]).order_by("id")
    former: dict[UUID, list[str]] = defaultdict(list)
    for tabular_id, location in claims.values_list("tabular_id", "location"):
        former[tabular_id].append(location)
    tasks = [
        Task(
            id=new_id(),
            queue=Task.Queue.TABULAR_PURGE,
            warehouse_id=row.warehouse_id,
            entity_id=row.pk,
            payload={"tabular_location": row.location, "former_locations": former[row.pk]},
        )
        for row in rows
    ]
    Task.objects.bulk_create(tasks)
    LocationClaim.objects.bulk_create(
        [
            LocationClaim(warehouse_id=row.warehouse_id, task_id=task.pk, location=location)
            for row, task in zip(rows, tasks, strict=True)
            for location in dict.fromkeys([row.location, *former[row.pk]])
        ]
    )
