"""Reads of generic tables: each is one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier, Levels, path_key
from catalog.models import Tabular
from catalog.selectors.access.files import (
    LOCATIONS,
    STORAGE,
    TabularFiles,
    read_locations,
    read_storage,
    require_to_load,
)
from catalog.selectors.tables.load import require_listing
from catalog.selectors.visibility import visible_page
from icekeeper.kernel.db.sql import Row, as_uuid, fetch_all, fetch_one
from icekeeper.kernel.errors.types import NoSuchGenericTable
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.json.strict import read_stored_json
from storage.errors import no_such_warehouse
from storage.vending.vended import FileAccess
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

_LOAD = f"""
SELECT {STORAGE}, {LOCATIONS},
       w.status, g.tabular_id, t.name, t.location, t.protected, g.format, g.doc, g.properties, g.schema, g.statistics
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL
  LEFT JOIN catalog_generictable g ON g.tabular_id = t.id
 WHERE w.id = %s
"""  # noqa: S608 - constants

_LOAD_BY_ID = """
SELECT w.status, g.tabular_id, t.name, t.location, t.protected, g.format, g.doc, g.properties, g.schema, g.statistics
  FROM storage_warehouse w
  LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.id = %s
  LEFT JOIN catalog_generictable g ON g.tabular_id = t.id
 WHERE w.id = %s
"""

# As `catalog.selectors.tables.load` lists the other kinds.
_LIST = """
SELECT w.status, n.id, n.path, t.id, t.name, g.format
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN (SELECT id, namespace_id, name
               FROM catalog_tabular
              WHERE namespace_id = (SELECT id FROM catalog_namespace WHERE warehouse_id = %s AND path_key = %s)
                AND (kind, id) > ('generic-table', %s) AND kind <= 'generic-table' AND deleted_at IS NULL
              ORDER BY kind, id LIMIT %s) t ON t.namespace_id = n.id
  LEFT JOIN catalog_generictable g ON g.tabular_id = t.id
 WHERE w.id = %s
 ORDER BY t.id
"""


_LISTED = """
SELECT t.id, t.name, g.format
  FROM catalog_tabular t JOIN catalog_generictable g ON g.tabular_id = t.id
 WHERE t.id = ANY(%s) AND t.deleted_at IS NULL
 ORDER BY t.id
"""


@dataclass(frozen=True, slots=True)
class LoadedGenericTable:
    """A generic table. `schema` and `statistics` are JSON texts, None when not given.

    `files` and `rights` are as of `catalog.selectors.tables.load.Loaded`.
    """

    id: UUID
    name: str
    format: str
    base_location: str
    is_protected: bool
    doc: str | None
    properties: dict[str, str]
    schema: str | None
    statistics: str | None
    files: TabularFiles | None = None
    rights: FileAccess | None = None


@dataclass(frozen=True, slots=True)
class ListedGenericTable:
    id: UUID
    identifier: Identifier
    format: str

    def as_json(self) -> dict[str, Any]:
        return {**self.identifier.as_json(), "format": self.format, "id": str(self.id)}


def load_generic_table_for(*, actor: Actor, warehouse_id: UUID, identifier: Identifier) -> LoadedGenericTable:
    """Raises `NoSuchWarehouse` or `NoSuchGenericTable` (also when the namespace is missing)."""
    row = fetch_one(settings.READ_DATABASE, _LOAD, [identifier.path_key, identifier.name_key, warehouse_id])
    if row is None:
        raise no_such_warehouse(warehouse_id)
    *stored_storage, location, metadata_location, claims = row[:7]
    described = row[7:]
    if described[0] != "active":
        raise no_such_warehouse(warehouse_id)
    missing = no_such_tabular(Tabular.Kind.GENERIC_TABLE, identifier)
    if described[1] is None:
        raise missing
    rights = require_to_load(actor, Tabular.Kind.GENERIC_TABLE, as_uuid(described[1]), missing=missing)
    storage = read_storage(warehouse_id, *stored_storage)
    files = TabularFiles(storage, read_locations(location, metadata_location, claims))
    return replace(_loaded(described), files=files, rights=rights)


def load_generic_table_by_id(*, actor: Actor, warehouse_id: UUID, table_id: UUID) -> LoadedGenericTable:
    """As it is now, under whatever name, also when it was dropped and can be restored; read where writes go."""
    row = fetch_one("default", _LOAD_BY_ID, [table_id, warehouse_id])
    if row is None:
        raise no_such_warehouse(warehouse_id)
    missing = NoSuchGenericTable(f"Generic table does not exist: {table_id}")
    if row[1] is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.GENERIC_TABLE, table_id, missing=missing)
    return _loaded(row)


def list_generic_tables_for(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, page: Page
) -> tuple[list[ListedGenericTable], str | None]:
    """Those right in a namespace, in order of creation, and the token of the next page (None: no more)."""
    after, limit = page.bounds()
    key = path_key(levels)
    params = [key, warehouse_id, key, after, limit, warehouse_id]
    rows = fetch_all(settings.READ_DATABASE, _LIST, params)
    listing = require_listing(actor, rows, warehouse_id, levels, Tabular.Kind.GENERIC_TABLE)

    def listed(found: Sequence[Row]) -> list[tuple[UUID, ListedGenericTable]]:
        ids = [(as_uuid(row[0]), row) for row in found if row[0] is not None]
        return [(own_id, ListedGenericTable(own_id, Identifier(listing.levels, row[1]), row[2])) for own_id, row in ids]

    def read(ids: list[UUID]) -> list[tuple[UUID, ListedGenericTable]]:
        return listed(fetch_all(settings.READ_DATABASE, _LISTED, [ids]))

    kind, found = Securable.Type.GENERIC_TABLE, listed([row[3:] for row in rows])
    return visible_page(found, page, actor=actor, seen_in=listing.seen_in, child_type=kind, read=read)


def _loaded(row: Row) -> LoadedGenericTable:
    _, table_id, name, location, is_protected, table_format, doc, properties, schema, statistics = row
    if isinstance(properties, str):  # SQLite keeps JSON as text
        properties = read_stored_json(properties.encode())
    return LoadedGenericTable(
        as_uuid(table_id), name, table_format, location, bool(is_protected), doc, properties, schema, statistics
    )
