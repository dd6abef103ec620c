"""Grants that expire soon, on projects and in warehouses whose grants the caller may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.actor import Grantee
from tenancy.models.securable import project_in

EXPIRE_SOON: Final = timedelta(days=7)
MAX_EXPIRING: Final = 100
"""Grants that are counted."""


@dataclass(frozen=True, slots=True)
class ExpiringGrants:
    """The number of grants, at most `MAX_EXPIRING` + 1, and the first to expire, with the project of its object."""

    count: int
    expires_at: datetime
    grantee: Grantee
    project_id: str | None


# Compared as text: LIKE ignores case on SQLite, and ids of projects may differ in case alone.
_EXPIRING: Final = """
SELECT g.user_id, g.role_id, g.expires_at, g.path
  FROM tenancy_grant g
  JOIN tenancy_securable top ON (top.id = ANY(%s) AND g.path = top.path)
    OR (top.id = ANY(%s) AND substr(g.path, 1, length(top.path)) = top.path)
 WHERE g.expires_at > %s AND g.expires_at <= %s
 ORDER BY g.expires_at, g.id
 LIMIT %s
"""


def find_expiring_grants(projects: Sequence[str], warehouses: Sequence[str]) -> ExpiringGrants | None:
    """Return the grants on these projects, and on and in these warehouses, that expire within a week; None without any.

    Both are ids of securables. The caller has checked the permission to read grants on the projects alone, and to
    manage grants on the warehouses, which is inherited: that to read grants is not. One statement.
    """
    if not projects and not warehouses:
        return None
    at = now()
    given = [list(projects), list(warehouses), at, at + EXPIRE_SOON, MAX_EXPIRING + 1]
    rows = fetch_all(settings.READ_DATABASE, _EXPIRING, given)
    if not rows:
        return None
    user_id, role_id, expires_at, path = rows[0]
    grantee = Grantee(user_id, None if role_id is None else as_uuid(role_id))
    return ExpiringGrants(len(rows), as_datetime(expires_at), grantee, project_in(path))
