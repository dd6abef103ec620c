"""The warehouses, namespaces and tabulars that a subject sees, as sets of ids that are read from its grants.

Searches and lists over many objects start from them: the cost follows what the subject sees, not what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_all
from tenancy.authz.actions import Can
from tenancy.authz.builtin.evaluation import showing_privileges
from tenancy.authz.builtin.queries import IS_BELOW, visibility_sources
from tenancy.authz.port import Subject, VisibleChildren, VisibleObjects
from tenancy.models import Securable

MAX_GRANTS: Final = 5_000
"""Grants that are read; the creator of a hundred thousand tables has as many."""

MAX_NAMESPACES: Final = 20_000
"""Namespaces with and below a granted one that are read."""

_PARENTS: Final = ("warehouse:", "namespace:")
_TABULARS: Final = (Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE)


_GRANTED: Final = """
    SELECT securable_id, path, privilege FROM tenancy_grant
     WHERE {grantee} AND privilege = ANY(%s) AND (expires_at IS NULL OR expires_at > %s)"""


VISIBLE_OBJECTS: Final = f"""
WITH RECURSIVE granted(securable_id, path, privilege) AS (
    SELECT * FROM ({_GRANTED.format(grantee="user_id = %s")}
    UNION ALL {_GRANTED.format(grantee="role_id = ANY(%s)")}) AS of_all LIMIT %s
), inside(id) AS (
    SELECT securable_id FROM granted WHERE securable_id LIKE 'namespace:%%' AND privilege = ANY(%s)
    UNION
    SELECT below.id FROM inside
      JOIN tenancy_securable AS below ON below.parent_id = inside.id AND below.type = 'namespace'
)
SELECT path, privilege FROM granted
UNION ALL
SELECT id, NULL FROM (SELECT id FROM inside LIMIT %s) AS namespaces
"""  # noqa: S608 - constants
"""The paths and privileges of the grants of a subject and of its roles; and the securable ids of the namespaces that
are granted, and of those below."""


_GRANTED_BELOW: Final = f"""
    SELECT g.path, g.privilege FROM tenancy_grant AS g, tenancy_securable AS top
     WHERE g.{{grantee}} AND g.privilege = ANY(%s) AND (g.expires_at IS NULL OR g.expires_at > %s)
       AND top.id = %s AND {IS_BELOW}"""  # noqa: S608 - constants


GRANTED_BELOW: Final = f"""
SELECT path, privilege FROM ({_GRANTED_BELOW.format(grantee="user_id = %s")}
    UNION ALL {_GRANTED_BELOW.format(grantee="role_id = ANY(%s)")}) AS granted LIMIT %s
"""  # noqa: S608 - constants
"""The paths and privileges of the grants of a subject and of its roles on objects below an object."""


def read_visible_objects(subject: Subject, roles: Sequence[UUID]) -> VisibleObjects | None:
    """Return what the subject sees; None for everything, and if too many grants or namespaces would be read.

    One statement.
    """
    privileges = sorted(set().union(*_privileges().values()))
    of_each = [privileges, now()]
    on_namespaces = sorted(_privileges()[Securable.Type.NAMESPACE])
    limits = [MAX_GRANTS + 1, on_namespaces, MAX_NAMESPACES + 1]
    rows = fetch_all("default", VISIBLE_OBJECTS, [subject.user_id, *of_each, list(roles), *of_each, *limits])
    grants = [(path, privilege) for path, privilege in rows if privilege is not None]
    namespaces = [own_id for own_id, privilege in rows if privilege is None]
    if len(grants) > MAX_GRANTS or len(namespaces) > MAX_NAMESPACES:
        return None
    granted: dict[str, set[str]] = {}
    parents: set[str] = set()
    for path, privilege in grants:
        *above, own_id = path.rstrip("/").split("/")
        kind = own_id.partition(":")[0]
        if privilege in _privileges().get(kind, ()):
            granted.setdefault(kind, set()).add(own_id)
            parents.update(above)
    if Securable.Type.SERVER in granted:
        return None
    return VisibleObjects(
        projects=frozenset(each.partition(":")[2] for each in granted.get(Securable.Type.PROJECT, ())),
        warehouses=_ids(granted.get(Securable.Type.WAREHOUSE, ())),
        namespaces=_ids(namespaces),
        tabulars=_ids(set().union(*(granted.get(kind, set()) for kind in _TABULARS))),
        parents=_ids(each for each in parents if each.startswith(_PARENTS)),
    )


def read_visible_children(subject: Subject, roles: Sequence[UUID], warehouse_id: UUID) -> VisibleChildren | None:
    """Return what the subject sees in objects of a warehouse; None if too many grants would be read. One statement."""
    privileges = sorted(set().union(*showing_privileges().values()))
    of_each = [privileges, now(), f"warehouse:{warehouse_id}"]
    params = [subject.user_id, *of_each, list(roles), *of_each, MAX_GRANTS + 1]
    rows = fetch_all("default", GRANTED_BELOW, params)
    if len(rows) > MAX_GRANTS:
        return None
    children: dict[str, set[str]] = {}
    for path, privilege in rows:
        steps = path.rstrip("/").split("/")
        if privilege in showing_privileges().get(steps[-1].partition(":")[0], ()):
            for above, below in pairwise(steps):
                children.setdefault(above, set()).add(below)
    return VisibleChildren(
        {_id(above): _ids(below) for above, below in children.items() if above.startswith(_PARENTS)}, is_exact=True
    )


def _ids(securables: Iterable[str]) -> frozenset[UUID]:
    return frozenset(map(_id, securables))


def _id(securable: str) -> UUID:
    return UUID(securable.partition(":")[2])


@cache
def _privileges() -> Mapping[str, frozenset[str]]:
    """Return by type of object the privileges that show the object and what is below it."""
    relation = f"can_{Can.INCLUDE_IN_LIST.value}"
    found: dict[str, frozenset[str]] = dict(showing_privileges())
    for object_type in showing_privileges():
        for above in (Securable.Type.SERVER.value, Securable.Type.PROJECT.value):
            privileges = visibility_sources(object_type, relation).privileges.get(above, ())
            found[above] = found.get(above, frozenset()).union(privileges)
    return found
