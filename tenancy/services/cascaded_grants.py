"""Grants and memberships that are deleted with an object or a grantee: their audit details, and the deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, execute, fetch_all
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.authz.securables import MAX_NAMED, EndedGrants, names_that_fit, summarize_grants
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id

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


def audit_revoked_grants(ended: EndedGrants, *, actor: Actor, ref: ObjectRef, project: str, **details: object) -> None:
    """Record that grants ended with an object and its contents: one row in the transaction of the drop, or none."""
    if ended:
        record(
            Event.GRANT_ENDED, actor=actor, subject=ref.id, object_type=ref.type.value, project=project, **details,
            **ended.as_details(),
        )  # fmt: skip


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
