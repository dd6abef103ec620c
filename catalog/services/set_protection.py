"""Protection of namespaces, tables, views and generic tables from drops without `force`."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from catalog.selectors.protection import Protection, get_protected_for
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.authz.actions import Can
from tenancy.models import Securable


def set_protection(
    *, actor: Actor, warehouse_id: UUID, kind: Securable.Type, object_id: UUID, is_protected: bool
) -> Protection:
    """Set or clear the protection of a namespace, table, view or generic table, for all drops that begin later.

    Raises `NoSuchWarehouse` or the "no such" of its kind.
    """
    at = now()
    found = get_protected_for(
        actor=actor, action=Can.SET_PROTECTION, warehouse_id=warehouse_id, kind=kind, object_id=object_id
    )
    with write_transaction():
        if kind == Securable.Type.NAMESPACE:
            rows = Namespace.objects.filter(pk=found.id)
            changed = rows.update(protected=is_protected, updated_at=at, version=F("version") + 1)
        else:
            tabulars = Tabular.objects.live().filter(pk=found.id)
            changed = tabulars.update(protected=is_protected, updated_at=at)
        if not changed:  # dropped concurrently
            raise no_such_object(kind.value, object_id)
        request_context.recheck_permissions()  # the update may have waited
        record(
            Event.PROTECTION_SET, actor=actor, subject=found.id, object_type=kind.value, warehouse=warehouse_id,
            uuid=object_id, is_protected=is_protected,
        )  # fmt: skip
    return Protection(is_protected, at)
