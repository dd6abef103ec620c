"""Managed access: whether owners of objects in a warehouse or namespace may grant privileges on them."""

from __future__ import annotations

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.openfga.outbox import enqueue_managed_access
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.authz.permissions import require_not_hidden, require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.lock_timeouts import grant_lock_timeout, limited_lock_wait


def set_managed_access(*, actor: Actor, ref: ObjectRef, is_managed: bool, missing: CatalogError) -> None:
    """Enable or disable managed access on a warehouse or namespace. Idempotent.

    Raises `missing` if the object is hidden from the caller, the type's own error (403) if the caller may not set it,
    and `GrantLockTimeout` (409).
    """
    require_not_hidden(actor, ref, missing)
    require_permission(actor, Can.SET_MANAGED_ACCESS, *ref)
    with write_transaction():
        with limited_lock_wait(grant_lock_timeout()):
            on = lock_row(Securable, "id = %s", [securable_id(*ref)])
        if on is None:
            raise missing
        if on.managed_access == is_managed:
            return
        Securable.objects.filter(pk=on.pk).update(managed_access=is_managed)
        record(
            Event.MANAGED_ACCESS_SET,
            actor=actor,
            subject=on.object_id,
            object_type=on.type,
            managed_access=is_managed,
        )
        enqueue_managed_access(on.pk)
        bump_permission_epoch()
