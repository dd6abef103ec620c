"""What a user may change on a warehouse, for the controls of its pages."""

from __future__ import annotations

from typing import Final

from storage.models import Warehouse
from tenancy.actor import Actor, is_instance_admin
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

CHANGES: Final = (
    Can.RENAME,
    Can.MODIFY_SOFT_DELETION,
    Can.SET_FORMAT_VERSION_POLICY,
    Can.SET_PROTECTION,
    Can.ACTIVATE,
    Can.DEACTIVATE,
    Can.UPDATE_STORAGE,
    Can.DELETE,
)


def allowed_changes(actor: Actor, warehouse: Warehouse) -> frozenset[Can]:
    """Return which of `CHANGES` the actor may do; none if only instance admins may change the warehouse."""
    if warehouse.managed_by == Warehouse.ManagedBy.INSTANCE_ADMIN and not is_instance_admin(actor):
        return frozenset()
    ref: ObjectRef = ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
    allowed = check_permissions(actor, [(action, ref) for action in CHANGES])
    return frozenset(action for action, is_allowed in zip(CHANGES, allowed, strict=True) if is_allowed)
