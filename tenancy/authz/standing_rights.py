"""What is settled whoever decides: the server's own commands, who is locked out, the people of the deployment."""

from __future__ import annotations

from typing import Final

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.instance_admins import is_instance_admin
from tenancy.authz.securables import Ref
from tenancy.models import Securable

NOT_BY_OVERRIDE: Final = frozenset(
    {Can.READ_DATA, Can.WRITE_DATA, Can.SELECT, Can.ASSUME, Can.CHANGE_OWNERSHIP, Can.SET_MANAGED_ACCESS}
    | {action for action in Can if action.value.startswith("grant_")}
)
"""What an instance admin needs grants for like everybody: data, roles, and the grants of others."""


def standing_right(actor: Actor, action: Can, ref: Ref) -> bool | None:
    """Whether `actor` may do `action` on the object, None where that is the backend's to say."""
    if actor.is_internal:
        return True
    if actor.is_blocked:
        return False
    if ref[0] is Securable.Type.ROLE and action is Can.READ_METADATA:
        return True  # whoever meets a role's id may learn its name
    if action not in NOT_BY_OVERRIDE and is_instance_admin(actor):
        return True
    return None
