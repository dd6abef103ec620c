"""Whether things are protected from being dropped. Here they are named by the ids that clients see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import FilteredRelation, Q

from catalog.errors import no_such_object
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class Protection:
    is_protected: bool
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ProtectedObject:
    """What may be protected, by its own id, and whether it is."""

    id: UUID
    protection: Protection


def get_protection_for(*, actor: Actor, warehouse_id: UUID, kind: Securable.Type, object_id: UUID) -> Protection:
    """Of a namespace, table, view or generic table. Raises `NoSuchWarehouse` or the "no such" of its kind."""
    found = get_protected_for(
        actor=actor, action=Can.GET_METADATA, warehouse_id=warehouse_id, kind=kind, object_id=object_id
    )
    return found.protection


def get_protected_for(
    *, actor: Actor, action: Can, warehouse_id: UUID, kind: Securable.Type, object_id: UUID
) -> ProtectedObject:
    """A namespace, or a tabular that was not dropped, when `actor` may do `action` on it."""
    if kind == Securable.Type.NAMESPACE:
        it = FilteredRelation("namespaces", condition=Q(namespaces__pk=object_id))
    else:
        named = Q(tabulars__uuid=object_id, tabulars__kind=kind.value, tabulars__deleted_at__isnull=True)
        it = FilteredRelation("tabulars", condition=named)
    rows = Warehouse.objects.filter(pk=warehouse_id).annotate(it=it)
    row = rows.values_list("it__pk", "it__protected", "it__updated_at").first()
    if row is None:
        raise no_such_warehouse(warehouse_id)
    own_id, is_protected, updated_at = row
    missing = no_such_object(kind.value, object_id)
    if own_id is None:
        raise missing
    require_permission(actor, action, kind, own_id, missing=missing)
    return ProtectedObject(own_id, Protection(is_protected, updated_at))
