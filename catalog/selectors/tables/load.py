"""Loads and listings of tables and views, one statement each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_namespace, no_such_tabular
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.access.files import (
    FILES_COLUMNS,
    NAMED_TABULAR,
    STORAGE_COLUMNS,
    FilesRow,
    StorageRow,
    TabularFiles,
    read_files,
    read_storage,
    require_to_load,
)
from catalog.selectors.tables.metadata_cache import (
    Version,
    metadata_cache,
    read_metadata_document,
    read_metadata_file,
)
from catalog.selectors.visible_pages import require_to_list, visible_page
from icekeeper.kernel.db.sql import Row, as_uuid, fetch_all, fetch_one, fetch_one_as
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.json.strict import read_stored_json, write_json
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.io.port import ObjectNotFound
from storage.io.stores import verify_metadata_file
from storage.vending.delegation import FileAccess
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

_LOAD = f"""
SELECT {FILES_COLUMNS}, w.status, t.id, t.kind,
       CASE WHEN t.id = %s AND t.metadata_location = %s THEN NULL ELSE m.document END
{NAMED_TABULAR}
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s
"""

_EXISTS = f"""
SELECT w.status, t.id, t.kind
{NAMED_TABULAR}
 WHERE w.id = %s
"""

_VERSION = f"""
SELECT {STORAGE_COLUMNS}, t.kind, t.metadata_location, m.document
  FROM storage_warehouse w
  LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.id = %s
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s
"""  # noqa: S608 - constants

# The page is limited in the subquery. With a range of `kind` instead of an equality it is part of the order, which
# only the index `tabular_by_listing_order` has: by the primary key PostgreSQL would read rows of other namespaces, too.
_LIST = """
SELECT w.status, n.id, n.path, t.id, t.name, t.uuid, t.protected
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN (SELECT id, namespace_id, name, uuid, protected
               FROM catalog_tabular
              WHERE namespace_id = (SELECT id FROM catalog_namespace WHERE warehouse_id = %s AND path_key = %s)
                AND (kind, id) > (%s, %s) AND kind <= %s AND deleted_at IS NULL
              ORDER BY kind, id LIMIT %s) t ON t.namespace_id = n.id
 WHERE w.id = %s
 ORDER BY t.id
"""


_LISTED = """
SELECT id, name, uuid, protected FROM catalog_tabular WHERE id = ANY(%s) AND deleted_at IS NULL ORDER BY id
"""

LISTING_ACTIONS = {
    Tabular.Kind.TABLE: Can.LIST_TABLES,
    Tabular.Kind.VIEW: Can.LIST_VIEWS,
    Tabular.Kind.GENERIC_TABLE: Can.LIST_GENERIC_TABLES,
}


@dataclass(slots=True)
class _LoadRow(FilesRow):
    warehouse_status: str
    tabular_id: Any
    kind: str
    document: Any


@dataclass(slots=True)
class _VersionRow(StorageRow):
    kind: str | None
    metadata_location: str
    document: Any


@dataclass(frozen=True, slots=True)
class LoadedTabular:
    """A version of a table or view: its metadata location and the exact bytes of the metadata.

    `files` is None in a replayed response to a write, as the files may have changed since: then use `files_of`.
    `rights` is the caller's access to the files, None without any and after a write.
    """

    id: UUID
    metadata_location: str
    document: bytes
    files: TabularFiles | None = None
    rights: FileAccess | None = None


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The metadata of a staged table, which the client creates with a commit that has the requirement `assert-create`.

    `files` is None in a replayed response: then use `catalog.services.tables.create.files_to_write`.
    """

    document: bytes
    files: TabularFiles | None = None


class ListedTabular(NamedTuple):
    """A tabular as a listing of its namespace shows it."""

    name: str
    stored_uuid: Any
    is_protected: bool

    @property
    def uuid(self) -> UUID:
        """The id that clients see. Parsed on demand, as most listings do not show it."""
        return as_uuid(self.stored_uuid)


def load_tabular_for(*, actor: Actor, warehouse_id: UUID, identifier: Identifier, kind: Tabular.Kind) -> LoadedTabular:
    """Load the current metadata of a table or view. One statement; the document comes from the cache if possible.

    Raises `NoSuchWarehouse`, `NoSuchTable` or `NoSuchView` (also when the namespace is missing, as clients probe).
    """
    address = (warehouse_id, path_key(identifier.levels), lookup_key(identifier.name))
    seen, document = metadata_cache.last_seen(address)
    known = (seen.tabular_id, seen.metadata_location) if seen else (None, None)
    row = fetch_one_as(_LoadRow, settings.READ_DATABASE, _LOAD, [*known, *address[1:], warehouse_id])
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_tabular, kind, identifier)
    if row.tabular_id is None or row.kind != kind:
        raise missing()
    tabular_id = as_uuid(row.tabular_id)
    rights = require_to_load(actor, kind, tabular_id, missing=missing)
    current = Version(tabular_id, row.metadata_location)
    files = read_files(warehouse_id, row)
    verify_metadata_file(files.storage, row.metadata_location)
    if document is None or current != seen:
        document = read_metadata_document(files.storage, current, row.document)
        metadata_cache.put(current, document, address=address)
    return LoadedTabular(tabular_id, row.metadata_location, document, files, rights)


def load_version(*, actor: Actor, warehouse_id: UUID, tabular_id: UUID, location: str) -> LoadedTabular:
    """Load the version of a table or view at the metadata `location`; if that file is deleted, the current version.

    Raises `ObjectNotFound` (404) when neither exists.
    """
    row = fetch_one_as(_VersionRow, "default", _VERSION, [tabular_id, warehouse_id])
    if row is None:
        raise no_such_warehouse(warehouse_id)
    storage = read_storage(warehouse_id, row)
    if row.kind is not None:
        missing = ObjectNotFound(f"There is no metadata file {location}")
        require_permission(actor, Can.GET_METADATA, Securable.Type(row.kind), tabular_id, missing=missing)
    if row.metadata_location != location:
        try:
            return LoadedTabular(tabular_id, location, read_metadata_file(storage, location))
        except ObjectNotFound:
            if row.kind is None:
                raise
    document = read_metadata_document(storage, Version(tabular_id, row.metadata_location), row.document)
    return LoadedTabular(tabular_id, row.metadata_location, document)


def require_tabular_exists(
    *,
    actor: Actor,
    warehouse_id: UUID,
    identifier: Identifier,
    kind: Tabular.Kind,
) -> UUID:
    """Return the id of a tabular whose metadata `actor` may get. Raises as `load_tabular_for`."""
    row = fetch_one(
        settings.READ_DATABASE, _EXISTS, [path_key(identifier.levels), lookup_key(identifier.name), warehouse_id]
    )
    warehouse_status, found_id, found_kind = row or (None, None, None)
    if warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_tabular, kind, identifier)
    if found_id is None or found_kind != kind:
        raise missing()
    tabular_id = as_uuid(found_id)
    require_permission(actor, Can.GET_METADATA, Securable.Type(kind.value), tabular_id, missing=missing)
    return tabular_id


def list_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, kind: Tabular.Kind, page: Page
) -> tuple[Levels, list[ListedTabular], str | None]:
    """List the tabulars of `kind` in a namespace, in order of creation.

    Returns the levels of the namespace in its own spelling, the tabulars, and the token of the next page if there is
    one. One statement for callers who see everything. Raises as `require_listing`.
    """
    after, limit = page.bounds()
    key = path_key(levels)
    params = [key, warehouse_id, key, kind.value, after, kind.value, limit, warehouse_id]
    rows = fetch_all(settings.READ_DATABASE, _LIST, params)
    listing = require_listing(actor, rows, warehouse_id, levels, kind)

    def read(ids: list[UUID]) -> list[tuple[UUID, ListedTabular]]:
        return [
            (as_uuid(own_id), ListedTabular(name, uuid, bool(protected)))
            for own_id, name, uuid, protected in fetch_all(settings.READ_DATABASE, _LISTED, [ids])
        ]

    found = [
        (as_uuid(own_id), ListedTabular(name, uuid, bool(protected)))
        for _, _, _, own_id, name, uuid, protected in rows
        if own_id is not None
    ]
    return listing.levels, *visible_page(found, page, actor=actor, seen_in=listing.seen_in, child_type=kind, read=read)


@dataclass(frozen=True, slots=True)
class Listing:
    """A namespace whose content is listed: its levels in its own spelling, and `seen_in` of `visible_page`."""

    levels: Levels
    seen_in: ObjectRef | None


def require_listing(
    actor: Actor, rows: Sequence[Row], warehouse_id: UUID, levels: Levels, kind: Tabular.Kind
) -> Listing:
    """Check the permission to list a namespace of which `rows` were read.

    Their first columns are the status of the warehouse, and the id and path of the namespace. Raises `NoSuchWarehouse`,
    `NoSuchNamespace`, `Forbidden`.
    """
    warehouse_status, namespace_id, path, *_ = rows[0] if rows else (None, None, "")
    if warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    missing = partial(no_such_namespace, levels)
    if namespace_id is None:
        raise missing()
    seen_in = require_to_list(
        actor, LISTING_ACTIONS[kind], ObjectRef(Securable.Type.NAMESPACE, as_uuid(namespace_id)), missing
    )
    return Listing(tuple(path.split(LEVEL_SEPARATOR)), seen_in)


def with_referenced_snapshots(loaded: LoadedTabular) -> LoadedTabular:
    """Return the table with only those snapshots that a branch or tag references (`snapshots=refs`)."""
    version = Version(loaded.id, loaded.metadata_location, snapshots="refs")
    document = metadata_cache.get(version)
    if document is None:
        document = _keep_referenced(loaded.document)
        metadata_cache.put_document(version, document)
    return replace(loaded, document=document)


def _keep_referenced(document: bytes) -> bytes:
    metadata = read_stored_json(document)
    named = {reference["snapshot-id"] for reference in (metadata.get("refs") or {}).values()}
    snapshots = metadata.get("snapshots") or []
    kept = [snapshot for snapshot in snapshots if snapshot["snapshot-id"] in named]
    return document if len(kept) == len(snapshots) else write_json(metadata | {"snapshots": kept})
