"""Creation of tables: at once, staged, or by the commit that finishes a staged create.

The first metadata file is written first; then all rows of a table or view are inserted in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError

from catalog.errors import (
    FormatVersionNotAllowed,
    LocationAlreadyTaken,
    NameTaken,
    Protected,
    already_exists,
    no_such_namespace,
    noun,
)
from catalog.iceberg.column_names import current_table_schema, current_view_schema, read_column_names
from catalog.iceberg.create import create_table_metadata, equivalent_request, requested_format_version
from catalog.iceberg.metadata_files import encode, first_metadata_location
from catalog.iceberg.totals import read_totals
from catalog.iceberg.updates import apply_updates
from catalog.identifiers import Identifier, Levels
from catalog.models import LocationClaim, Namespace, Snapshot, Tabular
from catalog.selectors.access.files import TabularFiles, with_client_scheme
from catalog.selectors.tables.load import LoadedTabular, StagedTable
from catalog.selectors.tables.metadata_cache import Version, metadata_cache
from catalog.selectors.tables.targets import CurrentTabular, Target, find_target
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import require_approved_creation
from catalog.services.commit.pointer import CommitFacts, commit_facts, insert_version, snapshot_row
from catalog.services.commit.revisions import delete_orphaned_metadata, inline_or_none, serialize_metadata
from catalog.services.idempotency import IdempotencyKey, ModernizedVersion, file_id
from catalog.services.locations.claims import (
    NO_OWNER,
    claim,
    folder_outside,
    is_foreseeable,
    lock_warehouse,
    new_tabular_location,
    require_unclaimed,
    require_unreserved,
    require_valid_locations,
    take_location,
)
from catalog.services.locations.purge import require_empty_location
from catalog.services.tables.drop import record_drop, retire
from catalog.services.tables.staging import TICKET_LIFETIME, require_own_folder
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now, now_ms
from icekeeper.kernel.db.sql import execute, fetch_all, lock_row
from icekeeper.kernel.db.transactions import is_foreign_key_violation, is_overload
from icekeeper.kernel.errors.types import (
    AlreadyExists,
    BadRequest,
    Busy,
    CatalogError,
    CommitFailed,
    CommitStateUnknown,
    InvalidLocation,
    NotFound,
)
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.json.strict import read_stored_json, write_json
from icekeeper.kernel.names import lookup_key, path_key, require_name
from storage.errors import no_such_warehouse
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from storage.profiles.profile import max_credential_lifetime
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.permissions import is_allowed
from tenancy.authz.securables import add_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.services.automatic_grants import grant_creator

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
) -> LoadedTabular | StagedTable:
    """Create a table, or stage its creation; the arguments are those of CreateTableRequest.

    A location that the client chooses, or that the layout derives from the name alone, must be empty; that of a staged
    table must also be in its namespace's own folder: see `require_own_folder`. Raises `NoSuchNamespace`,
    `AlreadyExists`, `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`, `ContractViolation` (409), and `Busy`
    while files of a dropped table are deleted there.
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
    action = ChangeAction.STAGE if stage else ChangeAction.CREATE
    require_approved_creation(actor, target, Tabular.Kind.TABLE, metadata, action=action)
    if is_foreseeable(metadata["location"], table_uuid):
        require_empty_location(actor, target, metadata["location"], idempotency_key)
    if not stage:
        request = {
            "name": name, "location": location, "schema": schema, "partition-spec": partition_spec,
            "write-order": write_order, "stage-create": False, "properties": properties,
        }  # fmt: skip
        return create_tabular(
            actor, target, namespace_id, Tabular.Kind.TABLE, metadata, request=request, fresh_uuid=table_uuid,
            idempotency_key=idempotency_key,
        )  # fmt: skip
    files = TabularFiles(target.storage, (metadata["location"].rstrip("/"),))
    staged = StagedTable(write_json(metadata), files)
    reserve_staged_location(actor, target, namespace_id, metadata, staged=staged, idempotency_key=idempotency_key)
    return staged


def reserve_staged_location(
    actor: Actor,
    target: Target,
    namespace_id: UUID,
    metadata: dict[str, Any],
    *,
    staged: StagedTable,
    idempotency_key: IdempotencyKey | None,
) -> None:
    """Reserve the location in `metadata`, with all above and below it, for `actor`, and store the response.

    The reservation lasts for the ticket's lifetime and that of credentials vended at its end; it restarts when `actor`
    already has it. The name is not reserved. Nothing is recorded: a commit creates the
    table. Raises as `lock_name`, `require_own_folder` and `take_location`.
    """
    location = location_inside(metadata["location"], base=target.warehouse_location)
    reserved_for = TICKET_LIFETIME + max_credential_lifetime(target.storage.profile)
    with translate_integrity_errors(Tabular.Kind.TABLE, target.identifier), change(actor, idempotency_key) as tx:
        table_uuid = UUID(metadata["table-uuid"])
        warehouse = lock_name(tx, target, namespace_id, Tabular.Kind.TABLE, table_uuid)
        require_own_folder(target, metadata)  # again, as no namespace can be created now
        take_location(actor=actor, warehouse=warehouse, location=location, owner=NO_OWNER)
        LocationClaim.objects.create(
            warehouse_id=warehouse.pk, staged_by=actor.name, location=location, expires_at=now() + reserved_for
        )
        tx.result = staged


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
) -> LoadedTabular:
    """Create the table of a commit with the requirement `assert-create`, from its `updates` alone.

    The caller has checked that `actor` may create tables in the namespace.
    """
    require_name(target.identifier.name, "table name")
    table_uuid = new_id()
    first = apply_updates(
        None,
        updates,
        now_ms=now_ms(),
        base_metadata_location=None,
        table_uuid=str(table_uuid),
        between_updates=request_context.remaining_seconds,
    )
    metadata = first.metadata
    require_format_version(target, metadata["format-version"])
    require_approved_creation(actor, target, Tabular.Kind.TABLE, metadata)
    try:
        return create_tabular(
            actor, target, namespace_id, Tabular.Kind.TABLE, metadata, fresh_uuid=None, idempotency_key=idempotency_key,
            request=equivalent_request(target.identifier.name, metadata),
        )  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class NewTabular:
    """A table or view that `actor` creates.

    `document` is the content of the file at `metadata_location`. When not `is_verbatim`, it is the modern form of that
    file, and the database stores it whatever its size, because commits build on it. `replaced` currently has the name
    and is deleted. `request` is the body of the request that creates it, None for one that registers it.
    """

    actor: Actor
    target: Target
    namespace_id: UUID
    kind: Tabular.Kind
    metadata: dict[str, Any]
    metadata_location: str
    document: bytes
    is_verbatim: bool = True
    replaced: CurrentTabular | None = None
    request: dict[str, Any] | None = None


def create_tabular(
    actor: Actor,
    target: Target,
    namespace_id: UUID,
    kind: Tabular.Kind,
    metadata: dict[str, Any],
    *,
    request: dict[str, Any],
    fresh_uuid: UUID | None,
    idempotency_key: IdempotencyKey | None,
) -> LoadedTabular:
    """Write the first metadata file, then insert the rows; on an error delete the file.

    `fresh_uuid` is the UUID if it was generated for this request: then a location that contains it cannot be in use.
    """
    document = serialize_metadata(metadata)
    require_valid_locations(target, metadata)
    _require_unreserved(actor, target, metadata, fresh_uuid)
    metadata_location = first_metadata_location(metadata, file_id(idempotency_key))
    store = store_for(target.storage)
    store.put_new(metadata_location, encode(document, metadata))
    try:
        new = NewTabular(actor, target, namespace_id, kind, metadata, metadata_location, document, request=request)
        return insert_tabular(new, idempotency_key=idempotency_key)
    except CommitStateUnknown:
        raise  # the rows may be committed: then the file is needed
    except (CatalogError, DatabaseError):
        delete_orphaned_metadata(store, [metadata_location])
        raise


def _require_unreserved(actor: Actor, target: Target, metadata: dict[str, Any], fresh_uuid: UUID | None) -> None:
    """Check all locations that may be in use, before the first file is written."""
    base = target.warehouse_location
    outside = folder_outside(metadata, base=base)
    to_check = [] if outside is None else [outside]
    location = location_inside(metadata["location"], base=base)
    is_in_base = location.rpartition("/")[0] == base
    if fresh_uuid is None or not is_in_base or is_foreseeable(location, fresh_uuid):
        to_check.append(location)
    require_unreserved(target, to_check, owner=NO_OWNER, actor=actor)


def insert_tabular(new: NewTabular, *, idempotency_key: IdempotencyKey | None) -> LoadedTabular:
    """Insert the rows of a table or view whose metadata file exists. Its creator becomes its owner.

    Raises `NoSuchNamespace`, `AlreadyExists` (name or UUID), `LocationAlreadyTaken`, `Busy`, or `CommitStateUnknown`
    when the connection to the database was lost during the commit.
    """
    identifier = new.target.identifier
    client_uuid = _client_uuid(new)
    locations = _locations(new, base=new.target.warehouse_location)
    files = TabularFiles(new.target.storage, with_client_scheme(tuple(locations), new.metadata_location))
    created = LoadedTabular(new_id(), new.metadata_location, new.document, files)
    with translate_integrity_errors(new.kind, identifier), change(new.actor, idempotency_key) as tx:
        _insert_rows(tx, new, created.id, client_uuid, locations)
        tx.result = created if new.is_verbatim else ModernizedVersion(created)
    address = (new.target.warehouse_id, path_key(identifier.levels), lookup_key(identifier.name))
    metadata_cache.put(Version(created.id, created.metadata_location), created.document, address=address)
    return created


@contextmanager
def translate_integrity_errors(kind: Tabular.Kind, identifier: Identifier) -> Iterator[None]:
    """Translate database errors of the transaction that creates a tabular to errors of the catalog."""
    try:
        yield
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(identifier.levels) from None
        raise already_exists(kind, kind, identifier) from None
    except DatabaseError as error:
        if not is_overload(error):
            raise
        raise Busy("The database is busy: nothing was created, try again") from error


def lock_name(
    tx: ChangeTransaction,
    target: Target,
    namespace_id: UUID,
    kind: Tabular.Kind,
    client_uuid: UUID,
    *,
    replaced: CurrentTabular | None = None,
) -> Warehouse:
    """Lock the warehouse and the namespace for the caller's transaction, and check that name and UUID are free.

    Deletes the `replaced` table. Raises `NoSuchWarehouse`, `NoSuchNamespace`, `AlreadyExists`, `Protected`.
    """
    identifier = target.identifier
    warehouse = lock_warehouse(target.warehouse_id)
    if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
        raise no_such_warehouse(target.warehouse_id)
    # Checked again under the lock: no other client can create tables here now, or drop or move the namespace.
    if lock_row(Namespace, "id = %s AND path_key = %s", [namespace_id, path_key(identifier.levels)]) is None:
        raise no_such_namespace(identifier.levels)
    if replaced is not None:
        _replace_existing(tx, warehouse, replaced, namespace_id, identifier)
    params = [namespace_id, lookup_key(identifier.name), warehouse.pk, client_uuid]
    for what, its_kind in fetch_all("default", _CONFLICTS, params):
        if what == "name":
            raise already_exists(its_kind, kind, identifier)
        raise AlreadyExists(f"A {kind} with UUID {client_uuid} already exists in this warehouse")
    return warehouse


_CONFLICTS = """
SELECT 'name', kind FROM catalog_tabular WHERE namespace_id = %s AND name_key = %s AND deleted_at IS NULL
UNION ALL
SELECT 'uuid', kind FROM catalog_tabular WHERE warehouse_id = %s AND uuid = %s
"""


def _replace_existing(
    tx: ChangeTransaction, warehouse: Warehouse, replaced: CurrentTabular, namespace_id: UUID, identifier: Identifier
) -> None:
    """Delete the rows of `replaced`, unless it was renamed concurrently: then it no longer has the name."""
    named = [namespace_id, lookup_key(identifier.name)]
    row = lock_row(Tabular, "namespace_id = %s AND name_key = %s AND deleted_at IS NULL", named, mode="UPDATE")
    if row is None or row.pk != replaced.id:
        return
    if row.protected:
        raise Protected(f"{noun(row.kind)} is protected: {identifier}")
    ended = retire([row])
    record_drop(tx, row, identifier.levels, project=warehouse.project_id, purge=False, **ended.as_details())


def insert_row(
    tx: ChangeTransaction,
    warehouse: Warehouse,
    namespace_id: UUID,
    identifier: Identifier,
    *,
    kind: Tabular.Kind,
    tabular_id: UUID,
    client_uuid: UUID,
    location: str,
    metadata_location: str,
    request: dict[str, Any] | None,
    facts: CommitFacts | None = None,
) -> None:
    """Insert the row that every kind has, its securable and the grant of its owner, under the locks of `lock_name`.

    `location` is in compared form, `request` the body of the request, None for one that registers a metadata file.
    `facts` are those of the first version, None for a generic table, which has no versions.
    Raises `LocationAlreadyTaken`.
    """
    take_location(actor=tx.actor, warehouse=warehouse, location=location, owner=tabular_id)
    created_at = now()
    first_commit = [None, None, None] if facts is None else list(facts)
    names = [identifier.name, lookup_key(identifier.name)]
    row = [tabular_id, warehouse.pk, namespace_id, kind.value, client_uuid, *names, location, metadata_location]
    execute(_INSERT, [*row, False, *first_commit, created_at, created_at])
    securable = Securable.Type(kind.value)
    add_securable(securable, tabular_id, parent=ObjectRef(Securable.Type.NAMESPACE, namespace_id))
    granted = grant_creator(tx.actor, OWNERSHIP, ObjectRef(securable, tabular_id))
    is_created = request is not None
    tx.record(
        Change.of_tabular(kind, "created" if is_created else "registered"), subject=tabular_id,
        project=warehouse.project_id, warehouse=warehouse.pk, uuid=client_uuid,
        levels=[*identifier.levels, identifier.name], **granted,
        data={key: value for key, value in (request or {}).items() if value is not None} if is_created else None,
    )  # fmt: skip


_INSERT = """
INSERT INTO catalog_tabular (id, warehouse_id, namespace_id, kind, uuid, name, name_key, location, metadata_location,
                             protected, committed_at, committed_by, engine, created_at, updated_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def _client_uuid(new: NewTabular) -> UUID:
    """The UUID that clients see. Raises `BadRequest` when the metadata has an invalid one."""
    field = f"{new.kind}-uuid"
    client_uuid = parse_id(str(new.metadata[field]))
    if client_uuid is None:
        raise BadRequest(f"Invalid {field}: {str(new.metadata[field])[:100]!r} is not a UUID")
    return client_uuid


def _insert_rows(
    tx: ChangeTransaction, new: NewTabular, tabular_id: UUID, client_uuid: UUID, locations: list[str]
) -> None:
    warehouse = lock_name(tx, new.target, new.namespace_id, new.kind, client_uuid, replaced=new.replaced)
    location, *further = locations
    snapshots = new.metadata.get("snapshots") or ()
    facts = commit_facts(new.actor, snapshots, now())
    insert_row(
        tx,
        warehouse,
        new.namespace_id,
        new.target.identifier,
        kind=new.kind,
        tabular_id=tabular_id,
        client_uuid=client_uuid,
        location=location,
        metadata_location=new.metadata_location,
        request=new.request,
        facts=facts,
    )
    for each in further:
        require_unclaimed(warehouse=warehouse, location=each, owner=tabular_id)
    claim(warehouse=warehouse, owner=tabular_id, locations=further)
    document = inline_or_none(new.document, new.kind) if new.is_verbatim else new.document
    is_table = new.kind == Tabular.Kind.TABLE
    columns = read_column_names((current_table_schema if is_table else current_view_schema)(new.metadata))
    insert_version(tabular_id, document, columns, read_totals(new.metadata) if is_table else None)
    if snapshots:
        by = None if new.request is None else facts.by  # a registered table was written by others
        rows = [Snapshot(tabular_id=tabular_id, committed_by=by, **snapshot_row(each)) for each in snapshots]
        Snapshot.objects.bulk_create(rows, batch_size=500)


def _locations(new: NewTabular, *, base: str) -> list[str]:
    """All locations that the tabular claims, in compared form: its own location first.

    The others are the folder of its metadata files and the file that it is registered from, if they are outside of it.
    """
    locations = [location_inside(new.metadata["location"], base=base)]
    outside = folder_outside(new.metadata, base=base)
    if outside is not None:
        locations.append(outside)
    file = location_inside(new.metadata_location, base=base)
    if not any(file.startswith(f"{location}/") for location in locations):
        locations.append(file)
    return locations
