"""Grants to the creator of an object, written in the transaction that creates it."""

from __future__ import annotations

from typing import Final

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.ids import new_id
from tenancy.actor import Actor
from tenancy.authn.assumed_roles import unknown_assumed_role
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.openfga.outbox import enqueue_creator_grant
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.registration import register_principal

PROJECT_ADMIN: Final = "project_admin"


# The row of the grantee is locked against its deletion, which also deletes grants.
_TO_USER: Final = """
INSERT INTO tenancy_grant (id, securable_id, path, user_id, role_id, privilege, created_at, owned_role_id, expires_at)
SELECT %s, %s, (SELECT path FROM tenancy_securable WHERE id = %s), grantee.id, NULL, %s, %s, %s, NULL
  FROM tenancy_user AS grantee
 WHERE grantee.id = %s AND grantee.deleted_at IS NULL
   AND (%s OR EXISTS (SELECT 1 FROM tenancy_accesstoken AS token
                       WHERE token.id = %s AND token.revoked_at IS NULL AND token.expires_at > %s))
   FOR SHARE
"""


_TO_ROLE: Final = """
INSERT INTO tenancy_grant (id, securable_id, path, user_id, role_id, privilege, created_at, owned_role_id, expires_at)
SELECT %s, %s, (SELECT path FROM tenancy_securable WHERE id = %s), NULL, grantee.id, %s, %s, %s, NULL
  FROM tenancy_role AS grantee WHERE grantee.id = %s FOR SHARE
"""


def grant_creator(actor: Actor, privilege: str, securable: ObjectRef) -> dict[str, str]:
    """Grant `privilege` on a new securable to the actor: to the assumed role if any, else to the user.

    Returns the audit details `privilege`, and `user` or `role`; empty if there is no grantee, as for anonymous callers
    and the server's own commands. One statement for registered users. Raises `UnknownAssumedRole`
    (400) for a role that was deleted since the request came, and what `register_principal` raises.
    """
    if actor.user_id is None:
        return {}
    owned_role = securable.id if securable.type is Securable.Type.ROLE and privilege == OWNERSHIP else None
    at = now()
    on = securable_id(*securable)
    row = [new_id(), on, on, privilege, at, owned_role]
    if actor.assumed_role is not None:
        if not execute(_TO_ROLE, [*row, actor.assumed_role]):
            raise unknown_assumed_role(actor.assumed_role)
        enqueue_creator_grant(on, privilege, user_id=None, role_id=actor.assumed_role)
        return {"privilege": privilege, "role": str(actor.assumed_role)}
    token_id = None if actor.identity is None else actor.identity.access_token_id
    to_user = [*row, actor.user_id, token_id is None, token_id, at]
    if not execute(_TO_USER, to_user):
        register_principal(actor=actor)
        if not execute(_TO_USER, to_user):
            return {}
    enqueue_creator_grant(on, privilege, user_id=actor.user_id, role_id=None)
    return {"privilege": privilege, "user": actor.user_id}
