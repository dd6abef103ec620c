"""Rows of a new table or view: everything that it is in the database, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError

from catalog.errors import Protected, already_exists, no_such_namespace, no_such_warehouse, noun
from catalog.iceberg.metadata_files import encode, first_metadata_location
from catalog.identifiers import Identifier
from catalog.models import Namespace, Snapshot, Tabular, TabularMetadata
from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.tabulars import Loaded
from catalog.selectors.targets import CurrentTabular, Target
from catalog.services.documents import inline, take_away, write_metadata
from catalog.services.locations import claim, folder_outside, lock_warehouse, require_free_location
from catalog.services.outcomes import RequestKey, keep_outcome
from catalog.services.pointers import snapshot_row
from icekeeper.kernel.database_errors import is_foreign_key_violation, is_load
from icekeeper.kernel.errors import AlreadyExists, BadRequest, Busy, CatalogError, CommitStateUnknown
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from tenancy.authz.securables import add_securable, remove_securable
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class NewTabular:
    """A table or view that is to be made: where, and what its metadata file says.

    `document` is the file at `metadata_location`, or, when not `is_verbatim`, the modern form of it: then the database
    keeps it whatever its size, because commits go on from there. `replaced` has the name now and gives it up.
    """

    target: Target
    namespace_id: UUID
    kind: Tabular.Kind
    metadata: dict[str, Any]
    metadata_location: str
    document: bytes
    is_verbatim: bool = True
    replaced: CurrentTabular | None = None


def make_tabular(
    target: Target, namespace_id: UUID, kind: Tabular.Kind, metadata: dict[str, Any], *, once: RequestKey | None
) -> Loaded:
    """Write the first metadata file, then the rows; a refusal takes the file away again."""
    folder_outside(metadata, base=target.warehouse_location)
    document = write_metadata(metadata)
    metadata_location = first_metadata_location(metadata, new_id())
    store = store_for(target.storage_profile)
    store.put_new(metadata_location, encode(document, metadata))
    try:
        return insert_tabular(NewTabular(target, namespace_id, kind, metadata, metadata_location, document), once=once)
    except CommitStateUnknown:
        raise  # it may be there: then it needs its file
    except (CatalogError, DatabaseError):
        take_away(store, [metadata_location])
        raise


def insert_tabular(new: NewTabular, *, once: RequestKey | None) -> Loaded:
    """Make the rows of a table or view whose metadata file is in place.

    Raises `NoSuchNamespace`, `AlreadyExists` (name or UUID), `LocationAlreadyTaken`, `Busy`, or `CommitStateUnknown`
    when the database was lost in the act.
    """
    identifier = new.target.identifier
    client_uuid = _client_uuid(new)
    made = Loaded(new_id(), new.metadata_location, new.document)
    with making(new.kind, identifier), write_transaction():
        _insert_rows(new, made.id, client_uuid)
        keep_outcome(once, made)
    address = (new.target.warehouse_id, identifier.path_key, identifier.name_key)
    metadata_cache.put(Version(made.id, made.metadata_location), made.document, address=address)
    return made


@contextmanager
def making(kind: Tabular.Kind, identifier: Identifier) -> Iterator[None]:
    """Around the transaction that makes a tabular: what the database refuses, as the refusal of its kind."""
    try:
        yield
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(identifier.levels) from None
        raise already_exists(kind, kind, identifier) from None
    except DatabaseError as error:
        if not is_load(error):
            raise
        raise Busy("The database is busy: nothing was made, try again") from error


def hold_name(
    target: Target,
    namespace_id: UUID,
    kind: Tabular.Kind,
    client_uuid: UUID,
    *,
    replaced: CurrentTabular | None = None,
) -> Warehouse:
    """Lock the warehouse and the namespace for the caller's transaction, and see that name and UUID are free there.

    A table that is `replaced` goes. Raises `NoSuchWarehouse`, `NoSuchNamespace`, `AlreadyExists`, `Protected`.
    """
    identifier = target.identifier
    warehouse = lock_warehouse(target.warehouse_id)
    if warehouse is None or warehouse.status != warehouse.Status.ACTIVE:
        raise no_such_warehouse(target.warehouse_id)
    # Looked at again, now that nobody else can make a table here or drop the namespace.
    if not Namespace.objects.select_for_update(no_key=True).filter(pk=namespace_id):
        raise no_such_namespace(identifier.levels)
    namesakes = Tabular.objects.filter(namespace_id=namespace_id, name_key=identifier.name_key, deleted_at__isnull=True)
    if replaced is not None:
        # By its name: one that somebody renames just now is not in the way.
        namesakes = namesakes.select_for_update()
    namesake = namesakes.first()
    if namesake is not None:
        if replaced is None or namesake.pk != replaced.id:
            raise already_exists(namesake.kind, kind, identifier)
        if namesake.protected:
            raise Protected(f"{noun(kind)} is protected: {identifier}")
        namesake_id = namesake.pk
        namesake.delete()
        remove_securable(Securable.Type(namesake.kind), namesake_id)
    if Tabular.objects.filter(warehouse_id=warehouse.pk, uuid=client_uuid).exists():
        raise AlreadyExists(f"A {kind} with UUID {client_uuid} already exists in this warehouse")
    return warehouse


def _client_uuid(new: NewTabular) -> UUID:
    """The UUID that clients know it by."""
    field = f"{new.kind}-uuid"
    client_uuid = parse_id(str(new.metadata[field]))
    if client_uuid is None:
        raise BadRequest(f"Invalid {field}: {str(new.metadata[field])[:100]!r} is not a UUID")
    return client_uuid


def _insert_rows(new: NewTabular, tabular_id: UUID, client_uuid: UUID) -> None:
    identifier = new.target.identifier
    warehouse = hold_name(new.target, new.namespace_id, new.kind, client_uuid, replaced=new.replaced)
    location = location_inside(new.metadata["location"], base=warehouse.location)
    outside = folder_outside(new.metadata, base=warehouse.location)
    for wanted in (location, *([outside] if outside else [])):
        require_free_location(warehouse=warehouse, location=wanted, owner=tabular_id)
    Tabular.objects.create(
        id=tabular_id,
        warehouse_id=warehouse.pk,
        namespace_id=new.namespace_id,
        kind=new.kind,
        uuid=client_uuid,
        name=identifier.name,
        name_key=identifier.name_key,
        location=location,
        metadata_location=new.metadata_location,
    )
    if outside is not None:
        claim(warehouse=warehouse, owner=tabular_id, locations=[outside])
    stored = inline(new.document) if new.is_verbatim else new.document
    TabularMetadata.objects.create(tabular_id=tabular_id, document=stored)
    snapshots = new.metadata.get("snapshots") or ()
    Snapshot.objects.bulk_create(
        [Snapshot(tabular_id=tabular_id, **snapshot_row(s)) for s in snapshots], batch_size=500
    )
    add_securable(Securable.Type(new.kind.value), tabular_id, parent=(Securable.Type.NAMESPACE, new.namespace_id))
