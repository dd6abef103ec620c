"""That projects and the server never lose their last administrator."""

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

# Owners of a role are in it. What ends keeps nobody an administrator, nor does a role that nobody is in.
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

# The roles that somebody has, and those that these are in or own.
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
    """Somebody else must be one first."""

    wire_type = "LastAdministrator"


@contextmanager
def keeping_administrators(securable_ids: Sequence[str], *, going: str | None = None) -> Iterator[None]:
    """Around a change of who administrates these projects or the server, in the caller's transaction.

    Their securables are locked. Raises `LastAdministrator` (409) when one that had an administrator has none any more,
    but for `going`, which is itself deleted.
    """
    administrated = [each for each in securable_ids if each.partition(":")[0] in ADMINISTRATORS]
    if not administrated:
        yield
        return
    rows = Securable.objects.filter(pk__in=administrated).order_by("pk").select_for_update(no_key=True)
    ids = list(rows.values_list("pk", flat=True))
    before = administrated_among(ids)
    yield
    orphaned = sorted(before - administrated_among(ids) - {going})
    if orphaned:
        raise LastAdministrator(f"Nobody would administrate {orphaned[0]} any more: appoint somebody else first")


def administrated_by(*, user_id: str | None = None, role_ids: Sequence[UUID] = ()) -> list[str]:
    """The projects and the server, by securable id, that a user or roles administrate, directly or through roles."""
    return list(dict.fromkeys(own_id for own_id, _ in _administering(user_id, role_ids)))


def administering_privileges(
    *, user_id: str | None = None, role_ids: Sequence[UUID] = ()
) -> list[tuple[str, ObjectRef]]:
    """What makes a user, or those in roles, administrators: privileges, and on what, their own and those of roles that
    they are in."""
    found = ((privilege, own_id.partition(":")) for own_id, privilege in _administering(user_id, role_ids))
    return [(privilege, ObjectRef(Securable.Type(on_type), object_id)) for privilege, (on_type, _, object_id) in found]


def lock_roles(
    *, role_ids: Sequence[UUID] = (), within: Sequence[UUID] = (), user_id: str | None = None
) -> dict[UUID, str]:
    """Lock roles, and of those `within`, and of `user_id`, also all that they are in, by their ids; the project of each
    that there is.

    Nothing is granted to them from now on to the end of the caller's transaction. It holds the project's row already
    where it names `within`, the user's where it names one, and no securable yet.
    """
    rows = fetch_all("default", _LOCK_ROLES, [list(within), user_id, user_id, list(role_ids)])
    return {as_uuid(own_id): project_id for own_id, project_id in rows}


def _administering(user_id: str | None, role_ids: Sequence[UUID]) -> list[tuple[str, str]]:
    params = [list(role_ids), user_id, user_id, _PRIVILEGES, user_id]
    return [(row[0], row[1]) for row in fetch_all("default", _HELD_BY, params)]


def administrated_among(ids: Sequence[str]) -> set[str]:
    """Which of these projects, or the server, by securable id, somebody administrates."""
    params: list[Any] = [list(ids), _PRIVILEGES]
    return {row[0] for row in fetch_all("default", _ADMINISTRATED, [*params, *params])}
