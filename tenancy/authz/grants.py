"""What a creator may do with what they made, written in the transaction that makes it."""

from __future__ import annotations

from tenancy.actor import Actor
from tenancy.authn.assumed_roles import unknown_role
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Grant, Role
from tenancy.services.registration import register_principal

PROJECT_ADMIN = "project_admin"
OWNERSHIP = "ownership"


def grant_creator(actor: Actor, privilege: str, securable: Ref) -> None:
    """Give `privilege` on a securable that was just made to whoever acts: the assumed role if any, else the user.

    Nothing for anonymous callers and for the server's own commands.
    """
    if actor.user_id is None:
        return
    on = securable_id(*securable)
    if actor.assumed_role is not None:
        role = Role.objects.select_for_update(no_key=True).filter(pk=actor.assumed_role).first()
        if role is None:  # deleted since the request came
            raise unknown_role(actor.assumed_role)
        Grant.objects.create(securable_id=on, role=role, privilege=privilege)
        return
    user = register_principal(actor=actor)
    Grant.objects.create(securable_id=on, user=user, privilege=privilege)
