"""The statements behind the built-in evaluator, each for askers whose roles are known and for those whose are not.

They go from the objects that are asked about to the grants on them, never through all that an asker was granted: who
made a hundred thousand tables owns as many.
"""

from __future__ import annotations

from typing import Final

UNEXPIRED: Final = "(g.expires_at IS NULL OR g.expires_at > %s)"

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
"""The roles of an asker, in whatever depth, in circles, too: {assumed} or {of the token, member, owner}."""

_UP = """up(id, parent_id, managed_access) AS (
    SELECT id, parent_id, managed_access FROM tenancy_securable WHERE id = ANY(%s)
    UNION
    SELECT above.id, above.parent_id, above.managed_access
      FROM up JOIN tenancy_securable AS above ON above.id = up.parent_id
)"""

_IS_BELOW = "s.path ~>~ top.path AND s.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')"

_SHOWS = """
SELECT 'shows', top.id, NULL, NULL, NULL, NULL FROM tenancy_securable AS top
 WHERE top.id = ANY(%s) AND EXISTS (
    SELECT 1 FROM tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
     WHERE {mine} AND g.privilege = ANY(%s) AND {unexpired} AND s.type = ANY(%s) AND {is_below})
"""

# What is granted and not ended when roles end is found with the roles, and remembered with them.
_ROLES = """
UNION ALL
SELECT 'role', CAST(role_id AS text), NULL, NULL, NULL, NULL FROM acting
UNION ALL
SELECT 'until', NULL, NULL, NULL, NULL, MIN(expires_at) FROM tenancy_rolemember
 WHERE expires_at > %s AND (user_id = %s OR member_role_id IN (SELECT role_id FROM acting))
UNION ALL
SELECT 'until', NULL, NULL, NULL, NULL, MIN(expires_at) FROM tenancy_grant
 WHERE expires_at > %s AND owned_role_id IS NOT NULL
   AND (user_id = %s OR role_id IN (SELECT role_id FROM acting))
"""

_HELD = """
WITH RECURSIVE {acting}{up}
SELECT 'object', up.id, up.parent_id, up.managed_access, g.privilege, g.expires_at
  FROM up LEFT JOIN tenancy_grant AS g ON g.securable_id = up.id AND {mine} AND {unexpired}
UNION ALL {shows} {roles}
"""

_HELD_ON_ONE = """
SELECT 'object', s.id, s.parent_id, s.managed_access, g.privilege, g.expires_at
  FROM tenancy_securable AS s
  LEFT JOIN tenancy_grant AS g ON g.securable_id = s.id AND {mine} AND {unexpired}
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
"""

_SHOWN_LEAVES = """
{acting}
SELECT s.object_id FROM tenancy_securable AS s
 WHERE s.parent_id = %s AND s.type = %s AND s.object_id > %s
   AND (EXISTS (SELECT 1 FROM tenancy_grant AS g
                 WHERE g.securable_id = s.id AND g.user_id = %s AND g.privilege = ANY(%s) AND {unexpired})
        OR EXISTS (SELECT 1 FROM tenancy_grant AS g
                    WHERE g.securable_id = s.id AND g.role_id {roles} AND g.privilege = ANY(%s) AND {unexpired}))
 ORDER BY s.object_id LIMIT %s
"""

_SHOWN_BRANCHES = """
{acting}
SELECT c.object_id FROM tenancy_securable AS c
 WHERE c.parent_id = %s AND c.type = %s AND c.object_id > %s
   AND c.id IN (SELECT substr(rest, 1, strpos(rest, '/') - 1) FROM (
        SELECT substr(s.path, length(top.path) + 1) AS rest
          FROM tenancy_securable AS top, tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
         WHERE top.id = %s AND {mine} AND g.privilege = ANY(%s) AND {unexpired} AND s.type = ANY(%s)
           AND {is_below}) AS below)
 ORDER BY c.object_id LIMIT %s
"""


def _both(statement: str, *, up: str = "", roles: str = "") -> dict[bool, str]:
    """By whether the roles of the asker are known: then they are a parameter, else they are found on the way."""

    def filled(acting: str, of_roles: str, found_roles: str) -> str:
        mine = f"(g.user_id = %s OR g.role_id {of_roles})"
        shared = {"mine": mine, "unexpired": UNEXPIRED, "is_below": _IS_BELOW}
        parts = {"acting": acting, "up": up, "roles": found_roles or of_roles, "shows": _SHOWS.format(**shared)}
        return statement.format(**shared, **parts)

    by_acting = "IN (SELECT role_id FROM acting)"
    begin = f"{_FOUND}, " if up else f"WITH RECURSIVE {_FOUND}"
    return {False: filled(begin, by_acting, roles), True: filled("", "= ANY(%s)", " " if roles else "")}


HELD: Final = _both(_HELD, up=_UP, roles=_ROLES)
"""What is held on objects and above them, and whether something below some of them shows."""

HELD_ON_ONE: Final = _both(_HELD_ON_ONE)[True]
"""The same of one object, and nothing of what is below, of an asker whose roles are known."""

SHOWS_BELOW: Final = _both("{acting}{shows}")
"""Of objects: whether something below shows."""

SHOWN_LEAVES: Final = _both(_SHOWN_LEAVES)
"""Children that have nothing below them, which a grant on them makes visible."""

SHOWN_BRANCHES: Final = _both(_SHOWN_BRANCHES)
"""Children that a grant on them or on something below makes visible."""
