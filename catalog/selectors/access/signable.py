"""Look-up of the tabular whose files a signing request is for, by id, name or location; one statement each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Identifier
from catalog.selectors.access.files import LOCATIONS, STORAGE, read_storage
from icekeeper.kernel.db.sql import Row, as_uuid, fetch_one
from icekeeper.kernel.json.strict import read_stored_json
from storage.errors import no_such_warehouse
from storage.models import WarehouseStorage
from storage.profiles.location import parents

_TABULAR = f"t.id, t.kind, t.deleted_at IS NOT NULL, {LOCATIONS}"

_BY_ID = f"""
SELECT w.status, {STORAGE}, {_TABULAR}
  FROM storage_warehouse w
  LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.id = %s
 WHERE w.id = %s
"""  # noqa: S608 - constants

_BY_NAME = f"""
SELECT w.status, {STORAGE}, {_TABULAR}
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = %s AND t.deleted_at IS NULL
 WHERE w.id = %s
"""  # noqa: S608

_NAMESPACE = f"""
SELECT w.status, {STORAGE}, n.id
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


@dataclass(frozen=True, slots=True)
class Signable:
    """A tabular, which may be soft-deleted. `locations`, in compared form, are its own location and its claims."""

    id: UUID
    kind: str
    is_dropped: bool
    locations: tuple[str, ...]


def find_by_id(*, warehouse_id: UUID, tabular_id: UUID) -> tuple[WarehouseStorage, Signable | None]:
    """With the storage of its warehouse. Raises `NoSuchWarehouse` when that is missing or inactive."""
    storage, row = _found(warehouse_id, _BY_ID, [tabular_id, warehouse_id])
    return storage, _signable(row)


def find_by_name(*, warehouse_id: UUID, identifier: Identifier) -> tuple[WarehouseStorage, Signable | None]:
    """As `find_by_id`."""
    storage, row = _found(warehouse_id, _BY_NAME, [identifier.path_key, identifier.name_key, warehouse_id])
    return storage, _signable(row)


def find_namespace(*, warehouse_id: UUID, path_key: str | None = None) -> tuple[WarehouseStorage, UUID | None]:
    """The storage of a warehouse, and the id of a namespace in it. Raises as `find_by_id`."""
    storage, (namespace_id,) = _found(warehouse_id, _NAMESPACE, [path_key, warehouse_id])
    return storage, None if namespace_id is None else as_uuid(namespace_id)


def find_by_location(*, warehouse_id: UUID, base: str, location: str) -> Signable | None:
    """Find the tabular that claims a parent of `location`; there is at most one. `base` is the warehouse's location."""
    if not location.startswith(f"{base}/"):
        return None
    around = [warehouse_id, list(parents(location, base=base))]
    row = fetch_one(settings.READ_DATABASE, _BY_LOCATION, around * 2)
    return None if row is None else _signable(row)


def _found(warehouse_id: UUID, statement: str, params: list[Any]) -> tuple[WarehouseStorage, Row]:
    row = fetch_one(settings.READ_DATABASE, statement, params)
    if row is None or row[0] != "active":
        raise no_such_warehouse(warehouse_id)
    return read_storage(warehouse_id, *row[1:5]), row[5:]


def _signable(row: Row) -> Signable | None:
    tabular_id, kind, is_dropped, location, _, claims = row
    if tabular_id is None:
        return None
    claimed = [] if claims is None else read_stored_json(claims.encode())
    return Signable(as_uuid(tabular_id), kind, bool(is_dropped), (location, *claimed))
