"""The levels of a tree that is open down to an object: a constant number of statements, whatever its depth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from catalog.selectors.browse import NAMESPACE
from catalog.selectors.children import LISTED_BY, Child, ChildRow, child_token, kinds_in
from icekeeper.kernel.db.sql import Row, as_uuid, fetch_all
from icekeeper.kernel.http.paging import NO_LIMIT, Page
from icekeeper.kernel.names import LEVEL_SEPARATOR
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck, VisibleChildren, authorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

# The bound of the key is there for the index of names. The inner limit is above any number of rows: else PostgreSQL,
# which expects few rows in a namespace, may read all of a large one.
_ROOT: Final = """
SELECT {level} AS level, 0 AS part, 'namespace' AS kind, id, id AS uuid, path AS name, path_key AS key, protected
  FROM {source}
 WHERE warehouse_id = %s AND parent_id IS NULL AND path_key > '' ORDER BY parent_id, path_key LIMIT %s"""

_NAMESPACES: Final = """
SELECT {level} AS level, 0 AS part, 'namespace' AS kind, id, id AS uuid, path AS name, path_key AS key, protected
  FROM {source}
 WHERE warehouse_id = %s AND parent_id = %s AND path_key > '' ORDER BY parent_id, path_key LIMIT %s"""

_TABULARS: Final = """
SELECT {level} AS level, 1 AS part, kind, id, uuid, name, name_key AS key, protected
  FROM {source}
 WHERE namespace_id = %s AND name_key > '' AND deleted_at IS NULL AND kind = ANY(%s)
 ORDER BY namespace_id, name_key LIMIT %s"""

_AMONG: Final = f"(SELECT * FROM {{table}} WHERE id = ANY(%s) LIMIT {NO_LIMIT}) AS among"  # noqa: S608 - constants


_ORDERED: Final = "SELECT * FROM ({parts}) AS found ORDER BY level, part, key"


def _part(statement: str, table: str, level: int, *, is_among: bool) -> str:
    """Return one of the statements above for a level; with `is_among` its first parameter is a list of ids."""
    source = _AMONG.format(table=table) if is_among else table
    return f"SELECT * FROM ({statement.format(level=level, source=source)}) AS children"  # noqa: S608 - constants


ALL_VISIBLE: Final = VisibleChildren({}, is_exact=True)


Level = tuple[list[Child], str | None]


def read_open_levels_for(
    *, actor: Actor, warehouse_id: UUID, namespace_ids: Sequence[UUID], page: Page
) -> list[Level] | None:
    """Return the first page of `list_children_for` of an active warehouse and of each of these namespaces of it.

    None for actors with too many grants to start from. At most two statements and two permission checks.
    """
    parents = [ObjectRef(Securable.Type.WAREHOUSE, warehouse_id)]
    parents += [ObjectRef(Securable.Type.NAMESPACE, each) for each in namespace_ids]
    checks: list[PermissionCheck] = [(Can.LIST_EVERYTHING, ref) for ref in parents]
    checks += [(LISTED_BY[kind], ref) for ref in parents for kind in kinds_in(ref)]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True))
    partly = {number for number, ref in enumerate(parents) if not allowed[Can.LIST_EVERYTHING, ref]}
    visible = authorizer().visible_children(actor, warehouse_id=warehouse_id) if partly else ALL_VISIBLE
    if visible is None:
        return None
    parts, params = list[str](), list[Any]()
    for level, ref in enumerate(parents):
        among = [list(visible.ids.get(UUID(str(ref.id)), ()))] if level in partly else []
        kinds = [kind for kind in kinds_in(ref) if allowed[LISTED_BY[kind], ref]]
        tabulars = [kind for kind in kinds if kind != NAMESPACE]
        inside = [] if ref.type is Securable.Type.WAREHOUSE else [ref.id]
        if NAMESPACE in kinds:
            statement = _NAMESPACES if inside else _ROOT
            parts.append(_part(statement, "catalog_namespace", level, is_among=bool(among)))
            params += [*among, warehouse_id, *inside, page.sql_limit]
        if tabulars:
            parts.append(_part(_TABULARS, "catalog_tabular", level, is_among=bool(among)))
            params += [*among, *inside, tabulars, page.sql_limit]
    statement = _ORDERED.format(parts=" UNION ALL ".join(parts))
    rows = [_read(row) for row in fetch_all(settings.READ_DATABASE, statement, params)] if parts else []
    hidden = set() if visible.is_exact else _find_hidden(actor, [row for level, row in rows if level in partly])
    found: list[Level] = [([], None) for _ in parents]
    for level, in_level in groupby(rows, key=lambda each: each[0]):
        found[level] = _level(parents[level], [row for _, row in in_level], hidden, page)
    return found


def _read(row: Row) -> tuple[int, ChildRow]:
    """Return the number of a level, and a child in it."""
    level, part, kind, own_id, uuid, name, key, protected = row
    if kind == NAMESPACE:
        name, key = name.rpartition(LEVEL_SEPARATOR)[2], key.rpartition(LEVEL_SEPARATOR)[2]
    return level, ChildRow(part, kind, as_uuid(own_id), as_uuid(uuid), name, key, bool(protected))


def _find_hidden(actor: Actor, rows: Sequence[ChildRow]) -> set[ObjectRef]:
    refs = [row.ref for row in rows]
    shown = check_permissions(actor, [(Can.INCLUDE_IN_LIST, ref) for ref in refs]) if refs else []
    return {ref for ref, is_shown in zip(refs, shown, strict=True) if not is_shown}


def _level(parent: ObjectRef, rows: Sequence[ChildRow], hidden: set[ObjectRef], page: Page) -> Level:
    """Return a page of the rows, and the token that continues it: as of `list_children_for`."""
    limit = page.sql_limit - 1
    token = child_token(page, parent, rows[limit - 1]) if len(rows) > limit else None
    return [row.child() for row in rows[:limit] if row.ref not in hidden], token
