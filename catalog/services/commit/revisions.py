"""New versions of existing tables and views: write one metadata file each, then move all pointers or none.

A pointer moves by compare-and-set, with all dependent rows in the same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction

from catalog.iceberg.metadata_files import deletes_expired_files, encode, metadata_folder, next_metadata_location
from catalog.identifiers import Identifier
from catalog.models import Snapshot, Tabular, TabularMetadata
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import Version, metadata_cache
from catalog.selectors.tables.targets import CurrentTabular, Target
from catalog.services.idempotency import DuplicateRequest, IdempotencyKey, response_to_store, store_response
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
from icekeeper.kernel.db.sql import batches, fetch_one, lock_row
from icekeeper.kernel.db.transactions import is_outcome_unknown, is_overload, write_transaction
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

PARALLEL_PUTS: Final = 8
"""Metadata files of one transaction that are written at the same time."""

MAX_FILES_PER_DELETE: Final = 1000
"""Expired files that one commit deletes: the maximum of one request to S3. The rest is not deleted."""

_FILE_ENDINGS: Final = (".metadata.json", ".metadata.json.gz")

logger = logging.getLogger("icekeeper.catalog")


@dataclass(frozen=True, slots=True)
class PointerUpdate:
    """One change of a pointer. `document` is None when it is too large for the database.

    `namespace_id` is the tabular's namespace: its permissions were checked, so the tabular must still be in it.
    """

    tabular_id: UUID
    namespace_id: UUID
    seen: str
    metadata_location: str
    location: str
    document: bytes | None
    added_snapshots: Sequence[dict[str, Any]]
    removed_snapshot_ids: Sequence[int]
    at: datetime


@dataclass(frozen=True, slots=True)
class Revision:
    """The next version of a tabular, computed from the current one and not written yet.

    `new_claims` are folders outside its location that the new version needs, or that contain files of the old one.
    `expired_files` may be deleted when the pointer has moved.
    """

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
    added_snapshots: Sequence[dict[str, Any]] = (),
    removed_snapshot_ids: Sequence[int] = (),
    expired_files: Sequence[str] = (),
) -> Revision:
    """Compute the revision from `base`, the metadata of `current`, to `metadata`.

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
    move = PointerUpdate(
        tabular_id=current.id,
        namespace_id=current.namespace_id,
        seen=current.metadata_location,
        metadata_location=metadata_location,
        location=location,
        document=inline_or_none(document, current.kind),
        added_snapshots=added_snapshots,
        removed_snapshot_ids=removed_snapshot_ids,
        at=now(),
    )
    base_location = target.warehouse_location
    expired = deletable_files(metadata, expired_files, base=base_location, metadata_location=metadata_location)
    return Revision(target.identifier, move, metadata, encode(document, metadata), document, new_claims, expired)


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
        is_moved = move_pointer(revisions[0].move, idempotency_key=idempotency_key, result=result)
        if is_moved:
            request_context.end_write()
            request_context.clear_permissions()
        return is_moved
    try:
        with _nothing_committed(), write_transaction():
            _move_all(target, revisions, unchanged)
            store_response(idempotency_key, result)
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


# On PostgreSQL one statement, whose parts all depend on the compare-and-set of the pointer: one round trip, and no lock
# held between statements.
_POINTER = """
WITH moved AS (
  UPDATE catalog_tabular SET metadata_location = %s, location = %s, updated_at = %s
   WHERE id = %s AND namespace_id = %s AND metadata_location = %s AND deleted_at IS NULL
  RETURNING id
), stored AS (
  UPDATE catalog_tabularmetadata SET document = %s WHERE tabular_id IN (SELECT id FROM moved)
)"""

_SNAPSHOTS = """, removed AS (
  DELETE FROM catalog_snapshot WHERE tabular_id IN (SELECT id FROM moved) AND snapshot_id = ANY(%s)
), added AS (
  INSERT INTO catalog_snapshot
         (tabular_id, snapshot_id, parent_snapshot_id, sequence_number, schema_id, timestamp_ms, summary)
  SELECT moved.id, s.snapshot_id, s.parent_snapshot_id, s.sequence_number, s.schema_id, s.timestamp_ms, s.summary
    FROM moved, jsonb_to_recordset(%s::jsonb) AS s(snapshot_id bigint, parent_snapshot_id bigint,
         sequence_number bigint, schema_id bigint, timestamp_ms bigint, summary jsonb)
  ON CONFLICT (tabular_id, snapshot_id) DO UPDATE SET
         parent_snapshot_id = excluded.parent_snapshot_id, sequence_number = excluded.sequence_number,
         schema_id = excluded.schema_id, timestamp_ms = excluded.timestamp_ms, summary = excluded.summary
)"""

_IDEMPOTENCY_RECORD = """, recorded AS (
  INSERT INTO catalog_idempotencyrecord (warehouse_id, key, fingerprint, status, response, created_at)
  SELECT %s, %s, %s, 200, %s, %s FROM moved
)"""

_COUNT = "\nSELECT count(*) FROM moved"

_STATEMENTS = {
    (with_snapshots, with_record): _POINTER
    + (_SNAPSHOTS if with_snapshots else "")
    + (_IDEMPOTENCY_RECORD if with_record else "")
    + _COUNT
    for with_snapshots in (False, True)
    for with_record in (False, True)
}


def move_pointer(move: PointerUpdate, *, idempotency_key: IdempotencyKey | None = None, result: object = None) -> bool:
    """Move the pointer if it is still at `seen`, in its namespace; otherwise change nothing and return False.

    Snapshots, the document and the idempotency record with `result` change in the same transaction. Raises
    `DuplicateRequest`, and changes nothing, when the same request was committed first.
    """
    if connection.vendor != "postgresql":
        return _move_step_by_step(move, idempotency_key, result)
    try:
        return _move_in_one_statement(move, idempotency_key, result)
    except IntegrityError:
        if idempotency_key is None:
            raise
        raise DuplicateRequest("The same request was executed already") from None


def snapshot_row(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a snapshot. U+0000 is replaced: it is legal in JSON but not in a jsonb column."""
    summary = {key.replace("\0", "\ufffd"): _printable(value) for key, value in (snapshot.get("summary") or {}).items()}
    return {
        "snapshot_id": snapshot["snapshot-id"],
        "parent_snapshot_id": snapshot.get("parent-snapshot-id"),
        "sequence_number": snapshot.get("sequence-number"),
        "schema_id": snapshot.get("schema-id"),
        "timestamp_ms": snapshot["timestamp-ms"],
        "summary": summary,
    }


def _printable(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else str(value)


def _move_in_one_statement(move: PointerUpdate, idempotency_key: IdempotencyKey | None, result: object) -> bool:
    params: list[Any] = [move.metadata_location, move.location, move.at]
    params += [move.tabular_id, move.namespace_id, move.seen, move.document]
    with_snapshots = bool(move.added_snapshots or move.removed_snapshot_ids)
    if with_snapshots:
        rows = [snapshot_row(snapshot) for snapshot in move.added_snapshots]
        # All parts of the statement see the rows as they were before it: a replaced row is updated, not deleted first.
        replaced = {row["snapshot_id"] for row in rows}
        removed = [snapshot_id for snapshot_id in move.removed_snapshot_ids if snapshot_id not in replaced]
        params += [removed, write_json(rows).decode()]
    if idempotency_key is not None:
        response = write_json(response_to_store(idempotency_key, result)).decode()
        params += [idempotency_key.warehouse_id, idempotency_key.key, idempotency_key.fingerprint, response, move.at]
    row = fetch_one("default", _STATEMENTS[with_snapshots, idempotency_key is not None], params)
    return row is not None and row[0] == 1


def _move_step_by_step(move: PointerUpdate, idempotency_key: IdempotencyKey | None, result: object) -> bool:
    with transaction.atomic():
        seen = Tabular.objects.filter(
            deleted_at__isnull=True, pk=move.tabular_id, namespace_id=move.namespace_id, metadata_location=move.seen
        )
        moved = seen.update(metadata_location=move.metadata_location, location=move.location, updated_at=move.at)
        if not moved:
            return False
        TabularMetadata.objects.filter(pk=move.tabular_id).update(document=move.document)
        if move.removed_snapshot_ids:
            for batch in batches(move.removed_snapshot_ids, 500):
                Snapshot.objects.filter(tabular_id=move.tabular_id, snapshot_id__in=batch).delete()
        Snapshot.objects.bulk_create(
            [Snapshot(tabular_id=move.tabular_id, **snapshot_row(s)) for s in move.added_snapshots], batch_size=500
        )
        if idempotency_key is not None:
            store_response(idempotency_key, result)
    return True


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
