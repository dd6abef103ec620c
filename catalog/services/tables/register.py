"""Registration of tables and views from a metadata file in the warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

from catalog.errors import already_exists, no_such_tabular
from catalog.iceberg.metadata_files import metadata_folder
from catalog.iceberg.validation import check_times, read_table_metadata, read_view_metadata
from catalog.identifiers import Identifier, Levels
from catalog.models import LocationClaim, Tabular
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import read_metadata_file
from catalog.selectors.tables.targets import CurrentTabular, Target, find_target
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import propose_creation, propose_replacement
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import NO_OWNER, require_unreserved, require_valid_locations
from catalog.services.tables.create import NewTabular, insert_tabular, require_format_version
from catalog.services.tables.create_view import require_may_set_owner
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.json.strict import read_json, write_json
from icekeeper.kernel.names import require_name
from storage.profiles.location import location_inside, new_location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable


def register_tabular(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    name: object,
    metadata_location: object,
    kind: Tabular.Kind,
    overwrite: bool = False,
    idempotency_key: IdempotencyKey | None = None,
) -> LoadedTabular:
    """Register a table or view with its metadata file. Keeps its UUID; copies no files.

    `overwrite` replaces one of that name and kind in the same transaction; the files of the replaced one stay. When
    both are of the same lineage, this needs the permission to manage grants on it. Raises `NoSuchNamespace`,
    `AlreadyExists`, `LocationAlreadyTaken`, `Protected`, `ContractViolation` (409), what `read_registered` raises, and
    `ProtectedPropertyModification` (403) for a view with an owner property.
    """
    identifier = Identifier(levels, require_name(name, f"{kind} name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_to_create_in(actor, kind)
    replaced = None
    if target.current is not None:
        if not overwrite or target.current.kind != kind:
            raise already_exists(target.current.kind, kind, identifier)
        replaced = target.tabular_for(actor, Can.DROP, kind)
    metadata, stored, is_verbatim = read_registered(target, kind, metadata_location)
    if replaced is not None and is_same_table_lineage(
        replaced, metadata, str(metadata_location), base=target.warehouse_location
    ):
        # The caller becomes the owner and the grants on the replaced one are deleted: that changes grants.
        missing = no_such_tabular(kind, identifier)
        require_permission(actor, Can.GRANT_MANAGE_GRANTS, Securable.Type(kind.value), replaced.id, missing=missing)
    if kind == Tabular.Kind.VIEW:
        require_may_set_owner(actor, metadata["properties"])
    require_approval(
        target.rules_version,
        lambda: [
            propose_creation(actor, target, kind, metadata, action=ChangeAction.REGISTER)
            if replaced is None
            else propose_replacement(actor, target, replaced, metadata)
        ],
        warehouse_id=target.warehouse_id,
    )
    new = NewTabular(
        actor,
        target,
        namespace_id,
        kind,
        metadata,
        str(metadata_location),
        stored,
        is_verbatim=is_verbatim,
        replaced=replaced,
    )
    return insert_tabular(new, idempotency_key=idempotency_key)


def read_registered(
    target: Target, kind: Tabular.Kind, metadata_location: object
) -> tuple[dict[str, Any], bytes, bool]:
    """Read a metadata file of the warehouse: the metadata, the bytes to store, and whether these are the file's own.

    Raises `InvalidLocation`, `ObjectNotFound`, `BadRequest` for an invalid file, `FormatVersionNotAllowed`, and
    `LocationAlreadyTaken` when its location belongs to another owner than the tabular of that name. The latter is
    checked before the file is read, so that the error does not reveal whether files of hidden tables exist.
    """
    base = target.warehouse_location
    file = new_location_inside(metadata_location, base=base, storage_profile=target.storage.profile)
    require_unreserved(target, [file], owner=NO_OWNER if target.current is None else target.current.id)
    found = read_metadata_file(target.storage, str(metadata_location))
    document = read_json(found)
    metadata = read_view_metadata(document) if kind == Tabular.Kind.VIEW else _read_table(target, document)
    check_times(metadata, now_ms())
    require_valid_locations(target, metadata)
    # A file in the old form is served in the equivalent modern one; any other byte by byte.
    is_verbatim = metadata == document
    return metadata, found if is_verbatim else write_json(metadata), is_verbatim


def _read_table(target: Target, document: object) -> dict[str, Any]:
    metadata = read_table_metadata(document)
    require_format_version(target, metadata["format-version"])
    if metadata.get("table-uuid") is None:  # optional in version 1 of the format, but clients need it
        return metadata | {"table-uuid": str(new_id())}
    return metadata


def is_same_table_lineage(
    replaced: CurrentTabular, metadata: dict[str, Any], metadata_location: str, *, base: str
) -> bool:
    """Whether the metadata has the UUID of `replaced`, or refers to files in its present or former locations.

    Files that only manifests refer to are ignored: no credentials are vended for them. `base` is the warehouse's
    location.
    """
    row = Tabular.objects.filter(pk=replaced.id).values_list("uuid", "location").first()
    if row is None:  # dropped concurrently: nothing is replaced
        return False
    own_uuid, location = row
    if parse_id(str(metadata.get(f"{replaced.kind}-uuid"))) == own_uuid:
        return True
    claims = LocationClaim.objects.of_tabulars([replaced.id]).values_list("location", flat=True)
    locations = [location, *claims]
    for named in _referenced_files(metadata, metadata_location):
        with suppress(InvalidLocation):  # files outside of the warehouse do not belong to it
            file = location_inside(named, base=base)
            if any(_overlap(file, each) for each in locations):
                return True
    return False


def _referenced_files(metadata: dict[str, Any], metadata_location: str) -> Iterator[object]:
    yield from (metadata_location, metadata["location"], metadata_folder(metadata))
    for snapshot in metadata.get("snapshots") or ():
        yield snapshot.get("manifest-list")
        yield from snapshot.get("manifests") or ()
    for entry in metadata.get("metadata-log") or ():
        yield entry["metadata-file"]
    for kind in ("statistics", "partition-statistics"):
        for entry in metadata.get(kind) or ():
            yield entry["statistics-path"]


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
