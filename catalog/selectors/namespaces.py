"""Reads of namespaces: each is one statement; and look-ups of a namespace that is about to change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_namespace
from catalog.identifiers import Levels
from catalog.models import Namespace, shown_properties
from catalog.selectors.visible_pages import require_to_list, visible_page
from icekeeper.kernel import request_context
from icekeeper.kernel.db.sql import as_uuid, fetch_all, fetch_one
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import LEVEL_SEPARATOR, path_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

_GET = """
SELECT w.status, n.id, n.path, n.properties, n.location
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""

_FIND_ID = """
SELECT w.status, n.id
  FROM storage_warehouse w LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
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
    warehouse_status, namespace_id, path, properties, location = row or (None, None, "", {}, None)
    if warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_namespace, levels)
    if namespace_id is None:
        raise missing()
    namespace_id = as_uuid(namespace_id)
    require_permission(actor, Can.GET_METADATA, Securable.Type.NAMESPACE, namespace_id, missing=missing)
    if isinstance(properties, str):  # SQLite keeps JSON as text
        properties = read_stored_json(properties.encode())
    shown = shown_properties(properties, namespace_id=namespace_id, location=location)
    return FoundNamespace(namespace_id, tuple(path.split(LEVEL_SEPARATOR)), shown)


def list_namespaces_for(
    *, actor: Actor, warehouse_id: UUID, parent: Levels | None, page: Page
) -> tuple[list[ListedNamespace], str | None]:
    """List the direct children of `parent` (None: the first level), in order of creation, with the next page's token.

    Raises `NoSuchWarehouse`, `NoSuchNamespace`, `Forbidden`.
    """
    after, limit = page.bounds()
    if parent is None:
        params = [warehouse_id, after, limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_ROOT, params)
    else:
        key = path_key(parent)
        above = [warehouse_id, key]
        params = [key, warehouse_id, *above, after, *above, limit, warehouse_id]
        rows = fetch_all(settings.READ_DATABASE, _LIST_CHILDREN, params)
    warehouse_status, parent_id, *_ = rows[0] if rows else (None, None)
    if warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    seen_in = _require_to_list(actor, warehouse_id, parent, parent_id)

    def read(ids: list[UUID]) -> list[tuple[UUID, ListedNamespace]]:
        return [_listed(*row) for row in fetch_all(settings.READ_DATABASE, _LISTED, [ids])]

    found = [_listed(own_id, path, protected) for _, _, own_id, path, protected in rows if own_id is not None]
    return visible_page(found, page, actor=actor, seen_in=seen_in, child_type=Securable.Type.NAMESPACE, read=read)


def _listed(stored_id: Any, path: str, protected: Any) -> tuple[UUID, ListedNamespace]:
    namespace_id = as_uuid(stored_id)
    return namespace_id, ListedNamespace(namespace_id, tuple(path.split(LEVEL_SEPARATOR)), bool(protected))


def _require_to_list(actor: Actor, warehouse_id: UUID, parent: Levels | None, found_id: Any) -> ObjectRef | None:
    if parent is None:
        above = ObjectRef(Securable.Type.WAREHOUSE, warehouse_id)
        return require_to_list(actor, Can.LIST_NAMESPACES, above, partial(no_such_warehouse, warehouse_id))
    missing = partial(no_such_namespace, parent)
    if found_id is None:
        raise missing()
    return require_to_list(actor, Can.LIST_NAMESPACES, ObjectRef(Securable.Type.NAMESPACE, as_uuid(found_id)), missing)


def find_namespace_for(actor: Actor, action: Can, warehouse_id: UUID, levels: Levels) -> UUID:
    """Return the id of a namespace after a check of `action`, without a lock.

    Raises `NoSuchWarehouse`, `NoSuchNamespace`, `Forbidden`.
    """
    row = fetch_one("default", _FIND_ID, [path_key(levels), warehouse_id])
    warehouse_status, found_id = row or (None, None)
    if warehouse_status != Warehouse.Status.ACTIVE:
        raise no_such_warehouse(warehouse_id)
    missing = no_such_namespace(levels)
    if found_id is None:
        raise missing
    namespace_id = as_uuid(found_id)
    require_permission(actor, action, Securable.Type.NAMESPACE, namespace_id, missing=missing)
    return namespace_id


def lock_namespace(warehouse_id: UUID, namespace_id: UUID, levels: Levels) -> Namespace:
    """Lock the namespace that `find_namespace_for` found for the caller's transaction.

    The permissions are checked again under the lock if permissions changed meanwhile.
    """
    rows = Namespace.objects.select_for_update(of=("self",)).select_related("warehouse")
    namespace = rows.filter(pk=namespace_id, path_key=path_key(levels)).first()
    if namespace is None:  # dropped or moved concurrently
        raise no_such_namespace(levels)
    if namespace.warehouse.status != Warehouse.Status.ACTIVE:
        raise no_such_warehouse(warehouse_id)
    request_context.recheck_permissions()
    return namespace
