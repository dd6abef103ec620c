"""The relation rows that decide, each question one statement.

Roles are followed to whatever depth, in circles, too. What has expired does not count. All of it is read where it is
written: a replica that lags would give back what was taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.sql import Row, as_uuid, fetch_all
from tenancy.actor import Actor
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.model import MANAGED_ACCESS
from tenancy.authz.securables import Ref, securable_id


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose rights count: those of a user with the roles that the token brings, or of the one role that is assumed."""

    user_id: str | None
    assumed_role: UUID | None
    provider_id: str
    token_roles: tuple[str, ...]

    @classmethod
    def of(cls, actor: Actor) -> Asker:
        if actor.assumed_role is not None:
            return cls(None, actor.assumed_role, "", ())
        identity = actor.identity
        if identity is None or not identity.roles:
            return cls(actor.user_id, None, "", ())
        return cls(actor.user_id, None, identity.provider_id, tuple(r for r in identity.roles if "\x00" not in r))


@dataclass(frozen=True, slots=True)
class Held:
    """The paths to the objects that were asked about, by securable id; whether something visible lies below those of
    which that was asked, too; the asker's roles; and for how long it holds."""

    paths: Mapping[str, tuple[Node, ...]]
    shows_below: Mapping[str, bool]
    role_ids: tuple[UUID, ...]
    expires_at: datetime | None


# The roles of the asker, found or known already.
_FOUND = """
edge(member_role_id, role_id) AS (
    SELECT member_role_id, role_id FROM tenancy_rolemember
     WHERE member_role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
    UNION ALL
    SELECT role_id, owned_role_id FROM tenancy_grant
     WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
), acting(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = %s
    UNION
    SELECT id FROM tenancy_role WHERE provider_id = %s AND source_id = ANY(%s)
    UNION
    SELECT role_id FROM tenancy_rolemember WHERE user_id = %s AND (expires_at IS NULL OR expires_at > %s)
    UNION
    SELECT owned_role_id FROM tenancy_grant
     WHERE user_id = %s AND owned_role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
    UNION
    SELECT edge.role_id FROM acting JOIN edge ON edge.member_role_id = acting.role_id
)"""
_KNOWN = "acting(role_id) AS (SELECT id FROM tenancy_role WHERE id = ANY(%s))"

# What shows itself, and so whatever it lies in: a grant on something below.
_SHOWN = """
  FROM tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
 WHERE (g.user_id = %s OR g.role_id IN (SELECT role_id FROM acting)) AND g.privilege = ANY(%s)
   AND (g.expires_at IS NULL OR g.expires_at > %s) AND s.type = ANY(%s)
"""

_HELD = """
WITH RECURSIVE {acting}, up(id, parent_id, managed_access) AS (
    SELECT id, parent_id, managed_access FROM tenancy_securable WHERE id = ANY(%s)
    UNION
    SELECT above.id, above.parent_id, above.managed_access
      FROM up JOIN tenancy_securable AS above ON above.id = up.parent_id
)
SELECT 'object', id, parent_id, managed_access, NULL FROM up
UNION ALL
SELECT 'grant', g.securable_id, g.privilege, NULL, g.expires_at
  FROM up JOIN tenancy_grant AS g ON g.securable_id = up.id AND g.user_id = %s
 WHERE g.expires_at IS NULL OR g.expires_at > %s
UNION ALL
SELECT 'grant', g.securable_id, g.privilege, NULL, g.expires_at
  FROM up JOIN tenancy_grant AS g ON g.securable_id = up.id AND g.role_id IN (SELECT role_id FROM acting)
 WHERE g.expires_at IS NULL OR g.expires_at > %s
UNION ALL
SELECT 'role', CAST(role_id AS text), NULL, NULL, NULL FROM acting
UNION ALL
SELECT 'shows', top.id, NULL, NULL, NULL FROM tenancy_securable AS top
 WHERE top.id = ANY(%s) AND EXISTS ({shown_below})
UNION ALL
SELECT 'until', NULL, NULL, NULL, MIN(expires_at) FROM tenancy_rolemember
 WHERE expires_at > %s AND (user_id = %s OR member_role_id IN (SELECT role_id FROM acting))
UNION ALL
SELECT 'until', NULL, NULL, NULL, MIN(expires_at) FROM tenancy_grant
 WHERE owned_role_id IS NOT NULL AND expires_at > %s AND (user_id = %s OR role_id IN (SELECT role_id FROM acting))
"""

_SHOWN_BELOW = (
    f"SELECT 1 {_SHOWN} AND s.path ~>~ top.path AND s.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')"
)

_SHOWS_BELOW = """
WITH RECURSIVE {acting}
SELECT top.id FROM tenancy_securable AS top WHERE top.id = ANY(%s) AND EXISTS ({shown_below})
"""

_SHOWN_CHILDREN = """
WITH RECURSIVE {acting}
SELECT DISTINCT c.object_id FROM tenancy_securable AS c
 WHERE c.parent_id = %s AND c.type = %s AND c.object_id > %s
   AND c.id IN (SELECT substr(rest, 1, strpos(rest, '/') - 1) FROM (
        SELECT substr(s.path, length(top.path) + 1) AS rest
          FROM tenancy_securable AS top, (SELECT s.path {shown}) AS s
         WHERE top.id = %s AND s.path ~>~ top.path
           AND s.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')) AS below)
 ORDER BY c.object_id LIMIT %s
"""


def _both(statement: str) -> dict[bool, str]:
    """By whether the asker's roles are known."""
    return {
        is_known: statement.format(acting=_KNOWN if is_known else _FOUND, shown=_SHOWN, shown_below=_SHOWN_BELOW)
        for is_known in (False, True)
    }


HELD: Final = _both(_HELD)
SHOWS_BELOW: Final = _both(_SHOWS_BELOW)
SHOWN_CHILDREN: Final = _both(_SHOWN_CHILDREN)


def read_held(asker: Asker, ids: Sequence[str], *, roles: tuple[UUID, ...] | None, below: Sequence[str] = ()) -> Held:
    """What the asker holds on the securables `ids` and above them; `roles` are the asker's if they are known.

    Of those that are in `below`, too, it is found out whether something below is visible. Of a securable that there is
    not, the path is its own node alone, on which nothing is held.
    """
    at = now()
    user_id = asker.user_id
    params = [list(ids), user_id, at, at, list(below), *_shown(asker, at), at, user_id, at, user_id]
    rows = fetch_all("default", HELD[roles is not None], [*_acting(asker, roles, at), *params])
    objects: dict[str, tuple[str | None, set[str]]] = {
        own_id: (parent_id, {MANAGED_ACCESS} if managed else set())
        for kind, own_id, parent_id, managed, _ in rows
        if kind == "object"
    }
    ends = []
    found_roles = []
    shows = dict.fromkeys(below, False)
    for kind, own_id, privilege, _, expires_at in rows:
        if kind == "grant":
            objects[own_id][1].add(privilege)
        elif kind == "role":
            found_roles.append(as_uuid(own_id))
        elif kind == "shows":
            shows[own_id] = True
        if expires_at is not None:
            ends.append(_datetime(expires_at))
    nodes = {own_id: Node(own_id.partition(":")[0], own_id, frozenset(held)) for own_id, (_, held) in objects.items()}
    paths: dict[str, tuple[Node, ...]] = {}
    for own_id in ids:
        path, here = [], own_id if own_id in nodes else None
        while here is not None:
            path.append(nodes[here])
            here = objects[here][0]
        paths[own_id] = tuple(reversed(path)) or (Node(own_id.partition(":")[0], own_id, frozenset()),)
    return Held(paths, shows, tuple(found_roles), min(ends, default=None))


def read_shows_below(asker: Asker, ids: Sequence[str], *, roles: tuple[UUID, ...] | None) -> dict[str, bool]:
    """Of each of the securables `ids`: whether the asker has a grant on something below that makes it visible."""
    at = now()
    params = [list(ids), *_shown(asker, at)]
    rows = fetch_all("default", SHOWS_BELOW[roles is not None], [*_acting(asker, roles, at), *params])
    shown = {row[0] for row in rows}
    return {each: each in shown for each in ids}


def read_shown_children(
    asker: Asker, parent: Ref, child_type: str, *, after: str, limit: int, roles: tuple[UUID, ...] | None
) -> list[str]:
    """The object ids of the children of one type that a grant on them or below makes visible, in their order."""
    at, parent_id = now(), securable_id(*parent)
    params: list[Any] = [parent_id, child_type, after, *_shown(asker, at), parent_id, limit]
    rows: list[Row] = fetch_all("default", SHOWN_CHILDREN[roles is not None], [*_acting(asker, roles, at), *params])
    return [row[0] for row in rows]


def _acting(asker: Asker, roles: tuple[UUID, ...] | None, at: datetime) -> list[Any]:
    if roles is not None:
        return [list(roles)]
    user_id = asker.user_id
    by_token = [asker.provider_id, list(asker.token_roles)]
    return [at, at, asker.assumed_role, *by_token, user_id, at, user_id, at]


def _shown(asker: Asker, at: datetime) -> list[Any]:
    shown = showing_privileges()
    privileges = sorted(frozenset().union(*shown.values()))
    return [asker.user_id, privileges, at, sorted(shown)]


def _datetime(value: Any) -> datetime:
    """SQLite keeps a text, in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=now().tzinfo)
    return datetime.fromisoformat(value).replace(tzinfo=now().tzinfo)
