"""Drops and changes of protection of several tabulars: all of them or none, and only what a preview showed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from catalog.errors import PreviewOutdated, Protected, no_such_object, noun
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tables.change_preview import MAX_CHANGED, TabularChange, change_digest
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import propose_each
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.locations.claims import lock_warehouse
from catalog.services.tables.drop import hide, queue_purges, record_drop, retire
from catalog.services.tables.named_targets import (
    Named,
    distinct_targets,
    lock_tabulars,
    require_all_found,
    require_each,
)
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change


def require_current(found: str, digest: str) -> None:
    """Raises `PreviewOutdated` unless the digests are the same."""
    if found != digest:
        raise PreviewOutdated("Something has changed since the preview")


def drop_tabulars(
    *, actor: Actor, warehouse_id: UUID, targets: Sequence[Named], purge: bool, digest: str, force: bool = False
) -> datetime | None:
    """Drop tabulars as `drop_tabular` does, in one transaction; return until when they can be restored, None for never.

    `digest` is the one of `change_digest` that the caller saw. Locks are taken in the order warehouse, tabulars.
    Raises `NoSuchWarehouse`, the "no such" error of a target's kind, `PreviewOutdated`, `ContractViolation` (409), and
    `Protected` (409) unless `force`.
    """
    wanted = distinct_targets(targets, maximum=MAX_CHANGED)
    own_ids = require_each(actor, [TabularChange.DROP.action], warehouse_id, wanted)
    require_approval(
        recent_rules_version(), lambda: propose_each(ChangeAction.DROP, actor, own_ids), warehouse_id=warehouse_id
    )
    with change(actor) as tx:
        warehouse, rows = _lock(warehouse_id, own_ids, wanted)
        require_current(change_digest(TabularChange.DROP, warehouse, rows), digest)
        paths = {row.namespace_id: row.namespace.levels for row in rows}
        protected = next((row for row in rows if row.protected), None)
        if protected is not None and not force:
            named = Identifier(paths[protected.namespace_id], protected.name)
            raise Protected(f"{noun(protected.kind)} is protected: {named}")
        if warehouse.has_soft_delete and not force:
            expires_at = hide(rows, paths, warehouse=warehouse, purge=purge, created_by=actor.user_id)
            for row in rows:
                record_drop(
                    tx, row, paths[row.namespace_id], project=warehouse.project_id, purge=purge, expires_at=expires_at
                )
            return expires_at
        if purge:
            queue_purges(rows, paths, project=warehouse.project_id, created_by=actor.user_id)
        for row in rows:
            ended = retire([row])
            record_drop(
                tx, row, paths[row.namespace_id], project=warehouse.project_id, purge=purge, **ended.as_details()
            )
    return None


def set_protection_of_tabulars(
    *, actor: Actor, warehouse_id: UUID, targets: Sequence[Named], is_protected: bool, digest: str
) -> None:
    """Set or clear the protection of tabulars, in one transaction. Raises as `drop_tabulars`."""
    kind = TabularChange.PROTECT if is_protected else TabularChange.REMOVE_PROTECTION
    wanted = distinct_targets(targets, maximum=MAX_CHANGED)
    own_ids = require_each(actor, [kind.action], warehouse_id, wanted)
    with change(actor) as tx:
        warehouse, rows = _lock(warehouse_id, own_ids, wanted)
        require_current(change_digest(kind, warehouse, rows), digest)
        changed = [row for row in rows if row.protected != is_protected]
        Tabular.objects.filter(pk__in=[row.pk for row in changed]).update(protected=is_protected, updated_at=now())
        for row in changed:
            tx.record(
                Change.PROTECTION_SET, subject=row.pk, object_type=row.kind, project=warehouse.project_id,
                warehouse=warehouse_id, uuid=row.uuid, is_protected=is_protected,
                levels=[*row.namespace.levels, row.name],
            )  # fmt: skip


def _lock(warehouse_id: UUID, own_ids: Sequence[UUID], wanted: Sequence[Named]) -> tuple[Warehouse, list[Tabular]]:
    """Lock the warehouse, whose delete profile then is the current one, and the live targets."""
    warehouse = lock_warehouse(warehouse_id)
    if warehouse is None or warehouse.status != Warehouse.Status.ACTIVE:
        raise no_such_warehouse(warehouse_id)
    rows = lock_tabulars(own_ids)
    request_context.recheck_permissions()
    require_all_found(wanted, rows)
    for row in rows:
        if row.deleted_at is not None:
            raise no_such_object(row.kind, row.uuid)
    return warehouse, rows
