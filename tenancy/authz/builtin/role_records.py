"""The relation rows of who is in which role, for what tells the ways into roles: not of the hot paths.

What has ended is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.authz.builtin.records import Asker, read_token_roles
from tenancy.authz.role_ways import Edge, Entry, Membership, RoleGraph

_LASTS: Final = "(expires_at IS NULL OR expires_at > %s)"

_EDGES: Final = f"""
WITH RECURSIVE edge(member_role_id, role_id, entry, expires_at) AS (
    SELECT member_role_id, role_id, 'member', expires_at FROM tenancy_rolemember
     WHERE member_role_id IS NOT NULL AND {_LASTS}
    UNION ALL
    SELECT role_id, owned_role_id, 'owner', expires_at FROM tenancy_grant
     WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND {_LASTS}
)"""  # noqa: S608 - constants, as below
"""Which roles are in which: as members, or as owners."""


def _edges_from(near: str, far: str) -> str:
    """The statement that walks over memberships from given roles at their `near` end to the `far` one, and on."""
    return f"""{_EDGES}, reached(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT edge.{far} FROM reached JOIN edge ON edge.{near} = reached.role_id
)
SELECT edge.member_role_id, edge.role_id, edge.entry, edge.expires_at
  FROM edge JOIN reached ON reached.role_id = edge.{near}
"""  # noqa: S608


_EDGES_INTO: Final = _edges_from("role_id", "member_role_id")
_EDGES_OUT: Final = _edges_from("member_role_id", "role_id")

_OF_USERS: Final = f"""
SELECT user_id, role_id, entry, expires_at FROM (
    SELECT user_id, role_id, 'member' AS entry, expires_at FROM tenancy_rolemember
     WHERE user_id = ANY(%s) AND {_LASTS}
    UNION ALL
    SELECT user_id, owned_role_id, 'owner', expires_at FROM tenancy_grant
     WHERE user_id = ANY(%s) AND owned_role_id IS NOT NULL AND {_LASTS}
) AS entered
"""  # noqa: S608
_OF_USERS_IN: Final = f"{_OF_USERS} WHERE role_id = ANY(%s)"


def read_graph_into(roles: Collection[UUID]) -> RoleGraph:
    """Over which memberships one gets into the given roles, in whatever depth. At most one statement."""
    return _graph(_EDGES_INTO, roles)


def read_graph_out_of(roles: Collection[UUID]) -> RoleGraph:
    """Over which memberships the given roles get into others, in whatever depth. At most one statement."""
    return _graph(_EDGES_OUT, roles)


def read_memberships_in(user_ids: Sequence[str], roles: Collection[UUID]) -> dict[str, list[Membership]]:
    """Of users: how they are in some of `roles` themselves. At most one statement."""
    found: dict[str, list[Membership]] = {}
    if not (user_ids and roles):
        return found
    at, ids = now(), list(user_ids)
    for user_id, *entered in fetch_all("default", _OF_USERS_IN, [ids, at, ids, at, list(roles)]):
        found.setdefault(user_id, []).append(_membership(*entered))
    return found


def read_memberships_of(asker: Asker) -> list[Membership]:
    """What somebody is in themselves: roles, those that the token brings, or the one that is assumed. At most two
    statements."""
    if asker.assumed_role is not None:
        return [Membership(asker.assumed_role, Entry.ASSUMED)]
    found: list[Membership] = []
    if asker.user_id is not None:
        at, ids = now(), [asker.user_id]
        found += [_membership(*entered) for _, *entered in fetch_all("default", _OF_USERS, [ids, at, ids, at])]
    if asker.token_roles:
        found += [Membership(each, Entry.TOKEN) for each in read_token_roles(asker)]
    return found


def _graph(statement: str, roles: Collection[UUID]) -> RoleGraph:
    rows = fetch_all("default", statement, [now(), now(), list(roles)]) if roles else []
    return RoleGraph(Edge(as_uuid(inner), _membership(*entered)) for inner, *entered in rows)


def _membership(role_id: Any, entry: str, end: Any) -> Membership:
    return Membership(as_uuid(role_id), Entry(entry), None if end is None else as_datetime(end))
