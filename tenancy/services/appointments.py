"""Who may bring others into a role that administrates."""

from __future__ import annotations

from uuid import UUID

from icekeeper.kernel.errors import Forbidden
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.changes import rights_changes
from tenancy.authz.instance_admins import is_instance_admin
from tenancy.authz.port import allowed_many, rest_on_rights
from tenancy.authz.privileges import grant_action
from tenancy.services.administrators import administering_privileges


class GrantActionForbidden(Forbidden):
    wire_type = "GrantActionForbidden"


def require_to_appoint(actor: Actor, role_id: UUID) -> None:
    """That `actor` may grant each privilege with which the role, or one that it is in, administrates something.

    To be asked under the lock of the project's memberships, before anybody comes into the role. Instance admins may
    whatever is granted, so that a locked server can be opened. Raises `GrantActionForbidden` (403).
    """
    held, stamp = administering_privileges(role_id), rights_changes.stamp()
    if not held or is_instance_admin(actor):
        return
    questions = [(grant_action(privilege), ref) for privilege, ref in held]
    for (privilege, ref), answer in zip(held, allowed_many(actor, questions), strict=True):
        if not answer:
            action, (on_type, object_id) = grant_action(privilege), ref
            record_denial(
                actor=actor, action=action, object_type=on_type.value, object_id=object_id, reason="ActionForbidden"
            )
            raise GrantActionForbidden(
                f"{actor.name} may not grant on {on_type} {object_id}: {privilege}, which role {role_id} brings"
            )
    rest_on_rights(actor, questions, stamp)
