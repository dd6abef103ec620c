"""Reads of generic tables: each is one statement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.access.files import (
    FILES_COLUMNS,
    FilesRow,
    TabularFiles,
    read_files,
    require_to_load,
)
from catalog.selectors.tables.load import require_listing
from catalog.selectors.visible_pages import visible_page
from icekeeper.kernel.db.sql import as_uuid, fetch_all, fetch_one_as
from icekeeper.kernel.errors.types import NoSuchGenericTable
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.vending.delegation import FileAccess
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

_COLUMNS = f"""
SELECT {FILES_COLUMNS}, w.status,
       g.tabular_id, t.name, t.protected, g.format, g.doc, g.properties, g.schema, g.statistics
  FROM storage_warehouse w"""  # noqa: S608 - constants

_BY_NAME = f"""{_COLUMNS}
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL
  LEFT JOIN catalog_generictable g ON g.tabular_id = t.id
 WHERE w.id = %s
"""

_BY_ID = f"""{_COLUMNS}
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


@dataclass(slots=True)
class _GenericTableRow(FilesRow):
    warehouse_status: str
    tabular_id: Any
    name: str
    protected: Any
    format: str
    doc: str | None
    properties: Any
    schema: str | None
    statistics: str | None


@dataclass(frozen=True, slots=True)
class LoadedGenericTable:
    """A generic table. `schema` and `statistics` are JSON texts, None when not given.

    `files` and `rights` are as of `catalog.selectors.tables.load.LoadedTabular`.
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
    """Load a generic table. Raises `NoSuchWarehouse` or `NoSuchGenericTable` (also when the namespace is missing)."""
    params = [path_key(identifier.levels), lookup_key(identifier.name), warehouse_id]
    row = fetch_one_as(_GenericTableRow, settings.READ_DATABASE, _BY_NAME, params)
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_tabular, Tabular.Kind.GENERIC_TABLE, identifier)
    if row.tabular_id is None:
        raise missing()
    rights = require_to_load(actor, Tabular.Kind.GENERIC_TABLE, as_uuid(row.tabular_id), missing=missing)
    return _loaded(row, files=read_files(warehouse_id, row), rights=rights)


def load_generic_table_by_id(*, actor: Actor, warehouse_id: UUID, table_id: UUID) -> LoadedGenericTable:
    """Load the current state of a generic table, which may be soft-deleted, from the primary database."""
    row = fetch_one_as(_GenericTableRow, "default", _BY_ID, [table_id, warehouse_id])
    if row is None:
        raise no_such_warehouse(warehouse_id)
    missing = NoSuchGenericTable(f"Generic table does not exist: {table_id}")
    if row.tabular_id is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.GENERIC_TABLE, table_id, missing=missing)
    return _loaded(row)


def list_generic_tables_for(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, page: Page
) -> tuple[list[ListedGenericTable], str | None]:
    """List the generic tables in a namespace, in order of creation, with the token of the next page if there is one."""
    after, limit = page.bounds()
    key = path_key(levels)
    params = [key, warehouse_id, key, after, limit, warehouse_id]
    rows = fetch_all(settings.READ_DATABASE, _LIST, params)
    listing = require_listing(actor, rows, warehouse_id, levels, Tabular.Kind.GENERIC_TABLE)

    def listed(stored_id: Any, name: str, table_format: str) -> tuple[UUID, ListedGenericTable]:
        table_id = as_uuid(stored_id)
        return table_id, ListedGenericTable(table_id, Identifier(listing.levels, name), table_format)

    def read(ids: list[UUID]) -> list[tuple[UUID, ListedGenericTable]]:
        return [listed(*row) for row in fetch_all(settings.READ_DATABASE, _LISTED, [ids])]

    kind = Securable.Type.GENERIC_TABLE
    found = [listed(own_id, name, its_format) for _, _, _, own_id, name, its_format in rows if own_id is not None]
    return visible_page(found, page, actor=actor, seen_in=listing.seen_in, child_type=kind, read=read)


def _loaded(
    row: _GenericTableRow, *, files: TabularFiles | None = None, rights: FileAccess | None = None
) -> LoadedGenericTable:
    properties = row.properties
    if isinstance(properties, str):  # SQLite keeps JSON as text
        properties = read_stored_json(properties.encode())
    return LoadedGenericTable(
        id=as_uuid(row.tabular_id),
        name=row.name,
        format=row.format,
        base_location=row.location,
        is_protected=bool(row.protected),
        doc=row.doc,
        properties=properties,
        schema=row.schema,
        statistics=row.statistics,
        files=files,
        rights=rights,
    )
