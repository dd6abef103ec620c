"""New tables: created, or finished after a staged create."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from catalog.errors import FormatVersionNotAllowed, LocationAlreadyTaken, NameTaken, already_exists
from catalog.iceberg.create import create_table_metadata, requested_format_version
from catalog.iceberg.updates import apply_updates
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.access.files import TabularFiles
from catalog.selectors.tables.load import Loaded, StagedTable
from catalog.selectors.tables.targets import Target, find_target
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.availability import require_empty_location
from catalog.services.locations.claims import is_foreseeable, new_tabular_location
from catalog.services.tables.insert import create_tabular
from catalog.services.tables.staging import require_own_folder, reserve_staged_location
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.errors.types import AlreadyExists, CommitFailed, InvalidLocation, NotFound
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import read_stored_json, write_json
from icekeeper.kernel.names import require_name
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Securable

FALLBACK_FORMAT_VERSION = 2


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
    idempotency_key: IdempotencyKey | None = None,
) -> Loaded | StagedTable:
    """Create a table, or stage its creation; the arguments are those of CreateTableRequest.

    A location that the client chooses, or that the layout derives from the name alone, must be empty; that of a staged
    table must also be in its namespace's own folder: see `require_own_folder`. Raises `NoSuchNamespace`,
    `AlreadyExists`, `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`, and `Busy` while files of a dropped table
    are deleted there.
    """
    identifier = Identifier(levels, require_name(name, "table name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_to_create_in(actor, Tabular.Kind.TABLE)
    if target.current is not None:
        raise already_exists(target.current.kind, "table", identifier)
    table_uuid = new_id()
    metadata = create_table_metadata(
        schema=schema,
        partition_spec=partition_spec,
        write_order=write_order,
        location=new_tabular_location(target, location, table_uuid),
        properties=properties,
        table_uuid=str(table_uuid),
        format_version=_format_version(target, requested_format_version(properties)),
        now_ms=now_ms(),
    )
    if stage:
        require_own_folder(target, metadata)
    if is_foreseeable(metadata["location"], table_uuid):
        require_empty_location(actor, target, metadata["location"], idempotency_key)
    if not stage:
        return create_tabular(
            actor,
            target,
            namespace_id,
            Tabular.Kind.TABLE,
            metadata,
            fresh_uuid=table_uuid,
            idempotency_key=idempotency_key,
        )
    files = TabularFiles(target.storage, (metadata["location"].rstrip("/"),))
    staged = StagedTable(write_json(metadata), files)
    reserve_staged_location(actor, target, namespace_id, metadata, staged=staged, idempotency_key=idempotency_key)
    return staged


def files_to_write(
    *, actor: Actor, warehouse_id: UUID, identifier: Identifier, staged: StagedTable
) -> TabularFiles | None:
    """Return the files of a table that `actor` staged now, or earlier with the same request.

    In the latter case the location is reserved again. Returns None when that is not possible: the location or the name
    is taken, or `actor` is no longer allowed to create the table.
    """
    if staged.files is not None:
        return staged.files
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_id
    if namespace_id is None or target.current is not None:
        return None
    if not is_allowed(actor, Can.CREATE_TABLE, Securable.Type.NAMESPACE, namespace_id):
        return None
    metadata = read_stored_json(staged.document)
    try:
        reserve_staged_location(actor, target, namespace_id, metadata, staged=staged, idempotency_key=None)
    except (LocationAlreadyTaken, InvalidLocation, AlreadyExists, NotFound):
        return None
    return TabularFiles(target.storage, (metadata["location"].rstrip("/"),))


def finish_staged_create(
    actor: Actor, target: Target, namespace_id: UUID, *, updates: list[Any], idempotency_key: IdempotencyKey | None
) -> Loaded:
    """Create the table of a commit with the requirement `assert-create`, from its `updates` alone.

    The caller has checked that `actor` may create tables in the namespace.
    """
    require_name(target.identifier.name, "table name")
    table_uuid = new_id()
    change = apply_updates(
        None,
        updates,
        now_ms=now_ms(),
        base_metadata_location=None,
        table_uuid=str(table_uuid),
        between_updates=request_context.remaining_seconds,
    )
    require_format_version(target, change.metadata["format-version"])
    try:
        table = Tabular.Kind.TABLE
        return create_tabular(
            actor, target, namespace_id, table, change.metadata, fresh_uuid=None, idempotency_key=idempotency_key
        )
    except NameTaken as error:
        # The name was taken after the client's check: a failed requirement, unless a view has it.
        if error.kind != "table":
            raise
        raise CommitFailed("Requirement failed: table already exists") from None


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
