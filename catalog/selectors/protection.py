"""Whether things are protected from being dropped. Here they are named by the ids that clients see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catalog.errors import no_such_id
from catalog.models import Namespace, Tabular
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import nothing_there, require
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class Protection:
    is_protected: bool
    updated_at: datetime


def get_protection_for(*, actor: Actor, warehouse_id: UUID, kind: Securable.Type, object_id: UUID) -> Protection:
    """Of a namespace, table, view or generic table. Raises `NoSuchWarehouse` or the "no such" of its kind."""
    found = get_protected_for(
        actor=actor, action=Can.GET_METADATA, warehouse_id=warehouse_id, kind=kind, object_id=object_id
    )
    return Protection(found.protected, found.updated_at)


def get_protected_for(
    *, actor: Actor, action: Can, warehouse_id: UUID, kind: Securable.Type, object_id: UUID
) -> Namespace | Tabular:
    """The row of a namespace or of a tabular that was not dropped, when `actor` may do `action` on it."""
    found: Namespace | Tabular | None
    if kind == Securable.Type.NAMESPACE:
        found = Namespace.objects.filter(warehouse_id=warehouse_id, pk=object_id).first()
    else:
        tabulars = Tabular.objects.filter(warehouse_id=warehouse_id, kind=kind.value, deleted_at__isnull=True)
        found = tabulars.filter(uuid=object_id).first()
    missing = no_such_id(kind.value, object_id)
    if found is None:
        if not Warehouse.objects.filter(pk=warehouse_id).exists():
            raise no_such_warehouse(warehouse_id)
        raise nothing_there(actor, kind, missing)
    require(actor, action, kind, found.pk, missing=missing)
    return found
