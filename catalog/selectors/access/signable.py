"""Look-up of the tabular whose files a signing request is for, by id, name or location; one statement each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Identifier
from catalog.selectors.access.files import LOCATION_COLUMNS, STORAGE_COLUMNS, claimed_locations, read_storage
from icekeeper.kernel.db.sql import as_uuid, fetch_one_as
from storage.errors import no_such_warehouse
from storage.models import WarehouseStorage
from storage.profiles.location import parents

_TABULAR = f"t.id, t.kind, t.deleted_at IS NOT NULL, {LOCATION_COLUMNS}"

_BY_ID = f"""
SELECT w.status, {STORAGE_COLUMNS}, {_TABULAR}
  FROM storage_warehouse w
  LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.id = %s
 WHERE w.id = %s
"""  # noqa: S608 - constants

_BY_NAME = f"""
SELECT w.status, {STORAGE_COLUMNS}, {_TABULAR}
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL
 WHERE w.id = %s
"""  # noqa: S608

_NAMESPACE = f"""
SELECT w.status, {STORAGE_COLUMNS}, n.id
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""  # noqa: S608

_BY_LOCATION = f"""
SELECT {_TABULAR}
  FROM catalog_tabular t
 WHERE t.id IN (SELECT id FROM catalog_tabular WHERE warehouse_id = %s AND location = ANY(%s)
                UNION ALL
                SELECT tabular_id FROM catalog_locationclaim WHERE warehouse_id = %s AND location = ANY(%s))
"""  # noqa: S608


class _FoundRow(NamedTuple):
    warehouse_status: str
    storage_version: int
    storage_profile: Any
    secret_id: Any
    enforced_signatures: str | None
    tabular_id: Any
    kind: str
    is_dropped: Any
    location: str
    metadata_location: str
    claims: str | None


class _NamespaceRow(NamedTuple):
    warehouse_status: str
    storage_version: int
    storage_profile: Any
    secret_id: Any
    enforced_signatures: str | None
    namespace_id: Any


class _TabularRow(NamedTuple):
    tabular_id: Any
    kind: str
    is_dropped: Any
    location: str
    metadata_location: str
    claims: str | None


@dataclass(frozen=True, slots=True)
class Signable:
    """A tabular, which may be soft-deleted. `locations`, in compared form, are its own location and its claims."""

    id: UUID
    kind: str
    is_dropped: bool
    locations: tuple[str, ...]


def find_by_id(*, warehouse_id: UUID, tabular_id: UUID) -> tuple[WarehouseStorage, Signable | None]:
    """Return the storage of the warehouse, and the tabular. Raises `NoSuchWarehouse`, also for an inactive one."""
    return _find(warehouse_id, _BY_ID, [tabular_id, warehouse_id])


def find_by_name(*, warehouse_id: UUID, identifier: Identifier) -> tuple[WarehouseStorage, Signable | None]:
    """As `find_by_id`."""
    return _find(warehouse_id, _BY_NAME, [identifier.path_key, identifier.name_key, warehouse_id])


def find_namespace(*, warehouse_id: UUID, path_key: str | None = None) -> tuple[WarehouseStorage, UUID | None]:
    """Return the storage of a warehouse, and the id of a namespace in it. Raises as `find_by_id`."""
    row = fetch_one_as(_NamespaceRow, settings.READ_DATABASE, _NAMESPACE, [path_key, warehouse_id])
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    return read_storage(warehouse_id, row), None if row.namespace_id is None else as_uuid(row.namespace_id)


def find_by_location(*, warehouse_id: UUID, base: str, location: str) -> Signable | None:
    """Find the tabular that claims a parent of `location`; there is at most one. `base` is the warehouse's location."""
    if not location.startswith(f"{base}/"):
        return None
    params = [warehouse_id, list(parents(location, base=base))]
    return _signable(fetch_one_as(_TabularRow, settings.READ_DATABASE, _BY_LOCATION, params * 2))


def _find(warehouse_id: UUID, statement: str, params: list[Any]) -> tuple[WarehouseStorage, Signable | None]:
    row = fetch_one_as(_FoundRow, settings.READ_DATABASE, statement, params)
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    return read_storage(warehouse_id, row), _signable(row)


def _signable(row: _FoundRow | _TabularRow | None) -> Signable | None:
    if row is None or row.tabular_id is None:
        return None
    return Signable(as_uuid(row.tabular_id), row.kind, bool(row.is_dropped), claimed_locations(row))
