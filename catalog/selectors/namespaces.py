"""Reads of namespaces: each is one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_namespace
from catalog.identifiers import Levels, path_key
from catalog.models.namespace import shown_properties
from catalog.selectors.visibility import require_to_list, visible_page
from icekeeper.kernel.db.sql import Row, as_uuid, fetch_all, fetch_one
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable
from tenancy.refs import ObjectRef

_GET = """
SELECT w.status, n.id, n.path, n.properties, n.location
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""

# As `catalog.selectors.tables.load` lists tables: what lies above is part of the order, which the index
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

_LISTED = "SELECT id, path, protected FROM catalog_namespace WHERE id = ANY(%s) ORDER BY id"

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
    missing = no_such_namespace(levels)
    if namespace_id is None:
        raise missing
    namespace_id = as_uuid(namespace_id)
    require_permission(actor, Can.GET_METADATA, Securable.Type.NAMESPACE, namespace_id, missing=missing)
    if isinstance(properties, str):  # SQLite keeps JSON as text
        properties = read_stored_json(properties.encode())
    shown = shown_properties(properties, namespace_id=namespace_id, location=location)
    return FoundNamespace(namespace_id, tuple(path.split(LEVEL_SEPARATOR)), shown)


def list_namespaces_for(
    *, actor: Actor, warehouse_id: UUID, parent: Levels | None, page: Page
) -> tuple[list[ListedNamespace], str | None]:
    """The direct children of `parent` (None: the first level), in order of creation, and the next page's token."""
    after, limit = page.bounds()
    if parent is None:
        params = [warehouse_id, after, limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_ROOT, params)
    else:
        key = path_key(parent)
        above = [warehouse_id, key]
        params = [key, warehouse_id, *above, after, *above, limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_CHILDREN, params)
    if not rows or rows[0][0] != "active":
        raise no_such_warehouse(warehouse_id)
    seen_in = _require_to_list(actor, warehouse_id, parent, rows[0][1])

    def listed(found: Sequence[Row]) -> list[tuple[UUID, ListedNamespace]]:
        ids = [(as_uuid(row[0]), row) for row in found if row[0] is not None]
        return [
            (own_id, ListedNamespace(own_id, tuple(row[1].split(LEVEL_SEPARATOR)), bool(row[2]))) for own_id, row in ids
        ]

    def read(ids: list[UUID]) -> list[tuple[UUID, ListedNamespace]]:
        return listed(fetch_all(settings.READ_DATABASE, _LISTED, [ids]))

    found = listed([row[2:] for row in rows])
    return visible_page(found, page, actor=actor, seen_in=seen_in, child_type=Securable.Type.NAMESPACE, read=read)


def _require_to_list(actor: Actor, warehouse_id: UUID, parent: Levels | None, found_id: Any) -> ObjectRef | None:
    if parent is None:
        missing: CatalogError = no_such_warehouse(warehouse_id)
        above: ObjectRef = ObjectRef(Securable.Type.WAREHOUSE, as_uuid(found_id))
    else:
        missing = no_such_namespace(parent)
        if found_id is None:
            raise missing
        above = ObjectRef(Securable.Type.NAMESPACE, as_uuid(found_id))
    return require_to_list(actor, Can.LIST_NAMESPACES, above, missing)
