"""The people of the deployment itself: `LAKEKEEPER__INSTANCE_ADMINS`, read at the start, in no database."""

from __future__ import annotations

from django.conf import settings

from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor


class InstanceAdminRequired(Forbidden):
    wire_type = "InstanceAdminRequired"


def is_instance_admin(actor: Actor) -> bool:
    """Nobody is one in an assumed role, by what others do or when they ask; the server's own commands always are."""
    if actor.is_internal:
        return True
    is_in_person = actor.assumed_role is None and actor.delegated_by is None and not actor.is_asked_about
    return is_in_person and actor.user_id in settings.ICEKEEPER.instance_admins


def require_instance_admin(actor: Actor) -> None:
    """Raises `InstanceAdminRequired` (403)."""
    if not is_instance_admin(actor):
        raise InstanceAdminRequired(f"{actor.name} is no instance admin: LAKEKEEPER__INSTANCE_ADMINS names them")
