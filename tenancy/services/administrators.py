"""Protection of the last administrator of projects and of the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import Conflict
from tenancy.authz.privileges import ADMINISTRATORS
from tenancy.models import Securable
from tenancy.refs import ObjectRef

_PRIVILEGES: Final = sorted({each for names in ADMINISTRATORS.values() for each in names})

# Owners of a role are members. Grants with an expiry and roles without members do not count.
_ADMINISTRATED: Final = """
WITH RECURSIVE holder(securable_id, role_id) AS (
    SELECT securable_id, role_id FROM tenancy_grant
     WHERE securable_id = ANY(%s) AND privilege = ANY(%s) AND role_id IS NOT NULL AND expires_at IS NULL
    UNION
    SELECT holder.securable_id, inside.inner_id
      FROM holder JOIN (
        SELECT role_id AS outer_id, member_role_id AS inner_id FROM tenancy_rolemember
         WHERE member_role_id IS NOT NULL AND expires_at IS NULL
        UNION ALL
        SELECT owned_role_id, role_id FROM tenancy_grant
         WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND expires_at IS NULL
      ) AS inside ON inside.outer_id = holder.role_id
)
SELECT g.securable_id FROM tenancy_grant AS g JOIN tenancy_user AS u ON u.id = g.user_id
 WHERE g.securable_id = ANY(%s) AND g.privilege = ANY(%s) AND g.expires_at IS NULL
   AND u.deleted_at IS NULL AND u.is_active
UNION
SELECT holder.securable_id
  FROM holder JOIN tenancy_rolemember AS m ON m.role_id = holder.role_id JOIN tenancy_user AS u ON u.id = m.user_id
 WHERE m.expires_at IS NULL AND u.deleted_at IS NULL AND u.is_active
UNION
SELECT holder.securable_id
  FROM holder JOIN tenancy_grant AS o ON o.owned_role_id = holder.role_id JOIN tenancy_user AS u ON u.id = o.user_id
 WHERE o.expires_at IS NULL AND u.deleted_at IS NULL AND u.is_active
"""

# The roles of a user, and the roles that these are members or owners of.
_HELD: Final = """
WITH RECURSIVE held(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT role_id FROM tenancy_rolemember WHERE user_id = %s
    UNION
    SELECT owned_role_id FROM tenancy_grant WHERE user_id = %s AND owned_role_id IS NOT NULL
    UNION
    SELECT around.outer_id
      FROM held JOIN (
        SELECT member_role_id AS inner_id, role_id AS outer_id FROM tenancy_rolemember WHERE member_role_id IS NOT NULL
        UNION ALL
        SELECT role_id, owned_role_id FROM tenancy_grant WHERE role_id IS NOT NULL AND owned_role_id IS NOT NULL
      ) AS around ON around.inner_id = held.role_id
)
"""
_HELD_BY: Final = f"""{_HELD}
SELECT DISTINCT securable_id, privilege FROM tenancy_grant
 WHERE privilege = ANY(%s) AND (user_id = %s OR role_id IN (SELECT role_id FROM held))
 ORDER BY securable_id, privilege
"""  # noqa: S608 - constant texts
_LOCK_ROLES: Final = f"""{_HELD}
SELECT id, project_id FROM tenancy_role
 WHERE id = ANY(%s) OR id IN (SELECT role_id FROM held)
 ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 - constant texts


class LastAdministrator(Conflict):
    """The change would remove the last administrator."""

    wire_type = "LastAdministrator"


@contextmanager
def keeping_administrators(securable_ids: Sequence[str], *, deleted: str | None = None) -> Iterator[None]:
    """Guard a change of administrators of these projects or the server, in the caller's transaction.

    Locks their securables. Raises `LastAdministrator` (409) if the change removes the last administrator of one of
    them, except of `deleted`, which is itself deleted.
    """
    administrated = [each for each in securable_ids if each.partition(":")[0] in ADMINISTRATORS]
    if not administrated:
        yield
        return
    rows = Securable.objects.filter(pk__in=administrated).order_by("pk").select_for_update(no_key=True)
    ids = list(rows.values_list("pk", flat=True))
    before = administrated_among(ids)
    yield
    orphaned = sorted(before - administrated_among(ids) - {deleted})
    if orphaned:
        raise LastAdministrator(f"{orphaned[0]} would lose its last administrator: appoint another one first")


def administrated_by(*, user_id: str | None = None, role_ids: Sequence[UUID] = ()) -> list[str]:
    """Return the securable ids of the projects and server that a user or roles administrate, also through roles."""
    return list(dict.fromkeys(own_id for own_id, _ in _administering(user_id, role_ids)))


def administering_privileges(
    *, user_id: str | None = None, role_ids: Sequence[UUID] = ()
) -> list[tuple[str, ObjectRef]]:
    """Return the privileges, with their objects, with which a user or the members of roles are administrators; also
    those through other roles."""
    found = ((privilege, own_id.partition(":")) for own_id, privilege in _administering(user_id, role_ids))
    return [(privilege, ObjectRef(Securable.Type(on_type), object_id)) for privilege, (on_type, _, object_id) in found]


def lock_roles(
    *, role_ids: Sequence[UUID] = (), within: Sequence[UUID] = (), user_id: str | None = None
) -> dict[UUID, str]:
    """Lock roles in the order of ids, for `within` and `user_id` with all roles that they are members of.

    Returns the project of each existing role. The lock excludes grants to these roles until the end of the caller's
    transaction, which must have locked the project's row for `within`, the user's row for `user_id`, and no securable.
    """
    rows = fetch_all("default", _LOCK_ROLES, [list(within), user_id, user_id, list(role_ids)])
    return {as_uuid(own_id): project_id for own_id, project_id in rows}


def _administering(user_id: str | None, role_ids: Sequence[UUID]) -> list[tuple[str, str]]:
    params = [list(role_ids), user_id, user_id, _PRIVILEGES, user_id]
    return [(row[0], row[1]) for row in fetch_all("default", _HELD_BY, params)]


def administrated_among(ids: Sequence[str]) -> set[str]:
    """Return the securable ids of these projects and server that have an administrator."""
    params: list[Any] = [list(ids), _PRIVILEGES]
    return {row[0] for row in fetch_all("default", _ADMINISTRATED, [*params, *params])}
