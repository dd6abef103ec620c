"""Remote signing of object-store requests, for engines without credentials of their own.

Read-only. Missing tables, tables hidden from the caller and objects that are never signed for (views) get the same
error, so that it does not reveal whether a table exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.access.files import (
    FILES_COLUMNS,
    LOCATION_COLUMNS,
    NAMED_TABULAR,
    STORAGE_COLUMNS,
    FilesRow,
    StorageRow,
    claimed_locations,
    read_storage,
)
from catalog.services.locations.claims import find_other_claims
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.db.sql import as_uuid, fetch_one_as
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.names import lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.models import WarehouseStorage
from storage.profiles.location import normalize, parents
from storage.signing.request import RequestToSign, SignableRequest
from storage.signing.signer import Signer, get_signer
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_read
from tenancy.audit.recording import Event
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

_TABULAR = "t.id, t.kind, t.deleted_at IS NOT NULL"

_BY_ID = f"""
SELECT {FILES_COLUMNS}, w.status, {_TABULAR}
  FROM storage_warehouse w
  LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.id = %s
 WHERE w.id = %s
"""  # noqa: S608 - constants

_BY_NAME = f"""
SELECT {FILES_COLUMNS}, w.status, {_TABULAR}
{NAMED_TABULAR}
 WHERE w.id = %s
"""

_NAMESPACE = f"""
SELECT {STORAGE_COLUMNS}, w.status, n.id
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""  # noqa: S608

_BY_LOCATION = f"""
SELECT {LOCATION_COLUMNS}, {_TABULAR}
  FROM catalog_tabular t
 WHERE t.id IN (SELECT id FROM catalog_tabular WHERE warehouse_id = %s AND location = ANY(%s)
                UNION ALL
                SELECT tabular_id FROM catalog_locationclaim WHERE warehouse_id = %s AND location = ANY(%s))
"""  # noqa: S608


@dataclass(slots=True)
class _FoundRow(FilesRow):
    warehouse_status: str
    tabular_id: Any
    kind: str
    is_dropped: Any


@dataclass(slots=True)
class _NamespaceRow(StorageRow):
    warehouse_status: str
    namespace_id: Any


class _TabularRow(NamedTuple):
    location: str
    metadata_location: str
    claims: str | None
    tabular_id: Any
    kind: str
    is_dropped: Any


@dataclass(frozen=True, slots=True)
class Signable:
    """A tabular, which may be soft-deleted. `locations`, in compared form, are its own location and its claims."""

    id: UUID
    kind: str
    is_dropped: bool
    locations: tuple[str, ...]


def find_signable(*, warehouse_id: UUID, tabular_id: UUID) -> tuple[WarehouseStorage, Signable | None]:
    """Return the storage of the warehouse, and the tabular. Raises `NoSuchWarehouse`, also for an inactive one."""
    return _find(warehouse_id, _BY_ID, [tabular_id, warehouse_id])


def find_by_name(*, warehouse_id: UUID, identifier: Identifier) -> tuple[WarehouseStorage, Signable | None]:
    """As `find_signable`."""
    return _find(warehouse_id, _BY_NAME, [path_key(identifier.levels), lookup_key(identifier.name), warehouse_id])


def find_namespace(*, warehouse_id: UUID, path_key: str | None = None) -> tuple[WarehouseStorage, UUID | None]:
    """Return the storage of a warehouse, and the id of a namespace in it. Raises as `find_signable`."""
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
    return Signable(
        as_uuid(row.tabular_id), row.kind, bool(row.is_dropped), claimed_locations(row.location, row.claims)
    )


class NoSuchTableLocation(BadRequest):
    """400, as in Lakekeeper: the caller named a location, not a table."""

    wire_type = "NoSuchTableLocationException"


class WarehouseRequired(BadRequest):
    wire_type = "NoPrefixProvided"


@dataclass(frozen=True, slots=True)
class Signed:
    """The headers of a signed request; `is_reusable` when they are valid for an equal request, too."""

    headers: dict[str, list[str]] = field(repr=False)
    is_reusable: bool


def sign_by_id(*, actor: Actor, warehouse_id: UUID, tabular_id: UUID, given: RequestToSign) -> Signed:
    """Sign a request to files of a table or generic table.

    A client may send the id of a table that no longer has the files: then the table is found by the location of the
    request. Files of a soft-deleted table can be read. Raises `NoSuchWarehouse`, `NoSuchTableLocation`, `Forbidden`,
    and the errors of `storage.signing`.
    """
    storage, found = find_signable(warehouse_id=warehouse_id, tabular_id=tabular_id)
    signer, request = _read(actor, storage, given)
    if found is None or not signer.is_within(request, found.locations):
        found = _find_by_location(storage, signer, request)
    return _signed_for(actor, found, signer, request, given, missing=_no_table_at_location())


def sign_by_location(*, actor: Actor, warehouse_id: UUID, given: RequestToSign) -> Signed:
    """As `sign_by_id`, for a client that names no table."""
    storage, _ = find_namespace(warehouse_id=warehouse_id)
    signer, request = _read(actor, storage, given)
    found = _find_by_location(storage, signer, request)
    return _signed_for(actor, found, signer, request, given, missing=_no_table_at_location())


def sign_by_name(*, actor: Actor, warehouse_id: UUID, identifier: Identifier, given: RequestToSign) -> Signed:
    """As `sign_by_id`, for this table only. Raises `NoSuchTable` (404) instead of `NoSuchTableLocation`."""
    storage, found = find_by_name(warehouse_id=warehouse_id, identifier=identifier)
    signer, request = _read(actor, storage, given)
    if found is not None and found.kind != Tabular.Kind.TABLE:
        found = None
    missing = no_such_tabular(Tabular.Kind.TABLE, identifier)
    return _signed_for(actor, found, signer, request, given, missing=missing)


def sign_staged(*, actor: Actor, warehouse_id: UUID, ticket: StagingTicket, given: RequestToSign) -> Signed:
    """Sign a request to files of a table that `actor` staged and has not committed yet; afterwards as `sign_by_id`.

    The location must still be free, and the caller must still be allowed to create tables in the namespace.
    """
    storage, namespace_id = find_namespace(warehouse_id=warehouse_id, path_key=ticket.namespace_key)
    signer, request = _read(actor, storage, given)
    found = _find_by_location(storage, signer, request)
    location = normalize(ticket.location, base=signer.base)
    others = find_other_claims(actor=actor, warehouse_id=warehouse_id, base=signer.base, location=location)
    if found is not None or others or not ticket.is_for(actor, warehouse_id):
        return _signed_for(actor, found, signer, request, given, missing=_no_table_at_location())
    if namespace_id is None:
        raise _no_table_at_location()
    require_permission(actor, Can.CREATE_TABLE, Securable.Type.NAMESPACE, namespace_id, missing=_no_table_at_location())
    signed = _signed(signer, request, given, (location,))
    _audit(actor, Can.CREATE_TABLE, Securable.Type.NAMESPACE, namespace_id)
    return signed


def warehouse_required() -> CatalogError:
    """Return the error of the route without a warehouse, which never signs."""
    return WarehouseRequired(
        "Requests are signed for one warehouse: clients must use the signer.endpoint that the table's config has"
    )


def _read(actor: Actor, storage: WarehouseStorage, given: RequestToSign) -> tuple[Signer, SignableRequest]:
    missing = no_such_warehouse(storage.warehouse_id)
    require_permission(actor, Can.USE, Securable.Type.WAREHOUSE, storage.warehouse_id, missing=missing)
    signer = get_signer(storage)
    return signer, signer.read(given)


def _find_by_location(storage: WarehouseStorage, signer: Signer, request: SignableRequest) -> Signable | None:
    location = signer.location_of(request.keys[0])
    return find_by_location(warehouse_id=storage.warehouse_id, base=signer.base, location=location)


def _signed_for(
    actor: Actor,
    found: Signable | None,
    signer: Signer,
    request: SignableRequest,
    given: RequestToSign,
    *,
    missing: CatalogError,
) -> Signed:
    is_reading = request.operation.is_reading
    if found is None or found.kind == Tabular.Kind.VIEW or (found.is_dropped and not is_reading):
        raise missing
    securable, action = Securable.Type(found.kind), Can.READ_DATA if is_reading else Can.WRITE_DATA
    require_permission(actor, action, securable, found.id, missing=missing)
    signed = _signed(signer, request, given, found.locations)
    _audit(actor, action, securable, found.id)
    return signed


def _signed(signer: Signer, request: SignableRequest, given: RequestToSign, locations: tuple[str, ...]) -> Signed:
    headers = signer.sign(request, given, locations=locations)
    return Signed(headers, is_reusable=request.is_repeatable)


def _audit(actor: Actor, action: Can, securable: Securable.Type, object_id: UUID) -> None:
    event = Event.DATA_REQUEST_SIGNED
    record_read(actor=actor, event=event, action=action, object_type=securable.value, object_id=object_id)


def _no_table_at_location() -> NoSuchTableLocation:
    return NoSuchTableLocation("There is no table at the location of the request, or none whose requests are signed")
