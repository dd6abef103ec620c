"""Grants that expire soon, below objects on which the caller may read grants."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
  JOIN tenancy_securable top ON top.id = ANY(%s) AND substr(g.path, 1, length(top.path)) = top.path
 WHERE g.expires_at > %s AND g.expires_at <= %s AND substr(g.securable_id, 1, 5) <> 'role:'
 ORDER BY g.expires_at, g.id
 LIMIT %s
"""


def find_expiring_grants(tops: Sequence[str], hidden: Collection[str]) -> ExpiringGrants | None:
    """Return the grants on and below the securables `tops` that expire within a week; None without any.

    Requires the permission to read grants on each of `tops`, none of which is below another. Grants below the
    securables `hidden`, such as inactive warehouses, do not count, and neither do those of roles. One statement.
    """
    if not tops:
        return None
    at = now()
    rows = fetch_all(settings.READ_DATABASE, _EXPIRING, [list(tops), at, at + EXPIRE_SOON, MAX_EXPIRING + 1])
    shown = [row for row in rows if set(hidden).isdisjoint(row[3].split("/"))]
    if not shown:
        return None
    user_id, role_id, expires_at, path = shown[0]
    grantee = Grantee(user_id, None if role_id is None else as_uuid(role_id))
    return ExpiringGrants(len(shown), as_datetime(expires_at), grantee, project_in(path))
