"""Instance admins: users that the setting `LAKEKEEPER__INSTANCE_ADMINS` names; they are stored in no database."""

from __future__ import annotations

from django.conf import settings

from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor


class InstanceAdminRequired(Forbidden):
    wire_type = "InstanceAdminRequired"


def is_instance_admin(actor: Actor) -> bool:
    """Return whether the actor is an instance admin: never in an assumed role, a delegated read, or a check for others.

    The server's own commands always are.
    """
    if actor.is_internal:
        return True
    acts_directly = actor.assumed_role is None and actor.delegated_by is None and not actor.is_check_subject
    return acts_directly and actor.user_id in settings.ICEKEEPER.instance_admins


def require_instance_admin(actor: Actor) -> None:
    """Raises `InstanceAdminRequired` (403)."""
    if not is_instance_admin(actor):
        raise InstanceAdminRequired(f"{actor.name} is no instance admin: LAKEKEEPER__INSTANCE_ADMINS names them")
