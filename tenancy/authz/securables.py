"""Securables: the rows that grants refer to, written in the transaction of the object that they represent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any, Final

from django.db import connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows_returning
from icekeeper.kernel.db.sql import as_datetime, as_uuid, execute, fetch_all, fetch_one
from tenancy.authz.openfga.outbox import enqueue_move, enqueue_new_object, enqueue_object_deletion
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id

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
    remaining = MAX_NAMES_LENGTH
    for name in names:
        remaining -= len(json.dumps(name)) + 1
        if remaining < 0:
            break
        found.append(name)
    return found


_ADD_ROOT = "INSERT INTO tenancy_securable (id, type, object_id, parent_id, path) VALUES (%s, %s, %s, NULL, %s)"


_ADD_BELOW = """
INSERT INTO tenancy_securable (id, type, object_id, parent_id, path)
SELECT %s, %s, %s, above.id, above.path || %s FROM tenancy_securable AS above WHERE above.id = %s
"""


def add_securable(securable_type: Securable.Type, object_id: object, *, parent: ObjectRef | None) -> None:
    """Register a new object below `parent` in the caller's transaction. Raises `DoesNotExist` without a parent."""
    own_id = securable_id(securable_type, object_id)
    row = [own_id, securable_type.value, str(object_id), f"{own_id}/"]
    if parent is None:
        execute(_ADD_ROOT, row)
        return
    parent_id = securable_id(*parent)
    if not execute(_ADD_BELOW, [*row, parent_id]):
        raise Securable.DoesNotExist(parent_id)
    enqueue_new_object(own_id, parent_id)


def are_registered(refs: Sequence[ObjectRef]) -> list[bool]:
    """Return for each object, in order, whether it exists, also if it is hidden from the caller."""
    ids = [securable_id(*ref) for ref in refs]
    found = set(Securable.objects.filter(pk__in=ids).values_list("pk", flat=True))
    return [own_id in found for own_id in ids]


def move_securable(securable_type: Securable.Type, object_id: object, *, parent: ObjectRef) -> None:
    """Move an object without children to another parent."""
    own_id = securable_id(securable_type, object_id)
    enqueue_move(own_id, securable_id(*parent))
    parent_path = Securable.objects.values_list("path", flat=True).get(pk=securable_id(*parent))
    path = f"{parent_path}{own_id}/"
    Securable.objects.filter(pk=own_id).update(parent_id=securable_id(*parent), path=path)
    move_grants_on(own_id, path)


def move_securable_tree(securable_type: Securable.Type, object_id: object, *, parent: ObjectRef) -> None:
    """Move an object with its subtree to another parent, which must not be below the object itself.

    The caller must have locked the rows that services lock before they add objects to the subtree or move a subtree.
    """
    own_id, parent_id = securable_id(securable_type, object_id), securable_id(*parent)
    enqueue_move(own_id, parent_id)
    paths = dict(Securable.objects.filter(pk__in=[own_id, parent_id]).values_list("pk", "path"))
    old, new = paths[own_id], f"{paths[parent_id]}{own_id}/"
    Securable.objects.filter(pk=own_id).update(parent_id=parent_id)
    execute(_MOVE_TREE, [new, len(old) + 1, old, end_of(old)])
    move_grants_below(new)


_MOVE_TREE = "UPDATE tenancy_securable SET path = %s || substr(path, %s) WHERE path ~>=~ %s AND path ~<~ %s"


_LOCK_TREE = """
SELECT count(*) FROM (
    SELECT id FROM tenancy_securable WHERE path ~>=~ %s AND path ~<~ %s ORDER BY id FOR UPDATE) AS locked
"""


def lock_securable_tree(securable_type: Securable.Type, object_id: object) -> None:
    """Lock an object, its subtree and all grants on them, before they are removed in several steps.

    The order of the locks avoids deadlocks with other deletions of grants. SQLite has no row locks.
    """
    if connection.vendor == "postgresql":
        path = Securable.objects.values_list("path", flat=True).get(pk=securable_id(securable_type, object_id))
        fetch_all("default", _LOCK_TREE, [path, end_of(path)])
        lock_grants_below(path)


def remove_securables(refs: Iterable[ObjectRef]) -> EndedGrants:
    """Remove several objects and return the unexpired grants that are deleted with them.

    No other object may be below them; the database checks that at the commit.
    """
    ids = sorted(securable_id(*ref) for ref in refs)
    _lock_to_delete(ids)
    enqueue_object_deletion(ids)
    ended = EndedGrants()
    ended.add(delete_rows_returning(Securable, ids, child=Grant, columns=_OF_GRANTS), at=now())
    return ended


def _lock_to_delete(ids: list[str]) -> None:
    """Lock the objects before their grants, as grants and moves do, so that no new grant on them is written."""
    if connection.vendor == "postgresql":
        fetch_all("default", "SELECT id FROM tenancy_securable WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [ids])


_OF_GRANTS = "securable_id, privilege, user_id, role_id, expires_at"


def remove_securable(securable_type: Securable.Type, object_id: object) -> EndedGrants:
    return remove_securables([ObjectRef(securable_type, object_id)])


def end_of(path: str) -> str:
    """Return the end of the range of all paths below a path: "0" is the character after the slash."""
    return f"{path[:-1]}0"


_MOVE_ON: Final = """
UPDATE tenancy_grant SET path = %s
 WHERE id IN (SELECT id FROM tenancy_grant WHERE securable_id = %s ORDER BY id FOR UPDATE)
"""


_MOVE_BELOW: Final = """
UPDATE tenancy_grant SET path = (SELECT s.path FROM tenancy_securable AS s WHERE s.id = tenancy_grant.securable_id)
 WHERE id IN (
    SELECT id FROM tenancy_grant
     WHERE securable_id IN (SELECT id FROM tenancy_securable WHERE path ~>=~ %s AND path ~<~ %s)
     ORDER BY id FOR UPDATE)
"""


_LOCK_BELOW: Final = """
SELECT count(*) FROM (
    SELECT id FROM tenancy_grant
     WHERE securable_id IN (SELECT id FROM tenancy_securable WHERE path ~>=~ %s AND path ~<~ %s)
     ORDER BY id FOR UPDATE) AS locked
"""


def move_grants_on(securable_id: str, path: str) -> None:
    """Update the paths of the grants on an object that was moved to `path`."""
    execute(_MOVE_ON, [path, securable_id])


def move_grants_below(path: str) -> None:
    """Update the paths of the grants on the object that was moved to `path`, and on its subtree.

    Call it after the objects were updated: new grants lock their object, so that none has the old path.
    """
    execute(_MOVE_BELOW, [path, end_of(path)])


def lock_grants_below(path: str) -> None:
    """Lock the grants on the object at `path` and on its subtree. Call it after the objects are locked."""
    fetch_one("default", _LOCK_BELOW, [path, end_of(path)])
