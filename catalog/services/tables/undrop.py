"""Restore of soft-deleted tables, views and generic tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from catalog.errors import TabularHasRunningExpiration, noun
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction, ProposedChange
from catalog.services.approval.proposals import propose_each
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.locations.claims import lock_warehouse
from catalog.services.tables.drop import BATCH_SIZE, cancel_expirations
from catalog.services.tables.named_targets import (
    Named,
    distinct_targets,
    lock_tabulars,
    require_all_found,
    require_each,
)
from icekeeper.kernel import request_context
from icekeeper.kernel.db.sql import batches
from icekeeper.kernel.errors.types import AlreadyExists
from icekeeper.kernel.names import lookup_key, require_name
from storage.errors import no_such_warehouse
from tasks.models import Task
from tasks.queue.control import lock_and_end
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change


def undrop_tabulars(
    *, actor: Actor, warehouse_id: UUID, targets: Sequence[Named], new_names: Mapping[Named, str] | None = None
) -> None:
    """Restore soft-deleted tabulars, all of them or none: under their former names, or under those in `new_names`.

    Targets that are not dropped are skipped, so that a call can be repeated. A new name needs the permission to rename
    the target. Raises `NoSuchWarehouse`, the "no such" error of a target's kind, `BadRequest` for an invalid name,
    `AlreadyExists` when a name is taken, `ContractViolation` (409), and `TabularHasRunningExpiration` (409) while a
    target is being deleted permanently.
    """
    wanted, names = distinct_targets(targets), dict(new_names or {})
    for (kind, _uuid), name in names.items():
        require_name(name, f"{noun(kind).lower()} name")
    require_on_warehouse(actor, warehouse_id, Can.USE)
    renamed = [each for each in wanted if each in names]
    own_ids = require_each(actor, [Can.UNDROP], warehouse_id, wanted)
    if renamed:
        require_each(actor, [Can.RENAME], warehouse_id, renamed)
    require_restores_approved(actor, own_ids, names)
    try:
        with change(actor) as tx:
            # An expiration takes this lock first, too: it has finished, or starts later and finds nothing to do.
            warehouse = lock_warehouse(warehouse_id)
            if warehouse is None:
                raise no_such_warehouse(warehouse_id)
            found = lock_tabulars(own_ids)
            request_context.recheck_permissions()
            require_all_found(wanted, found)
            dropped = [row for row in found if row.deleted_at is not None]
            former = {row.pk: row.name for row in dropped}
            for row in dropped:
                row.name = names.get((Tabular.Kind(row.kind), row.uuid), row.name)
                row.name_key = lookup_key(row.name)
            _require_free_names(dropped)
            if not cancel_expirations(warehouse_id, [row.pk for row in dropped]):
                raise TabularHasRunningExpiration("A dropped table is being deleted permanently; try again")
            for row in dropped:
                if row.name != former[row.pk]:  # while it is dropped: its former name may be taken
                    Tabular.objects.filter(pk=row.pk).update(name=row.name, name_key=row.name_key)
            for batch in batches(dropped, BATCH_SIZE):
                Tabular.objects.filter(pk__in=[row.pk for row in batch]).update(deleted_at=None)
            for row in dropped:
                _record_undrop(tx, row, project=warehouse.project_id, former_name=former[row.pk])
    except IntegrityError:  # a tabular was renamed to one of the names concurrently
        raise AlreadyExists("One of the names is already taken") from None


def require_restores_approved(actor: Actor, own_ids: Sequence[UUID], names: Mapping[Named, str] | None = None) -> None:
    """Ask the rules about those of the tabulars that are dropped, and are restored, some under new names."""
    require_approval(recent_rules_version(), lambda: _propose(actor, own_ids, names or {}))


def _propose(actor: Actor, own_ids: Sequence[UUID], names: Mapping[Named, str]) -> Iterator[ProposedChange]:
    for batch in batches(sorted(own_ids), BATCH_SIZE):
        rows = Tabular.objects.dropped().filter(pk__in=batch).values_list("pk", "kind", "uuid")
        new_names = {own_id: names.get((Tabular.Kind(kind), uuid)) for own_id, kind, uuid in rows}
        given = {own_id: name for own_id, name in new_names.items() if name is not None}
        yield from propose_each(ChangeAction.UNDROP, actor, list(new_names), new_names=given)


def cancel_expirations_and_restore(actor: Actor, tasks: Sequence[Task]) -> list[Task]:
    """End expirations and restore their tabulars, all or none (`QueueDefinition.on_cancel`); return the ended tasks.

    A worker that runs one of them cannot complete it. Raises `AlreadyExists` when a name is taken again.
    """
    ended: list[Task] = []
    with change(actor) as tx:
        for warehouse_id in sorted({task.warehouse_id for task in tasks}):
            lock_warehouse(warehouse_id)
            some = [task for task in tasks if task.warehouse_id == warehouse_id]
            found = lock_tabulars(sorted(task.entity_id for task in some))
            live = {task.entity_id: task for task in lock_and_end(some)}
            dropped = [row for row in found if row.deleted_at is not None and row.pk in live]
            _require_free_names(dropped)
            for row in dropped:
                Tabular.objects.filter(pk=row.pk).update(deleted_at=None)
                _record_undrop(tx, row, project=live[row.pk].project_id, former_name=row.name)
            ended += live.values()
    return ended


def _record_undrop(tx: ChangeTransaction, row: Tabular, *, project: str, former_name: str) -> None:
    levels = row.namespace.levels
    renamed: dict[str, Any] = {} if row.name == former_name else {"formerly": [*levels, former_name]}
    tx.record(
        Change.of_tabular(row.kind, "undropped"), subject=row.pk, project=project, warehouse=row.warehouse_id,
        uuid=row.uuid, levels=[*levels, row.name], **renamed,
    )  # fmt: skip


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
