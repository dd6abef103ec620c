"""Grants that are deleted with their object or grantee, and the bounded summary of them for the audit trail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.db.sql import as_datetime, as_uuid, execute

MAX_NAMED: Final = 100
"""Grants, and memberships, that an audit row names; of more it has only the number."""


MAX_NAMES_LENGTH: Final = 100_000
"""Characters of JSON for these names: a larger audit row could not be stored."""


class EndedGrants:
    """The number of deleted grants by type of object, and the first of them; false when there are none."""

    def __init__(self) -> None:
        self._on: Counter[str] = Counter()
        self._first: list[tuple[str, str, str]] = []

    def add(self, rows: Iterable[Sequence[Any]], *, at: datetime) -> None:
        """Add rows of grants: securable id, privilege, user id, role id (one of the two is None), expiry.

        Grants that had expired at `at` are left out.
        """
        found = self._first
        for on, privilege, user_id, role_id, expires_at in rows:
            if expires_at is not None and as_datetime(expires_at) <= at:
                continue
            self._on[on.partition(":")[0]] += 1
            found.append((on, privilege, f"role:{as_uuid(role_id)}" if user_id is None else user_id))
        self._first = nsmallest(MAX_NAMED, found)

    def merge(self, other: EndedGrants) -> None:
        self._on.update(other._on)
        self._first = nsmallest(MAX_NAMED, [*self._first, *other._first])

    def __bool__(self) -> bool:
        return bool(self._on)

    def as_details(self) -> dict[str, Any]:
        return summarize_grants(self._on, self._first)


def summarize_grants(on: Mapping[str, int], first: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the number of grants, in total and by type, and the first as `PRIVILEGE on OBJECT to GRANTEE`."""
    return {
        "grants": sum(on.values()),
        "grants_on": dict(sorted(on.items())),
        "granted": names_that_fit(f"{privilege} on {own_id} to {who}" for own_id, privilege, who in first),
    }


def names_that_fit(names: Iterable[str]) -> list[str]:
    """Return the first names, as many as `MAX_NAMES_LENGTH` allows: a user id may take thousands of characters."""
    found: list[str] = []
    room = MAX_NAMES_LENGTH
    for name in names:
        room -= len(json.dumps(name)) + 1
        if room < 0:
            break
        found.append(name)
    return found


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
