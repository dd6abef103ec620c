"""Protection of namespaces, tables, views and generic tables from drops without `force`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, FilteredRelation, Q

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of a namespace or tabular, with its internal id."""

    own_id: UUID
    is_protected: bool
    updated_at: datetime


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
    row = rows.values_list("it__pk", "it__protected", "it__updated_at").first()
    if row is None:
        raise no_such_warehouse(warehouse_id)
    own_id, is_protected, updated_at = row
    missing = no_such_object(kind.value, object_id)
    if own_id is None:
        raise missing
    require_permission(actor, action, kind, own_id, missing=missing)
    return Protection(own_id, is_protected, updated_at)


def set_protection(
    *, actor: Actor, warehouse_id: UUID, kind: Securable.Type, object_id: UUID, is_protected: bool
) -> Protection:
    """Set or clear the protection of a namespace, table, view or generic table, for all drops that begin later.

    Raises `NoSuchWarehouse` or the "no such" error of its kind.
    """
    at = now()
    found = get_protection_for(
        actor=actor, action=Can.SET_PROTECTION, warehouse_id=warehouse_id, kind=kind, object_id=object_id
    )
    with write_transaction():
        if kind == Securable.Type.NAMESPACE:
            rows = Namespace.objects.filter(pk=found.own_id)
            changed = rows.update(protected=is_protected, updated_at=at, version=F("version") + 1)
        else:
            tabulars = Tabular.objects.live().filter(pk=found.own_id)
            changed = tabulars.update(protected=is_protected, updated_at=at)
        if not changed:  # dropped concurrently
            raise no_such_object(kind.value, object_id)
        request_context.recheck_permissions()  # the update may have waited
        record(
            Event.PROTECTION_SET, actor=actor, subject=found.own_id, object_type=kind.value, warehouse=warehouse_id,
            uuid=object_id, is_protected=is_protected,
        )  # fmt: skip
    return Protection(found.own_id, is_protected, at)
