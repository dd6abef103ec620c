"""The levels of a tree that is open down to an object: a constant number of statements, whatever its depth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.models import Tabular
from catalog.selectors.browse import NAMESPACE, Child
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.http.paging import MIN_ID, NO_LIMIT, Page, build_page
from icekeeper.kernel.names import LEVEL_SEPARATOR
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck, VisibleChildren, authorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

KINDS: Final = (NAMESPACE, Tabular.Kind.TABLE.value, Tabular.Kind.VIEW.value, Tabular.Kind.GENERIC_TABLE.value)
"""In the order of `catalog.selectors.browse.list_children_for`."""

_LISTED_BY: Final = {
    NAMESPACE: Can.LIST_NAMESPACES,
    Tabular.Kind.TABLE.value: Can.LIST_TABLES,
    Tabular.Kind.VIEW.value: Can.LIST_VIEWS,
    Tabular.Kind.GENERIC_TABLE.value: Can.LIST_GENERIC_TABLES,
}

# What lies above is part of the order, and the inner limit is above any number of rows: else PostgreSQL, which expects
# few rows in a namespace, may read all of a large one.
_NAMESPACES: Final = """
SELECT {level} AS level, 0 AS number, id, id AS uuid, path AS name, protected FROM {source}
 WHERE warehouse_id = %s AND {parent} AND id > %s ORDER BY parent_id, id LIMIT %s"""

_TABULARS: Final = """
SELECT {level} AS level, {number} AS number, id, uuid, name, protected FROM {source}
 WHERE warehouse_id = %s AND {parent} AND (kind, id) > ('{kind}', %s) AND kind <= '{kind}' AND deleted_at IS NULL
 ORDER BY kind, id LIMIT %s"""

_AMONG: Final = f"(SELECT * FROM {{table}} WHERE id = ANY(%s) LIMIT {NO_LIMIT}) AS among"  # noqa: S608 - constants


def _part(level: int, kind: str, *, is_root: bool, is_among: bool) -> str:
    """Return the statement for the children of a kind: its parameters are ids, warehouse, parent, `MIN_ID`, limit."""
    table, column, part = ("catalog_tabular", "namespace_id", _TABULARS)
    if kind == NAMESPACE:
        table, column, part = ("catalog_namespace", "parent_id", _NAMESPACES)
    source = _AMONG.format(table=table) if is_among else table
    parent = f"{column} IS NULL" if is_root else f"{column} = %s"
    children = part.format(level=level, number=KINDS.index(kind), kind=kind, source=source, parent=parent)
    return f"SELECT * FROM ({children}) AS children"  # noqa: S608 - constants


ALL_VISIBLE: Final = VisibleChildren({}, is_exact=True)


class _Row(NamedTuple):
    """A child: the number of its level, the index of its kind in `KINDS`, and what is shown of it."""

    level: int
    number: int
    id: Any
    uuid: Any
    name: str
    protected: Any

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(Securable.Type(KINDS[self.number]), as_uuid(self.id))

    def child(self) -> Child:
        name = self.name.rpartition(LEVEL_SEPARATOR)[2] if self.number == 0 else self.name
        return Child(KINDS[self.number], as_uuid(self.uuid), name, bool(self.protected))


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
    checks += [(_LISTED_BY[kind], ref) for ref in parents for kind in _kinds_in(ref)]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True))
    partly = {number for number, ref in enumerate(parents) if not allowed[Can.LIST_EVERYTHING, ref]}
    visible = authorizer().visible_children(actor, warehouse_id=warehouse_id) if partly else ALL_VISIBLE
    if visible is None:
        return None
    parts, params = list[str](), list[Any]()
    for level, ref in enumerate(parents):
        is_root = ref.type is Securable.Type.WAREHOUSE
        among = [list(visible.ids.get(UUID(str(ref.id)), ()))] if level in partly else []
        for kind in _kinds_in(ref):
            if not allowed[_LISTED_BY[kind], ref]:
                continue
            parts.append(_part(level, kind, is_root=is_root, is_among=bool(among)))
            params += [*among, warehouse_id, *([] if is_root else [ref.id]), MIN_ID, page.sql_limit]
    rows = [_Row(*row) for row in fetch_all(settings.READ_DATABASE, " UNION ALL ".join(parts), params)] if parts else []
    hidden = set() if visible.is_exact else _find_hidden(actor, [row for row in rows if row.level in partly])
    found: list[Level] = [([], None) for _ in parents]
    rows.sort(key=lambda row: (row.level, row.number, as_uuid(row.id)))
    for level, in_level in groupby(rows, key=lambda row: row.level):
        found[level] = _level(list(in_level), hidden, page)
    return found


def _kinds_in(ref: ObjectRef) -> Sequence[str]:
    return KINDS[:1] if ref.type is Securable.Type.WAREHOUSE else KINDS


def _find_hidden(actor: Actor, rows: Sequence[_Row]) -> set[ObjectRef]:
    refs = [row.ref for row in rows]
    shown = check_permissions(actor, [(Can.INCLUDE_IN_LIST, ref) for ref in refs]) if refs else []
    return {ref for ref, is_shown in zip(refs, shown, strict=True) if not is_shown}


def _level(rows: Sequence[_Row], hidden: set[ObjectRef], page: Page) -> Level:
    """Return a page of the rows, and the token that continues it: as of `list_children_for`."""
    limit = page.sql_limit - 1
    children: list[Child] = []
    for number, of_kind in groupby(rows, key=lambda row: row.number):
        if len(children) == limit:
            return children, f"{number}."
        wanted = Page(f"{page.kind} {number}", None, limit - len(children))
        shown, token = build_page([(as_uuid(row.id), row) for row in of_kind], wanted)
        children += [row.child() for row in shown if row.ref not in hidden]
        if token is not None:
            return children, f"{number}.{token}"
    return children, None
