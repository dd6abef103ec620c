"""Grants that come and go with objects: the creator's on creation, and those deleted with an object or a grantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, execute, fetch_all
from icekeeper.kernel.ids import new_id
from tenancy.actor import Actor
from tenancy.audit.recording import actor_name
from tenancy.authn.requests import unknown_assumed_role
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.openfga.outbox import enqueue_creator_grant
from tenancy.authz.securables import MAX_NAMED, names_that_fit, summarize_grants
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.registration import register_principal

PROJECT_ADMIN: Final = "project_admin"


# The row of the grantee is locked against its deletion, which also deletes grants.
_TO_USER: Final = """
INSERT INTO tenancy_grant (
    id, securable_id, path, user_id, role_id, privilege, created_at, granted_by, owned_role_id, expires_at)
SELECT %s, %s, (SELECT path FROM tenancy_securable WHERE id = %s), grantee.id, NULL, %s, %s, %s, %s, NULL
  FROM tenancy_user AS grantee
 WHERE grantee.id = %s AND grantee.deleted_at IS NULL
   AND (%s OR EXISTS (SELECT 1 FROM tenancy_accesstoken AS token
                       WHERE token.id = %s AND token.revoked_at IS NULL AND token.expires_at > %s))
   FOR SHARE
"""


_TO_ROLE: Final = """
INSERT INTO tenancy_grant (
    id, securable_id, path, user_id, role_id, privilege, created_at, granted_by, owned_role_id, expires_at)
SELECT %s, %s, (SELECT path FROM tenancy_securable WHERE id = %s), NULL, grantee.id, %s, %s, %s, %s, NULL
  FROM tenancy_role AS grantee WHERE grantee.id = %s FOR SHARE
"""


def grant_creator(actor: Actor, privilege: str, securable: ObjectRef) -> dict[str, Any]:
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
    row = [new_id(), on, on, privilege, at, actor_name(actor), owned_role]
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


_ENDING: Final = """
WITH ending_grants AS (
    SELECT id, securable_id, privilege, user_id, role_id FROM tenancy_grant
     WHERE (user_id = ANY(%s) OR role_id = ANY(%s) OR securable_id = ANY(%s))
       AND (expires_at IS NULL OR expires_at > %s)
), ending_members AS (
    SELECT id, user_id, member_role_id, role_id FROM tenancy_rolemember
     WHERE (user_id = ANY(%s) OR member_role_id = ANY(%s) OR role_id = ANY(%s))
       AND (expires_at IS NULL OR expires_at > %s)
)
SELECT 'on', substr(securable_id, 1, strpos(securable_id, ':') - 1), NULL, NULL,
       CAST(NULL AS uuid), CAST(NULL AS uuid), count(*) FROM ending_grants GROUP BY 2
UNION ALL
SELECT * FROM (
    SELECT 'granted', securable_id, privilege, user_id, role_id, CAST(NULL AS uuid), 0 FROM ending_grants
     ORDER BY securable_id, privilege, id LIMIT %s) AS granted
UNION ALL
SELECT * FROM (
    SELECT 'member', '', '', user_id, member_role_id, role_id, 0 FROM ending_members ORDER BY id LIMIT %s) AS members
UNION ALL
SELECT 'members', '', '', '', CAST(NULL AS uuid), CAST(NULL AS uuid), count(*) FROM ending_members
"""


def rights_of_user(user_id: str) -> dict[str, Any]:
    """Return the grants and memberships of a user. Call it before their deletion."""
    return _details(users=[user_id])


def rights_of_role(role_id: UUID) -> dict[str, Any]:
    """Return the grants to and on a role, its members and memberships. Call it before their deletion."""
    return _details(roles=[role_id], securables=[securable_id(Securable.Type.ROLE, role_id)])


def rights_of_project(roles: Sequence[UUID], objects: Sequence[ObjectRef]) -> dict[str, Any]:
    """Return the grants on a project and its `objects`, and the grants, members and memberships of its roles.

    Call it before their deletion.
    """
    return _details(roles=roles, securables=[securable_id(*each) for each in objects])


def _details(
    *, users: Sequence[str] = (), roles: Sequence[UUID] = (), securables: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the number of unexpired grants and memberships, and the first of them, as `summarize_grants` and as
    `MEMBER in ROLE`. One statement."""
    grantees: list[Any] = [list(users), list(roles)]
    on: dict[str, int] = {}
    granted: list[tuple[str, str, str]] = []
    members: list[str] = []
    memberships = 0
    at = now()
    params = [*grantees, list(securables), at, *grantees, list(roles), at, MAX_NAMED, MAX_NAMED]
    for kind, object_text, privilege, user_id, member_role_id, role_id, count in fetch_all("default", _ENDING, params):
        grantee = user_id or (f"role:{as_uuid(member_role_id)}" if member_role_id is not None else "")
        if kind == "on":
            on[object_text] = count
        elif kind == "granted":
            granted.append((object_text, privilege, grantee))
        elif kind == "member":
            members.append(f"{grantee} in role:{as_uuid(role_id)}")
        else:
            memberships = count
    return {**summarize_grants(on, granted), "memberships": memberships, "members": names_that_fit(members)}


_DELETE_GRANTS_OF_USER: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE user_id = %s ORDER BY id FOR UPDATE)
"""


_DELETE_GRANTS_OF_ROLES: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE role_id = ANY(%s) OR owned_role_id = ANY(%s) ORDER BY id FOR UPDATE)
"""


def delete_grants_of_user(user_id: str) -> None:
    execute(_DELETE_GRANTS_OF_USER, [user_id])


def delete_grants_of_roles(role_ids: Sequence[UUID]) -> None:
    """Delete the grants to the roles, and the grants of ownership on them."""
    execute(_DELETE_GRANTS_OF_ROLES, [list(role_ids), list(role_ids)])
