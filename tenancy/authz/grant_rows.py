"""Grants that move, or end, many at once: their rows are locked in the order of their ids.

Who deletes a user locks none of the objects, and who moves or drops those none of the users: it is the grants that they
meet at, and in one order none waits for the other in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from icekeeper.kernel.db.sql import execute, fetch_one

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
_END_OF_USER: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE user_id = %s ORDER BY id FOR UPDATE)
"""
_END_OF_ROLES: Final = """
DELETE FROM tenancy_grant
 WHERE id IN (SELECT id FROM tenancy_grant WHERE role_id = ANY(%s) OR owned_role_id = ANY(%s) ORDER BY id FOR UPDATE)
"""


def move_grants_on(securable_id: str, path: str) -> None:
    """Those on an object that is at `path` now."""
    execute(_MOVE_ON, [path, securable_id])


def move_grants_below(path: str) -> None:
    """Those on the object that is at `path` now, and on all below it.

    After the objects: who grants has locked theirs, so that no grant is missed, and none is made with the old path.
    """
    execute(_MOVE_BELOW, [path, f"{path[:-1]}0"])  # "0" is the character after the slash


def lock_grants_below(path: str) -> None:
    """Those on the object at `path` and on all below it, which are to end in several statements. After the objects."""
    fetch_one("default", _LOCK_BELOW, [path, f"{path[:-1]}0"])


def end_grants_of_user(user_id: str) -> None:
    execute(_END_OF_USER, [user_id])


def end_grants_of_roles(role_ids: Sequence[UUID]) -> None:
    """What was granted to the roles, and the ownership of them."""
    execute(_END_OF_ROLES, [list(role_ids), list(role_ids)])
