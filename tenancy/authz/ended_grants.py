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

MOST_TOLD: Final = 100
"""Grants, and memberships, that are named; of more it is told how many there were."""


LONGEST_TOLD: Final = 100_000
"""Characters of JSON for those names, where they are long: of a row with more than it takes nothing would be left."""


class EndedGrants:
    """How many grants ended on what kinds of objects, and the first of them; false when there were none."""

    def __init__(self) -> None:
        self._on: Counter[str] = Counter()
        self._first: list[tuple[str, str, str]] = []

    def add(self, rows: Iterable[Sequence[Any]], *, at: datetime) -> None:
        """Each row is one grant: securable id, privilege, user id, role id, of which one is None, and its own end.

        Those that had come to their end before `at` do not end now, and are left out.
        """
        found = self._first
        for on, privilege, user_id, role_id, expires_at in rows:
            if expires_at is not None and as_datetime(expires_at) <= at:
                continue
            self._on[on.partition(":")[0]] += 1
            found.append((on, privilege, f"role:{as_uuid(role_id)}" if user_id is None else user_id))
        self._first = nsmallest(MOST_TOLD, found)

    def merge(self, other: EndedGrants) -> None:
        self._on.update(other._on)
        self._first = nsmallest(MOST_TOLD, [*self._first, *other._first])

    def __bool__(self) -> bool:
        return bool(self._on)

    def told(self) -> dict[str, Any]:
        return told_of(self._on, self._first)


def told_of(on: Mapping[str, int], first: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """How many there were, on how many of what, and the first of them as `PRIVILEGE on OBJECT to WHOM`."""
    return {
        "grants": sum(on.values()),
        "grants_on": dict(sorted(on.items())),
        "granted": named(f"{privilege} on {own_id} to {who}" for own_id, privilege, who in first),
    }


def named(names: Iterable[str]) -> list[str]:
    """The first of them, as many as there is room for: a user's id may take thousands of characters of JSON."""
    found: list[str] = []
    room = LONGEST_TOLD
    for name in names:
        room -= len(json.dumps(name)) + 1
        if room < 0:
            break
        found.append(name)
    return found


_END_OF_USER: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE user_id = %s ORDER BY id FOR UPDATE)
"""


_END_OF_ROLES: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE role_id = ANY(%s) OR owned_role_id = ANY(%s) ORDER BY id FOR UPDATE)
"""


def end_grants_of_user(user_id: str) -> None:
    execute(_END_OF_USER, [user_id])


def end_grants_of_roles(role_ids: Sequence[UUID]) -> None:
    """What was granted to the roles, and the ownership of them."""
    execute(_END_OF_ROLES, [list(role_ids), list(role_ids)])
