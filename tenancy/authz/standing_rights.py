"""What is settled whoever decides: the server's own commands, who is locked out, the people of the deployment."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.instance_admins import is_instance_admin
from tenancy.models import Securable
from tenancy.refs import ObjectRef

NOT_BY_OVERRIDE: Final = frozenset(
    {Can.READ_DATA, Can.WRITE_DATA, Can.SELECT, Can.ASSUME, Can.CHANGE_OWNERSHIP, Can.SET_MANAGED_ACCESS}
    | {action for action in Can if action.value.startswith("grant_")}
)
"""What an instance admin needs grants for like everybody: data, roles, and the grants of others."""


class Standing(StrEnum):
    """What settles whether somebody may, whatever is granted."""

    INTERNAL = "internal"
    BLOCKED = "blocked"
    EVERYBODY = "everybody"
    INSTANCE_ADMIN = "instance-admin"


def standing_right(actor: Actor, action: Can, ref: ObjectRef) -> bool | None:
    """Whether `actor` may do `action` on the object, None where that is the backend's to say."""
    reason = standing_reason(actor, action, ref)
    return None if reason is None else reason is not Standing.BLOCKED


def standing_reason(actor: Actor, action: Can, ref: ObjectRef) -> Standing | None:
    """What settles whether `actor` may do `action` on the object, None where that is the backend's to say."""
    if actor.is_internal:
        return Standing.INTERNAL
    if actor.is_blocked:
        return Standing.BLOCKED
    if ref.type is Securable.Type.ROLE and action is Can.READ_METADATA:
        return Standing.EVERYBODY  # whoever meets a role's id may learn its name
    if action not in NOT_BY_OVERRIDE and is_instance_admin(actor):
        return Standing.INSTANCE_ADMIN
    return None
