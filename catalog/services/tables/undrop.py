"""Restore of soft-deleted tables, views and generic tables."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import IntegrityError

from catalog.errors import TabularHasRunningExpiration, no_such_object, noun
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.locations.claims import lock_warehouse
from catalog.services.tables.drop import BATCH_SIZE, cancel_expirations
from icekeeper.kernel import request_context
from icekeeper.kernel.db.sql import batches
from icekeeper.kernel.errors.types import AlreadyExists, BadRequest
from storage.errors import no_such_warehouse
from tasks.models import Task
from tasks.queue.control import lock_and_end
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import action_forbidden, check_permissions, deny_as_missing, recheck_before_write
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

MAX_TARGETS = 1_000
"""Targets of one call."""

Named = tuple[Tabular.Kind, UUID]
"""A tabular by its kind and the id that clients see."""


def undrop_tabulars(*, actor: Actor, warehouse_id: UUID, targets: Sequence[Named]) -> None:
    """Restore soft-deleted tabulars under their former names, all of them or none.

    Targets that are not dropped are skipped, so that a call can be repeated. Raises `NoSuchWarehouse`, the "no such"
    error of a target's kind, `AlreadyExists` when a name is taken again, and `TabularHasRunningExpiration` (409) while
    a target is being deleted permanently.
    """
    wanted = list(dict.fromkeys(targets))
    if len(wanted) > MAX_TARGETS:
        raise BadRequest(f"targets: more than {MAX_TARGETS} at once")
    # Checked before anything is locked, so that denied requests block no other client.
    require_on_warehouse(actor, warehouse_id, Can.USE)
    allowed = _require_each(actor, warehouse_id, wanted)
    try:
        with change(actor) as tx:
            # An expiration takes this lock first, too: it has finished, or starts later and finds nothing to do.
            warehouse = lock_warehouse(warehouse_id)
            if warehouse is None:
                raise no_such_warehouse(warehouse_id)
            found = _lock(allowed)
            request_context.recheck_permissions()
            _require_all_found(wanted, found)
            dropped = [row for row in found if row.deleted_at is not None]
            _require_free_names(dropped)
            if not cancel_expirations(warehouse_id, [row.pk for row in dropped]):
                raise TabularHasRunningExpiration("A dropped table is being deleted permanently; try again")
            for batch in batches(dropped, BATCH_SIZE):
                Tabular.objects.filter(pk__in=[row.pk for row in batch]).update(deleted_at=None)
            for row in dropped:
                _record_undrop(tx, row, project=warehouse.project_id)
    except IntegrityError:  # a tabular was renamed to one of the names concurrently
        raise AlreadyExists("One of the names is already taken") from None


def cancel_expirations_and_restore(actor: Actor, tasks: Sequence[Task]) -> list[Task]:
    """End expirations and restore their tabulars, all or none (`QueueDefinition.on_cancel`); return the ended tasks.

    A worker that runs one of them cannot complete it. Raises `AlreadyExists` when a name is taken again.
    """
    ended: list[Task] = []
    with change(actor) as tx:
        for warehouse_id in sorted({task.warehouse_id for task in tasks}):
            lock_warehouse(warehouse_id)
            some = [task for task in tasks if task.warehouse_id == warehouse_id]
            found = _lock(sorted(task.entity_id for task in some))
            live = {task.entity_id: task for task in lock_and_end(some)}
            dropped = [row for row in found if row.deleted_at is not None and row.pk in live]
            _require_free_names(dropped)
            for row in dropped:
                Tabular.objects.filter(pk=row.pk).update(deleted_at=None)
                _record_undrop(tx, row, project=live[row.pk].project_id)
            ended += live.values()
    return ended


def _record_undrop(tx: ChangeTransaction, row: Tabular, *, project: str) -> None:
    tx.record(
        Change.of_tabular(row.kind, "undropped"), subject=row.pk, project=project, warehouse=row.warehouse_id,
        uuid=row.uuid, levels=[*row.namespace.levels, row.name],
    )  # fmt: skip


def _lock(ids: Sequence[UUID]) -> list[Tabular]:
    """Lock the rows that still exist, in the order of their ids."""
    found: list[Tabular] = []
    rows = Tabular.objects.select_for_update(of=("self",)).select_related("namespace").defer("namespace__properties")
    for batch in batches(ids, BATCH_SIZE):
        found += rows.filter(pk__in=batch).order_by("id")
    return found


def _require_all_found(wanted: Sequence[Named], found: Sequence[Tabular]) -> None:
    existing = {(row.kind, row.uuid) for row in found}
    for kind, uuid in wanted:
        if (kind.value, uuid) not in existing:  # deleted concurrently
            raise no_such_object(kind.value, uuid)


def _require_each(actor: Actor, warehouse_id: UUID, wanted: Sequence[Named]) -> list[UUID]:
    """Return the ids of the targets, sorted. Raises for the first that is missing or that `actor` may not restore.

    Both are checked in the order of the targets, so that a hidden target gets the error of a missing one.
    """
    own_ids: dict[tuple[str, UUID], UUID] = {}
    uuids = sorted({uuid for _, uuid in wanted})
    for batch in batches(uuids, BATCH_SIZE):
        named = Tabular.objects.in_warehouse(warehouse_id).filter(uuid__in=batch)
        own_ids |= {(kind, uuid): own_id for kind, uuid, own_id in named.values_list("kind", "uuid", "pk")}
    refs: dict[Named, ObjectRef] = {
        (kind, uuid): ObjectRef(Securable.Type(kind.value), own_ids[kind.value, uuid])
        for kind, uuid in wanted
        if (kind.value, uuid) in own_ids
    }
    epoch = permission_epoch.current()
    checks = [(action, ref) for ref in refs.values() for action in (Can.UNDROP, SEEN_BY[ref.type])]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True))
    for kind, uuid in wanted:
        missing = no_such_object(kind.value, uuid)
        if (kind, uuid) not in refs:
            raise missing
        ref = refs[kind, uuid]
        if not allowed[SEEN_BY[ref.type], ref]:
            raise deny_as_missing(actor, Can.UNDROP, ref, missing)
        if not allowed[Can.UNDROP, ref]:
            raise action_forbidden(actor, Can.UNDROP, ref, missing)
        recheck_before_write(actor, [(Can.UNDROP, ref)], epoch, missing)
    return sorted(own_ids[kind.value, uuid] for kind, uuid in wanted)


def _require_free_names(dropped: Sequence[Tabular]) -> None:
    """Raises `AlreadyExists` when a name is taken, or wanted by two of the dropped."""
    wanted: set[tuple[UUID, str]] = set()
    for batch in batches(dropped, BATCH_SIZE):
        live = Tabular.objects.live().filter(
            namespace_id__in={row.namespace_id for row in batch}, name_key__in={row.name_key for row in batch}
        )
        taken = {(namespace_id, key): kind for namespace_id, key, kind in live.values_list(*_NAMED)}
        for row in batch:
            name = (row.namespace_id, row.name_key)
            if name in taken or name in wanted:
                owner = noun(taken.get(name, row.kind)).lower()
                identifier = Identifier(row.namespace.levels, row.name)
                raise AlreadyExists(f"Cannot restore {identifier}: another {owner} has that name")
            wanted.add(name)


_NAMED = ("namespace_id", "name_key", "kind")
