"""Reads of namespaces: each is one statement."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_namespace
from catalog.identifiers import Levels, path_key
from catalog.models.namespace import shown_properties
from icekeeper.kernel.json_text import read_stored_json
from icekeeper.kernel.names import LEVEL_SEPARATOR
from icekeeper.kernel.paging import Page, page_of
from icekeeper.kernel.sql import as_uuid, fetch_all, fetch_one
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.models import Securable

_GET = """
SELECT w.status, n.id, n.path, n.properties, n.location
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""

# As `catalog.selectors.tabulars` lists tables: what lies above is part of the order, which the index
# `namespace_by_parent` has.
_LIST_ROOT = """
SELECT w.status, w.id, n.id, n.path, n.protected
  FROM storage_warehouse w
  LEFT JOIN (SELECT id, warehouse_id, path, protected
               FROM catalog_namespace
              WHERE warehouse_id = %s AND parent_id IS NULL AND id > %s
              ORDER BY parent_id, id LIMIT %s) n ON n.warehouse_id = w.id
 WHERE w.id = %s
 ORDER BY n.id
"""

_LIST_CHILDREN = """
SELECT w.status, p.id, n.id, n.path, n.protected
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace p ON p.warehouse_id = w.id AND p.path_key = %s
  LEFT JOIN (SELECT id, parent_id, path, protected
               FROM catalog_namespace
              WHERE warehouse_id = %s
                AND (parent_id, id) >
                    ((SELECT id FROM catalog_namespace WHERE warehouse_id = %s AND path_key = %s), %s)
                AND parent_id <= (SELECT id FROM catalog_namespace WHERE warehouse_id = %s AND path_key = %s)
              ORDER BY parent_id, id LIMIT %s) n ON n.parent_id = p.id
 WHERE w.id = %s
 ORDER BY n.id
"""


@dataclass(frozen=True, slots=True)
class FoundNamespace:
    """A namespace with its properties as clients see them."""

    id: UUID
    levels: Levels
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class ListedNamespace:
    """A namespace as a listing shows it."""

    id: UUID
    levels: Levels
    is_protected: bool


def get_namespace_for(*, actor: Actor, warehouse_id: UUID, levels: Levels) -> FoundNamespace:
    """Raises `NoSuchWarehouse` or `NoSuchNamespace`."""
    row = fetch_one(settings.READ_DATABASE, _GET, [path_key(levels), warehouse_id])
    if row is None or row[0] != "active":
        raise no_such_warehouse(warehouse_id)
    _, namespace_id, path, properties, location = row
    if namespace_id is None:
        raise no_such_namespace(levels)
    namespace_id = as_uuid(namespace_id)
    require(actor, Can.GET_METADATA, Securable.Type.NAMESPACE, namespace_id)
    if isinstance(properties, str):  # SQLite keeps JSON as text
        properties = read_stored_json(properties.encode())
    shown = shown_properties(properties, namespace_id=namespace_id, location=location)
    return FoundNamespace(namespace_id, tuple(path.split(LEVEL_SEPARATOR)), shown)


def list_namespaces_for(
    *, actor: Actor, warehouse_id: UUID, parent: Levels | None, page: Page
) -> tuple[list[ListedNamespace], str | None]:
    """The direct children of `parent` (None: the first level), in order of creation, and the next page's token."""
    after = page.after_id()
    if parent is None:
        params = [warehouse_id, after, page.sql_limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_ROOT, params)
    else:
        key = path_key(parent)
        above = [warehouse_id, key]
        params = [key, warehouse_id, *above, after, *above, page.sql_limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_CHILDREN, params)
    if not rows or rows[0][0] != "active":
        raise no_such_warehouse(warehouse_id)
    if rows[0][1] is None:
        raise no_such_namespace(parent or ())
    securable = Securable.Type.WAREHOUSE if parent is None else Securable.Type.NAMESPACE
    require(actor, Can.LIST_NAMESPACES, securable, as_uuid(rows[0][1]))
    found = [
        (as_uuid(row[2]), ListedNamespace(as_uuid(row[2]), tuple(row[3].split(LEVEL_SEPARATOR)), bool(row[4])))
        for row in rows
        if row[2] is not None
    ]
    return page_of(found, page)
