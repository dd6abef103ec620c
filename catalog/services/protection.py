"""Protection of namespaces, tables, views and generic tables from drops without `force`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import FilteredRelation, Q

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of a namespace or tabular, with its internal id and its project's.

    `names` are the levels of a namespace, with the name of a tabular at the end; empty where they were not read.
    """

    own_id: UUID
    project_id: str
    is_protected: bool
    updated_at: datetime
    names: tuple[str, ...] = ()


def get_protection_for(
    *, actor: Actor, action: Can, warehouse_id: UUID, kind: Securable.Type, object_id: UUID
) -> Protection:
    """Return the protection of a namespace, or of a tabular that is not dropped, if `actor` may do `action` on it.

    `object_id` is the id that clients see. Raises `NoSuchWarehouse` or the "no such" error of its kind.
    """
    if kind == Securable.Type.NAMESPACE:
        it = FilteredRelation("namespaces", condition=Q(namespaces__pk=object_id))
    else:
        named = Q(tabulars__uuid=object_id, tabulars__kind=kind.value, tabulars__deleted_at__isnull=True)
        it = FilteredRelation("tabulars", condition=named)
    rows = Warehouse.objects.filter(pk=warehouse_id).annotate(it=it)
    row = rows.values_list("it__pk", "project_id", "it__protected", "it__updated_at").first()
    if row is None:
        raise no_such_warehouse(warehouse_id)
    missing = no_such_object(kind.value, object_id)
    found = Protection(*row)
    if found.own_id is None:
        raise missing
    require_permission(actor, action, kind, found.own_id, missing=missing)
    return found


def set_protection(
    *, actor: Actor, warehouse_id: UUID, kind: Securable.Type, object_id: UUID, is_protected: bool
) -> Protection:
    """Set or clear the protection of a namespace, table, view or generic table, for all drops that begin later.

    Raises `NoSuchWarehouse` or the "no such" error of its kind.
    """
    found = get_protection_for(
        actor=actor, action=Can.SET_PROTECTION, warehouse_id=warehouse_id, kind=kind, object_id=object_id
    )
    with change(actor) as tx:
        row = _lock(kind, found.own_id)
        if row is None:  # dropped concurrently
            raise no_such_object(kind.value, object_id)
        if row.protected != is_protected:
            row.protected, row.updated_at = is_protected, now()
            if isinstance(row, Namespace):
                row.version += 1
                row.save(update_fields=["protected", "updated_at", "version"])
            else:
                row.save(update_fields=["protected", "updated_at"])
            tx.record(
                Change.PROTECTION_SET, subject=row.pk, object_type=kind.value, project=found.project_id,
                warehouse=warehouse_id, uuid=object_id, is_protected=is_protected, levels=_names(row),
            )  # fmt: skip
    return Protection(row.pk, found.project_id, is_protected, row.updated_at, tuple(_names(row)))


def _lock(kind: Securable.Type, own_id: UUID) -> Namespace | Tabular | None:
    if kind == Securable.Type.NAMESPACE:
        return lock_row(Namespace, "id = %s", [own_id])
    return lock_row(Tabular, "id = %s AND deleted_at IS NULL", [own_id])


def _names(row: Namespace | Tabular) -> list[str]:
    return list(row.levels) if isinstance(row, Namespace) else [*row.namespace.levels, row.name]
