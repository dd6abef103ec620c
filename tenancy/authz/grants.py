"""What a creator may do with what they made, written in the transaction that makes it."""

from __future__ import annotations

from tenancy.actor import Actor
from tenancy.authz.securables import Ref, securable_id
from tenancy.identity import Identity
from tenancy.models import Grant, User

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
        Grant.objects.create(securable_id=on, role_id=actor.assumed_role, privilege=privilege)
        return
    _know_user(actor.user_id, actor.identity)
    Grant.objects.create(securable_id=on, user_id=actor.user_id, privilege=privilege)


def _know_user(user_id: str, identity: Identity | None) -> None:
    """The row that the grant refers to: of a user who was never registered it says what the token says."""
    user = User(id=user_id, last_updated_with=User.Provenance.ROLE_PROVIDER)
    if identity is not None:
        user.name, user.email, user.user_type = identity.name or "", identity.email or "", identity.user_type
    user.set_unusable_password()
    User.objects.bulk_create([user], ignore_conflicts=True)
