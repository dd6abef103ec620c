"""The statements behind access reviews: not of the hot paths, each over all principals of an object at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tenancy.authz.builtin.statements import IS_BELOW, SHOWS

_LASTS: Final = "(expires_at IS NULL OR expires_at > %s)"

USERS: Final = f"""
SELECT user_id FROM (
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_grant
         WHERE securable_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS granted
    UNION
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_rolemember
         WHERE role_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS members
    UNION
    SELECT * FROM (
        SELECT DISTINCT user_id FROM tenancy_grant
         WHERE owned_role_id = ANY(%s) AND user_id > %s AND {_LASTS} ORDER BY user_id LIMIT %s) AS owners
    UNION
    SELECT * FROM (
        SELECT DISTINCT g.user_id FROM tenancy_securable AS top, tenancy_grant AS g
         WHERE top.id = ANY(%s) AND g.user_id > %s AND (g.expires_at IS NULL OR g.expires_at > %s)
           AND {SHOWS} AND {IS_BELOW}
         ORDER BY g.user_id LIMIT %s) AS below
) AS found ORDER BY user_id LIMIT %s
"""  # noqa: S608 - constants, as below
"""The users behind an id who have a grant on one of some objects, are in one of some roles, or see something below."""

ROLES_SEEING_BELOW: Final = f"""
SELECT DISTINCT g.role_id, top.id FROM tenancy_securable AS top, tenancy_grant AS g
 WHERE top.id = ANY(%s) AND g.role_id IS NOT NULL AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND {SHOWS} AND {IS_BELOW}
"""  # noqa: S608

USERS_SEEING_BELOW: Final = f"""
SELECT DISTINCT g.user_id, top.id FROM tenancy_securable AS top, tenancy_grant AS g
 WHERE top.id = ANY(%s) AND g.user_id = ANY(%s) AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND {SHOWS} AND {IS_BELOW}
"""  # noqa: S608

GRANTED_PATHS: Final = """
SELECT DISTINCT g.path FROM tenancy_grant AS g
 WHERE (g.user_id = %s OR g.role_id = ANY(%s)) AND (g.expires_at IS NULL OR g.expires_at > %s)
   AND g.path ~>~ %s AND g.path ~<~ %s AND (g.path ~>~ %s OR g.securable_id = ANY(%s))
 ORDER BY g.path USING ~<~ LIMIT %s
"""
"""Of the objects below one on which an asker holds something, and that are behind a path or lead to it."""

_WALK: Final = """
SELECT * FROM (
    SELECT path FROM tenancy_securable WHERE path ~>=~ %s AND path ~<~ %s AND path ~>~ %s
     ORDER BY path USING ~<~ LIMIT %s) AS walk{number}"""


@lru_cache(maxsize=128)
def walks(number: int) -> str:
    """The first paths behind another in each of `number` subtrees, each with parameters of its own."""
    return " UNION ALL ".join(_WALK.format(number=each) for each in range(number))
