"""Drops tables, views and generic tables: hides them until they expire, or deletes their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from catalog.errors import Protected, no_such_tabular, noun
from catalog.identifiers import Identifier, Levels
from catalog.models import LocationClaim, Tabular
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.targets import CurrentTabular, find_target, find_target_of_commit
from catalog.services.approval.approve import require_approval
from catalog.services.approval.proposals import propose_drop
from catalog.services.commit.queue import attempts
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import lock_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows
from icekeeper.kernel.db.sql import batches, lock_row
from icekeeper.kernel.names import lookup_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.control import cancel_tasks_of
from tasks.queue.enqueue import NewTask, enqueue
from tasks.queue.leases import Lease, has_running_tasks
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import EndedGrants, remove_securables
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


def unregister_table(
    *, actor: Actor, warehouse_id: UUID, table: Identifier, idempotency_key: IdempotencyKey | None = None
) -> LoadedTabular:
    """Remove a table from the catalog without its files, and return its last version.

    It is never soft-deleted. Raises `NoSuchTable`, `Protected`, `ContractViolation` (409), `CommitContended` (409) when
    concurrent commits never stop.
    """
    for _ in attempts(table):
        target, document = find_target_of_commit(warehouse_id=warehouse_id, identifier=table)
        current = target.tabular_for(actor, Can.DROP, Tabular.Kind.TABLE)
        require_approval(
            target.rules_version,
            lambda: [propose_drop(actor, target, current)],  # noqa: B023 - called at once
            warehouse_id=warehouse_id,
        )
        last = LoadedTabular(current.id, current.metadata_location, document)
        with suppress(_CommittedMeanwhile), change(actor, idempotency_key) as tx:
            row = _lock_named(current, table)
            if row is None:
                raise no_such_tabular(Tabular.Kind.TABLE, table)
            if row.protected:
                raise Protected(f"Table is protected: {table}")
            if row.metadata_location != last.metadata_location:
                raise _CommittedMeanwhile
            ended = retire([row])
            record_drop(tx, row, table.levels, project=target.project_id, purge=False, **ended.as_details())
            tx.result = last
            return last
    raise AssertionError("attempts() ends with an error")


class _CommittedMeanwhile(Exception):
    """The version that was read is not the last one: rolls back."""


def drop_tabular(
    *,
    actor: Actor,
    warehouse_id: UUID,
    identifier: Identifier,
    kind: Tabular.Kind,
    purge: bool,
    force: bool = False,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Drop a tabular.

    In a soft-delete warehouse it can be restored until it expires, unless `force`. With `purge` a task deletes its
    files after the row. Raises `NoSuchTable` (or view, or generic table), `ContractViolation` (409), or `Protected`
    (409) unless `force`.
    """
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    current = target.tabular_for(actor, Can.DROP, kind)
    require_approval(target.rules_version, lambda: [propose_drop(actor, target, current)], warehouse_id=warehouse_id)
    with change(actor, idempotency_key) as tx:
        warehouse = lock_warehouse(warehouse_id)  # with its current delete profile
        if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
            raise no_such_warehouse(warehouse_id)
        row = _lock_named(current, identifier)
        if row is None:
            raise no_such_tabular(kind, identifier)
        if row.protected and not force:
            raise Protected(f"{noun(kind)} is protected: {identifier}")
        if warehouse.has_soft_delete and not force:
            paths = {row.namespace_id: identifier.levels}
            expires_at = hide([row], paths, warehouse=warehouse, purge=purge, created_by=actor.user_id)
            details: dict[str, Any] = {"expires_at": expires_at}
        else:
            if purge:
                paths = {row.namespace_id: identifier.levels}
                queue_purges([row], paths, project=warehouse.project_id, created_by=actor.user_id)
            details = retire([row]).as_details()
        record_drop(tx, row, identifier.levels, project=warehouse.project_id, purge=purge, **details)


def _lock_named(current: CurrentTabular, identifier: Identifier) -> Tabular | None:
    """Lock by id and name: a table that was renamed concurrently is not the one that the caller named."""
    named = [current.id, current.namespace_id, lookup_key(identifier.name)]
    where = "id = %s AND namespace_id = %s AND name_key = %s AND deleted_at IS NULL"
    return lock_row(Tabular, where, named, mode="UPDATE")


BATCH_SIZE = 500
"""Rows that one statement deletes or inserts."""

PURGE = "purge"
"""The `deletion_kind` of an expiration that is followed by a purge."""


def hide(
    rows: Sequence[Tabular],
    paths: Mapping[UUID, Levels],
    *,
    warehouse: Warehouse,
    purge: bool,
    created_by: str | None,
) -> datetime:
    """Under the locks of the rows and of their warehouse, soft-delete tabulars: names become free, locations, UUIDs and
    rights stay.

    Queues the tasks that delete them permanently after the warehouse's expiration time: see `expire_tabular`. Returns
    that time. `paths` has the levels of the namespaces.
    """
    dropped_at = now()
    expires_at = dropped_at + timedelta(seconds=warehouse.delete_profile["expiration-seconds"])
    Tabular.objects.filter(pk__in=[row.pk for row in rows]).update(deleted_at=dropped_at)
    enqueue(
        [
            NewTask(
                queue=Task.Queue.SOFT_DELETION.value,
                project_id=warehouse.project_id,
                warehouse_id=warehouse.pk,
                entity_type=row.kind,
                entity_id=row.pk,
                entity_uuid=row.uuid,
                entity_name=[*paths[row.namespace_id], row.name],
                payload={"deletion_kind": PURGE if purge else "default"},
                scheduled_for=expires_at,
                created_by=created_by or "",
            )
            for row in rows
        ]
    )
    return expires_at


def cancel_expirations(warehouse_id: UUID, ids: Sequence[UUID]) -> bool:
    """Under the locks of these soft-deleted tabulars and of their warehouse, cancel their expirations.

    Returns False when one is being deleted permanently: then the caller must give up. A worker that starts a task after
    the check does not find it when it finishes, and rolls back.
    """
    for batch in batches(ids, BATCH_SIZE):
        if has_running_tasks(Task.Queue.SOFT_DELETION, warehouse_id, batch):
            return False
        cancel_tasks_of(Task.Queue.SOFT_DELETION, warehouse_id, batch)
    return True


def retire(rows: Sequence[Tabular]) -> EndedGrants:
    """Under the locks of the rows, delete them; return the grants on them, which the caller must record.

    To delete their files, too, call `queue_purges` before. A constant number of statements for each `BATCH_SIZE` rows.
    """
    ended = EndedGrants()
    for batch in batches(rows, BATCH_SIZE):
        delete_rows(Tabular, [row.pk for row in batch])
        ended.merge(remove_securables([ObjectRef(Securable.Type(row.kind), row.pk) for row in batch]))
    return ended


def queue_purges(
    rows: Sequence[Tabular],
    paths: Mapping[UUID, Levels],
    *,
    project: str,
    created_by: str | None,
    parent: UUID | None = None,
) -> None:
    """Under the locks of the rows and of their warehouse, queue a task for each that deletes its files.

    The task claims the tabular's locations until it has deleted the files: `catalog.services.locations.purge`. `paths`
    has the levels of the namespaces, `parent` is the task that queues them. A constant number of statements for each
    `BATCH_SIZE` rows.
    """
    for batch in batches(rows, BATCH_SIZE):
        claims = LocationClaim.objects.of_tabulars([row.pk for row in batch]).order_by("id")
        former: dict[UUID, list[str]] = defaultdict(list)
        for tabular_id, location in claims.values_list("tabular_id", "location"):
            former[tabular_id].append(location)
        tasks = [
            NewTask(
                queue=Task.Queue.TABULAR_PURGE.value,
                project_id=project,
                warehouse_id=row.warehouse_id,
                entity_type=row.kind,
                entity_id=row.pk,
                entity_uuid=row.uuid,
                entity_name=[*paths[row.namespace_id], row.name],
                payload={
                    "tabular_location": row.location,
                    "former_locations": former[row.pk],
                    "metadata_location": row.metadata_location,
                },
                parent_id=parent,
                created_by=created_by or "",
            )
            for row in batch
        ]
        enqueue(tasks)
        LocationClaim.objects.bulk_create(
            [
                LocationClaim(warehouse_id=row.warehouse_id, task_id=task.id, location=location)
                for row, task in zip(batch, tasks, strict=True)
                for location in dict.fromkeys([row.location, *former[row.pk]])
            ]
        )


def record_drop(tx: ChangeTransaction, row: Tabular, levels: Levels, *, project: str, **details: Any) -> None:
    """Record the drop of a tabular in the namespace `levels`, soft or not, with the grants that ended."""
    tx.record(
        Change.of_tabular(row.kind, "dropped"), subject=row.pk, project=project, warehouse=row.warehouse_id,
        uuid=row.uuid, levels=[*levels, row.name], **details,
    )  # fmt: skip


def expire_tabular(*, actor: Actor, lease: Lease) -> None:
    """Permanently delete the row of a soft-deleted tabular, and queue the purge of its files if its drop asked for it.

    A restored tabular is not changed. The task finishes in the same transaction. Raises `LeaseLost` when another worker
    has the task: then nothing is changed.
    """
    with change(actor) as tx:
        warehouse = lock_warehouse(lease.warehouse_id)
        expired = [lease.entity_id, lease.warehouse_id]
        where = "id = %s AND warehouse_id = %s AND deleted_at IS NOT NULL"
        row = lock_row(Tabular, where, expired, mode="UPDATE")
        if row is not None and warehouse is not None:
            purge, levels = lease.payload.get("deletion_kind") == PURGE, row.namespace.levels
            if purge:
                queue_purges(
                    [row], {row.namespace_id: levels}, project=warehouse.project_id, created_by=lease.created_by,
                    parent=lease.task_id,
                )  # fmt: skip
            ended = retire([row])
            tx.record(
                Change.of_tabular(row.kind, "expired"), subject=row.pk, project=warehouse.project_id,
                warehouse=warehouse.pk, uuid=row.uuid, levels=[*levels, row.name], purge=purge, **ended.as_details(),
            )  # fmt: skip
        lease.finish()
