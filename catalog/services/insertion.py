"""Rows of a new table: everything that a table is in the database, in one transaction."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError

from catalog.errors import already_exists, no_such_namespace, no_such_warehouse
from catalog.models import Namespace, Snapshot, Tabular, TabularMetadata
from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.tables import LoadedTable
from catalog.selectors.targets import Target
from catalog.services.documents import write_metadata
from catalog.services.locations import lock_warehouse, require_free_location
from catalog.services.pointers import snapshot_row
from icekeeper.kernel.database_errors import is_foreign_key_violation, is_load
from icekeeper.kernel.errors import AlreadyExists, BadRequest, Busy, CatalogError, CommitStateUnknown
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.stores import store_for
from storage.profiles.location import location_inside
from tenancy.authz.securables import add_securable
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be made: where, and what its metadata file says.

    `document` is the file at `metadata_location` byte for byte, or, when not `is_verbatim`, the modern form of it: then
    the database keeps it whatever its size, because commits go on from there.
    """

    target: Target
    namespace_id: UUID
    metadata: dict[str, Any]
    metadata_location: str
    document: bytes
    is_verbatim: bool = True


def make_table(target: Target, namespace_id: UUID, metadata: dict[str, Any]) -> LoadedTable:
    """Write the first metadata file, then the rows; a refusal takes the file away again."""
    location_inside(metadata["location"], base=target.warehouse_location)
    document = write_metadata(metadata)
    metadata_location = f"{metadata['location']}/metadata/00000-{new_id()}.metadata.json"
    store = store_for(target.storage_profile)
    store.put_new(metadata_location, document)
    try:
        return insert_table(NewTable(target, namespace_id, metadata, metadata_location, document))
    except CommitStateUnknown:
        raise  # the table may be there: then it needs its file
    except (CatalogError, DatabaseError):
        with suppress(CatalogError):
            store.delete(metadata_location)
        raise


def insert_table(table: NewTable) -> LoadedTable:
    """Make the rows of a table whose metadata file is in place.

    Raises `NoSuchNamespace`, `AlreadyExists` (name or UUID), `LocationAlreadyTaken`, `Busy`, or `CommitStateUnknown`
    when the database was lost in the act.
    """
    identifier = table.target.identifier
    table_uuid = _table_uuid(table.metadata)
    try:
        with write_transaction():
            table_id = _insert_rows(table, table_uuid)
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(identifier.levels) from None
        raise already_exists("table", "table", identifier) from None
    except DatabaseError as error:
        if not is_load(error):
            raise
        raise Busy("The database is busy: the table was not made, try again") from error
    address = (table.target.warehouse_id, identifier.path_key, identifier.name_key)
    metadata_cache.put(Version(table_id, table.metadata_location), table.document, address=address)
    return LoadedTable(table_id, table.metadata_location, table.document)


def _table_uuid(metadata: dict[str, Any]) -> UUID:
    """The UUID that clients know the table by."""
    table_uuid = parse_id(str(metadata["table-uuid"]))
    if table_uuid is None:
        raise BadRequest(f"Invalid table-uuid: {str(metadata['table-uuid'])[:100]!r} is not a UUID")
    return table_uuid


def _insert_rows(table: NewTable, table_uuid: UUID) -> UUID:
    identifier = table.target.identifier
    warehouse = lock_warehouse(table.target.warehouse_id)
    if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
        raise no_such_warehouse(table.target.warehouse_id)
    # Looked at again, now that nobody else can make a table here or drop the namespace.
    if not Namespace.objects.select_for_update(no_key=True).filter(pk=table.namespace_id):
        raise no_such_namespace(identifier.levels)
    namesake = Tabular.objects.filter(namespace_id=table.namespace_id, name_key=identifier.name_key).first()
    if namesake is not None:
        raise already_exists(namesake.kind, "table", identifier)
    if Tabular.objects.filter(warehouse_id=warehouse.pk, uuid=table_uuid).exists():
        raise AlreadyExists(f"A table with UUID {table_uuid} already exists in this warehouse")
    table_id = new_id()
    location = location_inside(table.metadata["location"], base=warehouse.location)
    require_free_location(warehouse=warehouse, location=location, owner=table_id)
    Tabular.objects.create(
        id=table_id,
        warehouse_id=warehouse.pk,
        namespace_id=table.namespace_id,
        kind=Tabular.Kind.TABLE,
        uuid=table_uuid,
        name=identifier.name,
        name_key=identifier.name_key,
        location=location,
        metadata_location=table.metadata_location,
    )
    inline = not table.is_verbatim or len(table.document) <= settings.ICEKEEPER.metadata_inline_limit
    TabularMetadata.objects.create(tabular_id=table_id, document=table.document if inline else None)
    snapshots = table.metadata.get("snapshots") or ()
    Snapshot.objects.bulk_create([Snapshot(tabular_id=table_id, **snapshot_row(s)) for s in snapshots], batch_size=500)
    add_securable(Securable.Type.TABLE, table_id, parent=(Securable.Type.NAMESPACE, table.namespace_id))
    return table_id
