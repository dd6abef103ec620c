"""What the audit trail tells of the grants and memberships that go with an object, or with whoever has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.ended_grants import MAX_NAMED, EndedGrants, names_that_fit, summarize_grants
from tenancy.models import Securable
from tenancy.refs import ObjectRef, securable_id

_GOING: Final = """
WITH going AS (
    SELECT id, securable_id, privilege, user_id, role_id FROM tenancy_grant
     WHERE (user_id = ANY(%s) OR role_id = ANY(%s) OR securable_id = ANY(%s))
       AND (expires_at IS NULL OR expires_at > %s)
), leaving AS (
    SELECT id, user_id, member_role_id, role_id FROM tenancy_rolemember
     WHERE (user_id = ANY(%s) OR member_role_id = ANY(%s) OR role_id = ANY(%s))
       AND (expires_at IS NULL OR expires_at > %s)
)
SELECT 'on', substr(securable_id, 1, strpos(securable_id, ':') - 1), NULL, NULL,
       CAST(NULL AS uuid), CAST(NULL AS uuid), count(*) FROM going GROUP BY 2
UNION ALL
SELECT * FROM (
    SELECT 'granted', securable_id, privilege, user_id, role_id, CAST(NULL AS uuid), 0 FROM going
     ORDER BY securable_id, privilege, id LIMIT %s) AS granted
UNION ALL
SELECT * FROM (
    SELECT 'member', '', '', user_id, member_role_id, role_id, 0 FROM leaving ORDER BY id LIMIT %s) AS members
UNION ALL
SELECT 'members', '', '', '', CAST(NULL AS uuid), CAST(NULL AS uuid), count(*) FROM leaving
"""


def rights_of_user(user_id: str) -> dict[str, Any]:
    """To be looked at before they are deleted: all that was granted to a user, and the roles that they were in."""
    return _details(users=[user_id])


def rights_of_role(role_id: UUID) -> dict[str, Any]:
    """To be looked at before the role is deleted: what was granted to it and on it, its members, and what it was in."""
    return _details(roles=[role_id], securables=[securable_id(Securable.Type.ROLE, role_id)])


def rights_of_project(roles: Sequence[UUID], objects: Sequence[ObjectRef]) -> dict[str, Any]:
    """To be looked at before the project is deleted: what was granted on it and what goes with it, `objects`, what was
    granted to its roles, on whatever it was, their members, and what they were in."""
    return _details(roles=roles, securables=[securable_id(*each) for each in objects])


def audit_revoked_grants(ended: EndedGrants, *, actor: Actor, ref: ObjectRef, project: str, **details: object) -> None:
    """That grants ended with an object and with what was in it: one row, in the transaction of the drop, or none."""
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
    holders: list[Any] = [list(users), list(roles)]
    on: dict[str, int] = {}
    granted: list[tuple[str, str, str]] = []
    members: list[str] = []
    memberships = 0
    at = now()
    params = [*holders, list(securables), at, *holders, list(roles), at, MAX_NAMED, MAX_NAMED]
    for what, one, other, user_id, holder, role_id, count in fetch_all("default", _GOING, params):
        who = user_id or (f"role:{as_uuid(holder)}" if holder is not None else "")
        if what == "on":
            on[one] = count
        elif what == "granted":
            granted.append((one, other, who))
        elif what == "member":
            members.append(f"{who} in role:{as_uuid(role_id)}")
        else:
            memberships = count
    return {**summarize_grants(on, granted), "memberships": memberships, "members": names_that_fit(members)}
