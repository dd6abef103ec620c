"""New versions of existing tables and views: write one metadata file each, then move all pointers or none.

A pointer moves by compare-and-set, with all dependent rows in the same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from catalog.iceberg.column_names import ColumnNames, changed_column_names
from catalog.iceberg.metadata_files import deletes_expired_files, encode, metadata_folder, next_metadata_location
from catalog.iceberg.totals import may_change_totals, read_totals
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import Version, metadata_cache
from catalog.selectors.tables.targets import CurrentTabular, Target
from catalog.services.commit.pointer import PointerUpdate, commit_facts, move_pointer
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import (
    claim,
    folder_outside,
    lock_warehouse,
    require_unclaimed,
    require_unreserved,
    require_valid_locations,
)
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import is_outcome_unknown, is_overload
from icekeeper.kernel.errors.types import (
    BadRequest,
    CatalogError,
    CommitContended,
    CommitStateUnknown,
    InvalidLocation,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.names import lookup_key, path_key
from icekeeper.kernel.request_context import copy_request_context
from storage.errors import no_such_warehouse
from storage.io.port import ObjectStore
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.changes.rows import RecordedChange
from tenancy.changes.transaction import change

PARALLEL_PUTS: Final = 8
"""Metadata files of one transaction that are written at the same time."""

MAX_FILES_PER_DELETE: Final = 1000
"""Expired files that one commit deletes: the maximum of one request to S3. The rest is not deleted."""

_FILE_ENDINGS: Final = (".metadata.json", ".metadata.json.gz")

logger = logging.getLogger("icekeeper.catalog")


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The request of a new version: its requirements and updates, and what its audit record has, None without one."""

    requirements: list[Any]
    updates: list[Any]
    audit_details: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Revision:
    """The next version of a tabular, computed from the current one and not written yet.

    `new_claims` are folders outside its location that the new version needs, or that contain files of the old one.
    `expired_files` may be deleted when the pointer has moved.
    """

    recorded: RecordedChange
    identifier: Identifier
    move: PointerUpdate
    metadata: dict[str, Any]
    file: bytes
    document: bytes
    new_claims: list[str]
    expired_files: list[str]

    @property
    def result(self) -> LoadedTabular:
        return LoadedTabular(self.move.tabular_id, self.move.metadata_location, self.document)

    @property
    def wanted_locations(self) -> list[str]:
        """Locations that must be free of other owners, if there are new claims."""
        return [self.move.location, *self.new_claims]


def revise(
    actor: Actor,
    target: Target,
    current: CurrentTabular,
    base: dict[str, Any],
    metadata: dict[str, Any],
    *,
    request: CommitRequest,
    added_snapshots: Sequence[dict[str, Any]] = (),
    removed_snapshot_ids: Sequence[int] = (),
    expired_files: Sequence[str] = (),
) -> Revision:
    """Compute the revision of a `request` from `base`, the metadata of `current`, to `metadata`.

    A change of locations needs the permission to create tabulars in the namespace. Raises `InvalidLocation` for a
    location outside of the warehouse, `BadRequest` when the file would be too large, and `Forbidden`.
    """
    location, new_claims = current.location, list[str]()
    folder = metadata_folder(metadata)
    is_same_location = metadata["location"] == base["location"] and folder == metadata_folder(base)
    if not is_same_location or not folder.startswith(f"{base['location']}/"):
        location, new_claims = _new_locations(actor, target, current, base, metadata)
    metadata_location = next_metadata_location(metadata, current.metadata_location, new_id())
    document = serialize_metadata(metadata)
    has_new_totals = current.kind == Tabular.Kind.TABLE and may_change_totals(base, metadata)
    move = PointerUpdate(
        tabular_id=current.id,
        namespace_id=current.namespace_id,
        seen=current.metadata_location,
        metadata_location=metadata_location,
        location=location,
        document=inline_or_none(document, current.kind),
        added_snapshots=added_snapshots,
        removed_snapshot_ids=removed_snapshot_ids,
        facts=commit_facts(actor, added_snapshots, now()),
        totals=read_totals(metadata) if has_new_totals else None,
        columns=_changed_columns(current, base, metadata),
    )
    base_location = target.warehouse_location
    expired = deletable_files(metadata, expired_files, base=base_location, metadata_location=metadata_location)
    recorded = _recorded(actor, target, current, request)
    file = encode(document, metadata)
    return Revision(recorded, target.identifier, move, metadata, file, document, new_claims, expired)


def _changed_columns(current: CurrentTabular, base: dict[str, Any], metadata: dict[str, Any]) -> ColumnNames | None:
    """Return the names of the columns if the current schema changes.

    It takes no time for most commits: a version shares the parts that it does not change with its base.
    """
    is_view = current.kind == Tabular.Kind.VIEW
    pointer, parts = ("current-version-id", ("schemas", "versions")) if is_view else ("current-schema-id", ("schemas",))
    if metadata.get(pointer) == base.get(pointer) and all(metadata.get(each) is base.get(each) for each in parts):
        return None
    return changed_column_names(base, metadata, is_view=is_view)


_UPDATED: Final = {
    kind.value: Change.of_tabular(kind.value, "updated") for kind in (Tabular.Kind.TABLE, Tabular.Kind.VIEW)
}


def _recorded(actor: Actor, target: Target, current: CurrentTabular, request: CommitRequest) -> RecordedChange:
    identifier = target.identifier
    names = {"warehouse": target.warehouse_id, "uuid": current.uuid, "levels": [*identifier.levels, identifier.name]}
    return RecordedChange(
        actor, _UPDATED[current.kind], subject=current.id, project=target.project_id,
        data={"identifier": identifier.as_json(), "requirements": request.requirements, "updates": request.updates},
        is_audited=request.audit_details is not None, details=names | (request.audit_details or {}),
    )  # fmt: skip


def _new_locations(
    actor: Actor, target: Target, current: CurrentTabular, base: dict[str, Any], metadata: dict[str, Any]
) -> tuple[str, list[str]]:
    """Return the location of the new version, in compared form, and the folders that it claims in addition."""
    require_valid_locations(target, metadata, base=base)
    if _changes_locations(target, base, metadata):
        target.namespace_to_create_in(actor, Tabular.Kind(current.kind))
    location = location_inside(metadata["location"], base=target.warehouse_location)
    new_claims = [] if location == current.location else [current.location]
    outside = folder_outside(metadata, base=target.warehouse_location)
    if outside is not None and (new_claims or _is_new_folder(outside, target, current, base, metadata)):
        new_claims.append(outside)
    return location, new_claims


def _changes_locations(target: Target, base: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Whether the new version names another location or metadata folder than the old one."""
    if metadata["location"].rstrip("/") != base["location"].rstrip("/"):
        return True
    is_same_folder = metadata_folder(metadata) == metadata_folder(base)
    return not is_same_folder and folder_outside(metadata, base=target.warehouse_location) is not None


def _is_new_folder(
    folder: str, target: Target, current: CurrentTabular, base: dict[str, Any], metadata: dict[str, Any]
) -> bool:
    """Whether the tabular may have no claim on `folder` yet: it was just chosen, or contains no metadata file."""
    if metadata_folder(metadata) != metadata_folder(base):
        return True
    return not location_inside(current.metadata_location, base=target.warehouse_location).startswith(f"{folder}/")


def write_revisions(
    target: Target,
    revisions: Sequence[Revision],
    *,
    unchanged: Sequence[LoadedTabular] = (),
    idempotency_key: IdempotencyKey | None,
    result: object,
) -> bool:
    """Write all files, then move all pointers; return False and change nothing when a tabular changed concurrently.

    `target` names the warehouse. `unchanged` are tabulars that must still be at the version that was read. `result` is
    the response that is stored under `idempotency_key`. When the pointers certainly did not move, the files are
    deleted. Raises `LocationAlreadyTaken`, and `CommitStateUnknown` when it is unknown whether the commit happened.
    """
    store = store_for(target.storage)
    written: list[str] = []
    for revision in revisions:
        if revision.new_claims:
            require_unreserved(target, revision.wanted_locations, owner=revision.move.tabular_id)
    try:
        _write_files(store, revisions, written)
        moved = _move(target, revisions, unchanged, idempotency_key, result)
    except (DatabaseError, InterfaceError) as error:
        if is_outcome_unknown(error):
            raise CommitStateUnknown("The connection to the database was lost while committing") from error
        delete_orphaned_metadata(store, written)
        if not is_overload(error):
            raise
        raise CommitContended("The database is busy: nothing was committed, try again") from error
    except CommitStateUnknown:
        raise  # the files may be the tabulars now
    except CatalogError:
        delete_orphaned_metadata(store, written)
        raise
    if not moved:
        delete_orphaned_metadata(store, written)
        return False
    for revision in revisions:
        _cache_version(target, revision)
    delete_orphaned_metadata(
        store, [file for revision in revisions for file in revision.expired_files][:MAX_FILES_PER_DELETE]
    )
    return True


def _write_files(store: ObjectStore, revisions: Sequence[Revision], written: list[str]) -> None:
    """Write all files in parallel; `written` collects their locations, also when another one fails."""

    def put(revision: Revision) -> None:
        store.put_new(revision.move.metadata_location, revision.file)
        written.append(revision.move.metadata_location)

    if len(revisions) == 1:
        put(revisions[0])
        return
    with ThreadPoolExecutor(min(len(revisions), PARALLEL_PUTS)) as pool:
        # In a copy of the request's context, which has its deadline.
        puts = [pool.submit(copy_request_context().run, put, revision) for revision in revisions]
    for each in puts:
        each.result()


def _move(
    target: Target,
    revisions: Sequence[Revision],
    unchanged: Sequence[LoadedTabular],
    idempotency_key: IdempotencyKey | None,
    result: object,
) -> bool:
    if len(revisions) == 1 and not unchanged and not revisions[0].new_claims:
        request_context.begin_write()
        with _nothing_committed():
            request_context.recheck_permissions()
        move, recorded = revisions[0].move, revisions[0].recorded
        is_moved = move_pointer(move, recorded, idempotency_key=idempotency_key, result=result)
        if is_moved:
            request_context.end_write()
            request_context.clear_permissions()
            recorded.log()
        return is_moved
    try:
        with _nothing_committed(), change(revisions[0].recorded.actor, idempotency_key) as tx:
            _move_all(target, revisions, unchanged)
            for revision in revisions:
                tx.add(revision.recorded)
            tx.result = result
    except _ChangedByOthers:
        return False
    return True


@contextmanager
def _nothing_committed() -> Iterator[None]:
    """Translate a lost database connection to `CommitContended`, unless it is unknown whether the commit happened."""
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        if is_outcome_unknown(error):
            raise CommitContended("The database cannot be reached: nothing was committed, try again") from error
        raise


class _ChangedByOthers(Exception):
    """One of several pointers was moved concurrently: rolls back the others."""


def _move_all(target: Target, revisions: Sequence[Revision], unchanged: Sequence[LoadedTabular]) -> None:
    """Move all pointers in the caller's transaction.

    Locks are taken in a fixed order: the warehouse if locations are claimed, then the tabulars by id. Each pointer has
    moved before the locations of the next tabular are checked, so that they cannot overlap each other either.
    """
    warehouse = None
    if any(revision.new_claims for revision in revisions):
        warehouse = lock_warehouse(target.warehouse_id)
        if warehouse is None:
            raise no_such_warehouse(target.warehouse_id)
    steps: list[tuple[UUID, Revision | LoadedTabular]] = [
        (revision.move.tabular_id, revision) for revision in revisions
    ]
    steps += [(seen.id, seen) for seen in unchanged]
    for tabular_id, step in sorted(steps, key=itemgetter(0)):
        if isinstance(step, LoadedTabular):
            is_done = _is_unchanged(step)
        else:
            if warehouse is not None:
                _claim_locations(warehouse, tabular_id, step)
            is_done = move_pointer(step.move)
        if not is_done:
            raise _ChangedByOthers


def _is_unchanged(seen: LoadedTabular) -> bool:
    where = "id = %s AND metadata_location = %s AND deleted_at IS NULL"
    return lock_row(Tabular, where, [seen.id, seen.metadata_location]) is not None


def _claim_locations(warehouse: Warehouse, owner: UUID, revision: Revision) -> None:
    for location in revision.wanted_locations:
        require_unclaimed(warehouse=warehouse, location=location, owner=owner)
    claim(warehouse=warehouse, owner=owner, locations=revision.new_claims)


def _cache_version(target: Target, revision: Revision) -> None:
    identifier = revision.identifier
    version = Version(revision.move.tabular_id, revision.move.metadata_location)
    metadata_cache.put_parsed(version, revision.metadata, revision.document)
    address = (target.warehouse_id, path_key(identifier.levels), lookup_key(identifier.name))
    metadata_cache.put(version, revision.document, address=address)


def serialize_metadata(metadata: dict[str, Any]) -> bytes:
    """Serialize a metadata file. Raises `BadRequest` when it would exceed the limit of reads."""
    document = write_json(metadata)
    limit = settings.ICEKEEPER.metadata_file_limit
    if len(document) > limit:
        raise BadRequest(f"The metadata would be {len(document)} bytes; at most {limit} are allowed")
    return document


def inline_or_none(document: bytes, kind: str) -> bytes | None:
    """Return the document to store in the database: the whole document, or None when it is too large.

    Documents of views are always stored: they define whose permissions a read needs, and others can change the files.
    """
    is_inline = kind == Tabular.Kind.VIEW or len(document) <= settings.ICEKEEPER.metadata_inline_limit
    return document if is_inline else None


def delete_orphaned_metadata(store: ObjectStore, metadata_locations: Sequence[str]) -> None:
    """Delete metadata files that no pointer refers to. Never raises: a failure leaves orphaned files and is logged."""
    if not metadata_locations:
        return
    try:
        store.delete_many(metadata_locations)
    except Exception as error:  # noqa: BLE001
        reason = error.message if isinstance(error, CatalogError) else repr(error)
        logger.warning("orphaned metadata files remain: %s", reason, extra={"locations": list(metadata_locations)[:10]})


def deletable_files(
    metadata: dict[str, Any], expired: Sequence[str], *, base: str, metadata_location: str
) -> list[str]:
    """Return the `expired` files that the table of `metadata` may delete, in compared form.

    The log of a registered table is not trusted. A deletable file must have the name of a metadata file, must be below
    the table's location or in the folder of its metadata files, which no other tabular uses, and must not be referenced
    by the new version at `metadata_location`.
    """
    if not expired or not deletes_expired_files(metadata):
        return []
    still_named = {entry["metadata-file"] for entry in metadata.get("metadata-log") or ()} | {metadata_location}
    kept = set(_compared(still_named, base))
    folders = tuple(f"{folder}/" for folder in _compared([metadata["location"], metadata_folder(metadata)], base))
    files = dict.fromkeys(_compared(expired, base))
    return [file for file in files if file.startswith(folders) and file.endswith(_FILE_ENDINGS) and file not in kept]


def _compared(locations: Iterable[object], base: str) -> Iterable[str]:
    """Return the locations inside of the warehouse at `base`, in compared form."""
    for location in locations:
        with suppress(InvalidLocation):
            yield location_inside(location, base=base)
