"""That projects and the server never lose their last administrator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.errors import Conflict
from icekeeper.kernel.sql import fetch_all
from tenancy.authz.privileges import ADMINISTRATORS
from tenancy.models import Securable

_PRIVILEGES: Final = sorted({each for names in ADMINISTRATORS.values() for each in names})

# A grant that ends keeps nobody an administrator, nor does a role that nobody is in.
_ADMINISTRATED: Final = """
WITH RECURSIVE holder(securable_id, role_id) AS (
    SELECT securable_id, role_id FROM tenancy_grant
     WHERE securable_id = ANY(%s) AND privilege = ANY(%s) AND role_id IS NOT NULL AND expires_at IS NULL
    UNION
    SELECT holder.securable_id, m.member_role_id FROM holder JOIN tenancy_rolemember AS m ON m.role_id = holder.role_id
     WHERE m.member_role_id IS NOT NULL AND m.expires_at IS NULL
)
SELECT g.securable_id FROM tenancy_grant AS g JOIN tenancy_user AS u ON u.id = g.user_id
 WHERE g.securable_id = ANY(%s) AND g.privilege = ANY(%s) AND g.expires_at IS NULL AND u.deleted_at IS NULL
UNION
SELECT holder.securable_id
  FROM holder JOIN tenancy_rolemember AS m ON m.role_id = holder.role_id JOIN tenancy_user AS u ON u.id = m.user_id
 WHERE m.expires_at IS NULL AND u.deleted_at IS NULL
"""

# What somebody administrates, themselves or through roles.
_HELD_BY: Final = """
WITH RECURSIVE held(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT role_id FROM tenancy_rolemember WHERE user_id = %s
    UNION
    SELECT m.role_id FROM held JOIN tenancy_rolemember AS m ON m.member_role_id = held.role_id
)
SELECT DISTINCT securable_id FROM tenancy_grant
 WHERE privilege = ANY(%s) AND (user_id = %s OR role_id IN (SELECT role_id FROM held))
 ORDER BY securable_id
"""


class LastAdministrator(Conflict):
    """Somebody else must be one first."""

    wire_type = "LastAdministrator"


@contextmanager
def keeping_administrators(securable_ids: Sequence[str]) -> Iterator[None]:
    """Around a change of who administrates these projects or the server, in the caller's transaction.

    Their securables are locked. Raises `LastAdministrator` (409) when one that had an administrator has none any more.
    """
    administrated = [each for each in securable_ids if each.partition(":")[0] in ADMINISTRATORS]
    if not administrated:
        yield
        return
    rows = Securable.objects.filter(pk__in=administrated).order_by("pk").select_for_update(no_key=True)
    ids = list(rows.values_list("pk", flat=True))
    before = administrated_among(ids)
    yield
    orphaned = sorted(before - administrated_among(ids))
    if orphaned:
        raise LastAdministrator(f"Nobody would administrate {orphaned[0]} any more: appoint somebody else first")


def administrated_by(*, user_id: str | None = None, role_ids: Sequence[UUID] = ()) -> list[str]:
    """The projects and the server, by securable id, that a user or roles administrate, directly or through roles."""
    rows = fetch_all("default", _HELD_BY, [list(role_ids), user_id, _PRIVILEGES, user_id])
    return [row[0] for row in rows]


def administrated_among(ids: Sequence[str]) -> set[str]:
    """Which of these projects, or the server, by securable id, somebody administrates."""
    params: list[Any] = [list(ids), _PRIVILEGES]
    return {row[0] for row in fetch_all("default", _ADMINISTRATED, [*params, *params])}
