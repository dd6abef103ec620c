"""New tables: created, finished after a staged create, or registered from a metadata file that is already there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, transaction

from catalog.errors import FormatVersionNotAllowed, already_exists, no_such_namespace, no_such_warehouse
from catalog.iceberg.create import create_table_metadata, requested_format_version
from catalog.iceberg.updates import apply_updates
from catalog.iceberg.validation import read_table_metadata
from catalog.identifiers import Identifier, Levels
from catalog.models import Snapshot, Tabular, TabularMetadata
from catalog.selectors.metadata_cache import metadata_cache
from catalog.selectors.tables import LoadedTable
from catalog.selectors.targets import Target, find_target
from catalog.services.locations import lock_warehouse, require_free_location
from catalog.services.pointers import snapshot_row
from icekeeper.kernel import deadline
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.database_errors import is_foreign_key_violation, is_outcome_unknown
from icekeeper.kernel.errors import (
    AlreadyExists,
    BadRequest,
    Busy,
    CatalogError,
    CommitFailed,
    CommitStateUnknown,
    InvalidLocation,
    Unsupported,
)
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.json_text import read_json, write_json
from icekeeper.kernel.names import require_name
from storage.io.stores import store_for
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import add_securable
from tenancy.models import Securable

FALLBACK_FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The metadata of a table that is not there yet: the client finishes it with a commit that asserts create."""

    document: bytes


def create_table(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    name: object,
    schema: object,
    partition_spec: object,
    write_order: object,
    location: object,
    properties: object,
    stage: bool,
) -> LoadedTable | StagedTable:
    """Make a table, or with `stage` only work out what it would be; the arguments are those of CreateTableRequest.

    Raises `NoSuchNamespace`, `AlreadyExists`, `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`.
    """
    identifier = Identifier(levels, require_name(name, "table name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    target.namespace_for(actor, Can.CREATE_TABLE)
    if target.current is not None:
        raise already_exists(target.current.kind, "table", identifier)
    table_uuid = new_id()
    metadata = create_table_metadata(
        schema=schema,
        partition_spec=partition_spec,
        write_order=write_order,
        location=_spelled_location(target, location, table_uuid),
        properties=properties,
        table_uuid=str(table_uuid),
        format_version=_format_version(target, requested_format_version(properties)),
        now_ms=now_ms(),
    )
    if stage:
        return StagedTable(write_json(metadata))
    return _make_table(target, metadata)


def finish_staged_create(*, actor: Actor, target: Target, updates: list[Any]) -> LoadedTable:
    """Make the table whose commit asserts that there is none; everything it is stands in `updates`."""
    target.namespace_for(actor, Can.CREATE_TABLE)
    require_name(target.identifier.name, "table name")
    table_uuid = new_id()
    change = apply_updates(None, updates, now_ms=now_ms(), base_metadata_location=None, table_uuid=str(table_uuid))
    require_format_version(target, change.metadata["format-version"])
    try:
        return _make_table(target, change.metadata)
    except AlreadyExists as error:
        # The name was taken between the client's look and this commit: a failed requirement, unless a view has it.
        if "same name" in error.message:
            raise
        raise CommitFailed("Requirement failed: table already exists") from None


def register_table(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, name: object, metadata_location: object, overwrite: object
) -> LoadedTable:
    """Make a table of a metadata file that lies in the warehouse already. Keeps its UUID; copies nothing."""
    identifier = Identifier(levels, require_name(name, "table name"))
    if overwrite not in (None, False):
        raise Unsupported("register with overwrite is not supported yet")
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    target.namespace_for(actor, Can.CREATE_TABLE)
    if target.current is not None:
        raise already_exists(target.current.kind, "table", identifier)
    location_inside(metadata_location, base=target.warehouse_location)
    found = store_for(target.storage_profile).get(str(metadata_location), limit=settings.ICEKEEPER.metadata_file_limit)
    document = read_json(found)
    metadata = read_table_metadata(document)
    require_format_version(target, metadata["format-version"])
    # A file of the old form is served in the modern one, which means the same; any other exactly as it lies there.
    stored = found if metadata == document else write_json(metadata)
    return _insert_table(target, metadata, str(metadata_location), stored)


def require_format_version(target: Target, version: int) -> None:
    """Raises `FormatVersionNotAllowed` (400) when the warehouse's policy does not have `version`."""
    if version not in target.allowed_format_versions:
        allowed = ", ".join(str(each) for each in target.allowed_format_versions)
        raise FormatVersionNotAllowed(f"Format version {version} is not allowed in this warehouse; allowed: {allowed}")


def _format_version(target: Target, requested: int | None) -> int:
    if requested is not None:
        require_format_version(target, requested)
        return requested
    if target.default_format_version is not None:
        return target.default_format_version
    allowed = target.allowed_format_versions
    return FALLBACK_FORMAT_VERSION if FALLBACK_FORMAT_VERSION in allowed else max(allowed)


def _spelled_location(target: Target, location: object, table_uuid: UUID) -> str:
    """Where the table will lie, in the client's own spelling; one that it chose must be inside and empty."""
    if location is None:
        return f"{target.warehouse_location}/{table_uuid}"
    compared = location_inside(location, base=target.warehouse_location)
    if not store_for(target.storage_profile).is_empty(compared):
        raise InvalidLocation(f"Unexpected files in location {compared}: a table needs an empty one")
    return str(location).rstrip("/")


def _make_table(target: Target, metadata: dict[str, Any]) -> LoadedTable:
    """Write the metadata file, then the rows; a refusal takes the file away again."""
    location_inside(metadata["location"], base=target.warehouse_location)
    document = write_json(metadata)
    metadata_location = f"{metadata['location']}/metadata/00000-{new_id()}.metadata.json"
    store = store_for(target.storage_profile)
    store.put_new(metadata_location, document)
    try:
        return _insert_table(target, metadata, metadata_location, document)
    except CatalogError as error:
        if not isinstance(error, CommitStateUnknown):
            with suppress(CatalogError):
                store.delete(metadata_location)
        raise


def _insert_table(target: Target, metadata: dict[str, Any], metadata_location: str, document: bytes) -> LoadedTable:
    table_uuid = parse_id(str(metadata["table-uuid"]))
    if table_uuid is None:
        raise BadRequest(f"Invalid table-uuid: {str(metadata['table-uuid'])[:100]!r} is not a UUID")
    deadline.begin_write()
    try:
        with transaction.atomic():
            table_id = _insert_rows(target, metadata, metadata_location, document, table_uuid)
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(target.identifier.levels) from None
        raise already_exists("table", "table", target.identifier) from None
    except (DatabaseError, InterfaceError) as error:
        if is_outcome_unknown(error):
            raise CommitStateUnknown("The connection to the database was lost while the table was made") from error
        raise Busy("The database is busy: the table was not made, try again") from error
    identifier = target.identifier
    metadata_cache.put(
        metadata_location, document, address=(target.warehouse_id, identifier.path_key, identifier.name_key)
    )
    return LoadedTable(table_id, metadata_location, document)


def _insert_rows(
    target: Target, metadata: dict[str, Any], metadata_location: str, document: bytes, table_uuid: UUID
) -> UUID:
    identifier = target.identifier
    warehouse = lock_warehouse(target.warehouse_id)
    if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
        raise no_such_warehouse(target.warehouse_id)
    # Looked at again, now that nobody else can make a table here.
    namesake = Tabular.objects.filter(namespace_id=target.namespace_id, name_key=identifier.name_key).first()
    if namesake is not None:
        raise already_exists(namesake.kind, "table", identifier)
    if Tabular.objects.filter(warehouse_id=warehouse.pk, uuid=table_uuid).exists():
        raise AlreadyExists(f"A table with UUID {table_uuid} already exists in this warehouse")
    table_id = new_id()
    location = location_inside(metadata["location"], base=warehouse.location)
    require_free_location(warehouse=warehouse, location=location, owner=table_id)
    Tabular.objects.create(
        id=table_id,
        warehouse_id=warehouse.pk,
        namespace_id=target.namespace_id,
        kind=Tabular.Kind.TABLE,
        uuid=table_uuid,
        name=identifier.name,
        name_key=identifier.name_key,
        location=location,
        metadata_location=metadata_location,
    )
    inline = len(document) <= settings.ICEKEEPER.metadata_inline_limit
    TabularMetadata.objects.create(tabular_id=table_id, document=document if inline else None)
    Snapshot.objects.bulk_create(
        [Snapshot(tabular_id=table_id, **snapshot_row(s)) for s in metadata.get("snapshots") or ()], batch_size=500
    )
    add_securable(Securable.Type.TABLE, table_id, parent=(Securable.Type.NAMESPACE, target.namespace_id))
    return table_id
