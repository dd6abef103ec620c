"""The statements behind the built-in evaluator, for an asker whose roles are known but for the one that finds them.

They go from the objects that are asked about to the grants on them, never through all that an asker was granted: who
made a hundred thousand tables owns as many.
"""

from __future__ import annotations

from typing import Final

ROLES: Final = """
WITH RECURSIVE edge(member_role_id, role_id) AS (
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
)
SELECT CAST(role_id AS text), NULL FROM acting
UNION ALL
SELECT NULL, MIN(expires_at) FROM tenancy_rolemember
 WHERE expires_at > %s AND (user_id = %s OR member_role_id IN (SELECT role_id FROM acting))
UNION ALL
SELECT NULL, MIN(expires_at) FROM tenancy_grant
 WHERE expires_at > %s AND owned_role_id IS NOT NULL
   AND (user_id = %s OR role_id IN (SELECT role_id FROM acting))
"""
"""The roles of an asker, in whatever depth, in circles, too, and when the first of the ways into them ends."""

_MINE: Final = "(g.user_id = %s OR g.role_id = ANY(%s)) AND (g.expires_at IS NULL OR g.expires_at > %s)"
"""The grants of the asker."""

IS_BELOW: Final = "s.path ~>~ top.path AND s.path ~<~ (substr(top.path, 1, length(top.path) - 1) || '0')"

HELD_ON_ONE: Final = f"""
SELECT 'object', s.id, s.parent_id, s.managed_access, g.privilege, g.expires_at
  FROM tenancy_securable AS s LEFT JOIN tenancy_grant AS g ON g.securable_id = s.id AND {_MINE}
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
"""  # noqa: S608 - constants, as below
"""What is held on an object and above it."""

SHOWS_BELOW: Final = f"""
SELECT 'shows', top.id, NULL, NULL, NULL, NULL FROM tenancy_securable AS top
 WHERE top.id = ANY(%s) AND EXISTS (
    SELECT 1 FROM tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
     WHERE {_MINE} AND g.privilege = ANY(%s) AND s.type = ANY(%s) AND {IS_BELOW})
"""  # noqa: S608
"""Of objects: those below which something shows."""

HELD: Final = f"""
WITH RECURSIVE up(id, parent_id, managed_access) AS (
    SELECT id, parent_id, managed_access FROM tenancy_securable WHERE id = ANY(%s)
    UNION
    SELECT above.id, above.parent_id, above.managed_access
      FROM up JOIN tenancy_securable AS above ON above.id = up.parent_id
)
SELECT 'object', up.id, up.parent_id, up.managed_access, g.privilege, g.expires_at
  FROM up LEFT JOIN tenancy_grant AS g ON g.securable_id = up.id AND {_MINE}
UNION ALL {SHOWS_BELOW}
"""  # noqa: S608
"""`HELD_ON_ONE` for many objects, and `SHOWS_BELOW` for some."""

SHOWN_PATHS: Final = f"""
SELECT asked.id, top.path, (
    SELECT s.path FROM tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
     WHERE {_MINE} AND g.privilege = ANY(%s) AND s.type = ANY(%s) AND {IS_BELOW} LIMIT 1)
  FROM tenancy_securable AS asked JOIN tenancy_securable AS top
    ON top.id = CASE WHEN asked.type = ANY(%s) THEN asked.parent_id ELSE asked.id END
 WHERE asked.id = ANY(%s)
"""  # noqa: S608
"""Of objects, or of the parents of those that have some types: the path, and that of something below that shows."""

TOKEN_ROLES: Final = "SELECT id FROM tenancy_role WHERE provider_id = %s AND source_id = ANY(%s) ORDER BY id"  # noqa: S105

SHOWN_LEAVES: Final = """
SELECT s.object_id FROM tenancy_securable AS s
 WHERE s.parent_id = %s AND s.type = %s AND s.object_id > %s
   AND (EXISTS (SELECT 1 FROM tenancy_grant AS g
                 WHERE g.securable_id = s.id AND g.user_id = %s AND (g.expires_at IS NULL OR g.expires_at > %s)
                   AND g.privilege = ANY(%s))
        OR EXISTS (SELECT 1 FROM tenancy_grant AS g
                    WHERE g.securable_id = s.id AND g.role_id = ANY(%s) AND (g.expires_at IS NULL OR g.expires_at > %s)
                      AND g.privilege = ANY(%s)))
 ORDER BY s.object_id LIMIT %s
"""
"""Children that have nothing below them, which a grant on them makes visible."""

SHOWN_BRANCHES: Final = f"""
SELECT c.object_id FROM tenancy_securable AS c
 WHERE c.parent_id = %s AND c.type = %s AND c.object_id > %s
   AND c.id IN (SELECT substr(rest, 1, strpos(rest, '/') - 1) FROM (
        SELECT substr(s.path, length(top.path) + 1) AS rest
          FROM tenancy_securable AS top, tenancy_grant AS g JOIN tenancy_securable AS s ON s.id = g.securable_id
         WHERE top.id = %s AND {_MINE} AND g.privilege = ANY(%s) AND s.type = ANY(%s) AND {IS_BELOW}) AS below)
 ORDER BY c.object_id LIMIT %s
"""  # noqa: S608
"""Children that a grant on them or on something below makes visible."""
