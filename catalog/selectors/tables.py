"""Reads of tables: each is one statement, whatever else the catalog holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_namespace, no_such_table, no_such_warehouse
from catalog.identifiers import Identifier, Levels, path_key
from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.paging import Page, page_of
from icekeeper.kernel.json_text import read_stored_json
from icekeeper.kernel.sql import as_uuid, fetch_all, fetch_one
from storage.io.stores import store_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.models import Securable

_LOAD = """
SELECT w.status, w.storage_profile, t.id, t.kind, t.metadata_location,
       CASE WHEN t.id = %s AND t.metadata_location = %s THEN NULL ELSE m.document END
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s
"""

_EXISTS = """
SELECT w.status, t.id, t.kind
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s
 WHERE w.id = %s
"""

_LIST = """
SELECT w.status, n.id, n.path, t.id, t.name
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.kind = %s AND t.id > %s
 WHERE w.id = %s
 ORDER BY t.id
 LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as it is answered: where its metadata lies and the exact bytes of it."""

    id: UUID
    metadata_location: str
    document: bytes


def load_table_for(*, actor: Actor, warehouse_id: UUID, table: Identifier) -> LoadedTable:
    """The current metadata of a table. One statement; the bytes come from memory when they were served before.

    Raises `NoSuchWarehouse`, `NoSuchTable` (also when the namespace is missing, as clients probe).
    """
    address = (warehouse_id, table.path_key, table.name_key)
    seen, document = metadata_cache.last_seen(address)
    known = (seen.tabular_id, seen.metadata_location) if seen else (None, None)
    row = fetch_one(settings.READ_DATABASE, _LOAD, [*known, table.path_key, table.name_key, warehouse_id])
    if row is None or row[0] != "active":
        raise no_such_warehouse(warehouse_id)
    _, storage_profile, table_id, kind, metadata_location, stored = row
    if table_id is None or kind != "table":
        raise no_such_table(table)
    table_id = as_uuid(table_id)
    require(actor, Can.GET_METADATA, Securable.Type.TABLE, table_id)
    current = Version(table_id, metadata_location)
    if document is None or current != seen:
        document = read_document(storage_profile, current, stored)
        metadata_cache.put(current, document, address=address)
    return LoadedTable(table_id, metadata_location, document)


def read_document(storage_profile: Any, version: Version, stored: Any) -> bytes:
    """The bytes of a metadata file: `stored` from the database, from memory or the object store where that is null."""
    if stored is not None:
        return bytes(stored)
    cached = metadata_cache.get(version)
    if cached is not None:
        return cached
    profile = storage_profile if isinstance(storage_profile, dict) else read_stored_json(storage_profile)
    return store_for(profile).get(version.metadata_location, limit=settings.ICEKEEPER.metadata_file_limit)


def require_table_exists(*, actor: Actor, warehouse_id: UUID, table: Identifier) -> UUID:
    """The id of a table. Raises as `load_table_for`."""
    row = fetch_one(settings.READ_DATABASE, _EXISTS, [table.path_key, table.name_key, warehouse_id])
    if row is None or row[0] != "active":
        raise no_such_warehouse(warehouse_id)
    if row[1] is None or row[2] != "table":
        raise no_such_table(table)
    table_id = as_uuid(row[1])
    require(actor, Can.GET_METADATA, Securable.Type.TABLE, table_id)
    return table_id


def list_tables_for(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, page: Page
) -> tuple[list[Identifier], str | None]:
    """The tables right in a namespace, in order of creation, and the token of the next page (None: that was all)."""
    after = page.after_id()
    rows = fetch_all(settings.READ_DATABASE, _LIST, [path_key(levels), "table", after, warehouse_id, page.sql_limit])
    if not rows or rows[0][0] != "active":
        raise no_such_warehouse(warehouse_id)
    namespace_id, path = rows[0][1], rows[0][2]
    if namespace_id is None:
        raise no_such_namespace(levels)
    require(actor, Can.LIST_TABLES, Securable.Type.NAMESPACE, as_uuid(namespace_id))
    stored_levels = tuple(path.split("\x1f"))
    found = [(row[3], Identifier(stored_levels, row[4])) for row in rows if row[3] is not None]
    return page_of(found, page)
