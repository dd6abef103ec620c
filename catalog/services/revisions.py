"""New versions of tables and views that are there: one file each, then all pointers in one step, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, IntegrityError, InterfaceError

from catalog.errors import no_such_warehouse
from catalog.iceberg.metadata_files import deletes_expired_files, encode, metadata_folder, next_metadata_location
from catalog.identifiers import Identifier
from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.tabulars import Loaded
from catalog.selectors.targets import CurrentTabular, Target
from catalog.services.documents import inline, take_away, write_metadata
from catalog.services.locations import claim, folder_outside, lock_warehouse, require_free_location
from catalog.services.outcomes import AlreadyDone, RequestKey, answer_of, keep_outcome
from catalog.services.pointers import KeptOutcome, Move, move_pointer
from icekeeper.kernel import deadline
from icekeeper.kernel.clock import now
from icekeeper.kernel.database_errors import is_load, is_outcome_unknown
from icekeeper.kernel.errors import CatalogError, CommitContended, CommitStateUnknown
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.port import ObjectStore
from storage.io.stores import store_for
from storage.profiles.location import location_inside

PARALLEL_PUTS = 8
"""Metadata files of one transaction that are written at the same time."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What a tabular is to become: worked out from its current version, nowhere written yet.

    `new_claims` are folders beside its location that the new version needs or the old one leaves files in.
    `expired_files` may be deleted once the pointer has moved.
    """

    identifier: Identifier
    move: Move
    file: bytes
    document: bytes
    new_claims: list[str]
    expired_files: list[str]

    @property
    def result(self) -> Loaded:
        return Loaded(self.move.tabular_id, self.move.metadata_location, self.document)


def revise(
    target: Target,
    current: CurrentTabular,
    base: dict[str, Any],
    metadata: dict[str, Any],
    *,
    added_snapshots: Sequence[dict[str, Any]] = (),
    removed_snapshot_ids: Sequence[int] = (),
    expired_files: Sequence[str] = (),
) -> Revision:
    """The step from `base`, the metadata of `current`, to `metadata`.

    Raises `InvalidLocation` when the tabular would leave the warehouse, `BadRequest` when its file would be too large.
    """
    location = location_inside(metadata["location"], base=target.warehouse_location)
    metadata_location = next_metadata_location(metadata, current.metadata_location, new_id())
    new_claims = [] if location == current.location else [current.location]
    if new_claims or metadata_folder(metadata) != metadata_folder(base):
        outside = folder_outside(metadata, base=target.warehouse_location)
        new_claims += [outside] if outside is not None else []
    document = write_metadata(metadata)
    move = Move(
        tabular_id=current.id,
        seen=current.metadata_location,
        metadata_location=metadata_location,
        location=location,
        document=inline(document),
        added_snapshots=added_snapshots,
        removed_snapshot_ids=removed_snapshot_ids,
        at=now(),
    )
    expired = [file for file in expired_files if _is_own(file, metadata)] if deletes_expired_files(metadata) else []
    return Revision(target.identifier, move, encode(document, metadata), document, new_claims, expired)


def _is_own(file: str, metadata: dict[str, Any]) -> bool:
    """Whether it is a metadata file in a folder of the tabular; the log of a registered one may say anything."""
    folders = (metadata["location"].rstrip("/"), metadata_folder(metadata))
    is_inside = any(file.startswith(f"{folder}/") for folder in folders)
    return is_inside and file.endswith((".metadata.json", ".metadata.json.gz"))


def write_revisions(target: Target, revisions: Sequence[Revision], *, once: RequestKey | None, result: object) -> bool:
    """All files, then all pointers; False when one of the tabulars was changed by others: then nothing is changed.

    `target` tells the warehouse. `result` is the outcome that is kept under the key `once`. Whenever the pointers
    certainly did not move, the files are taken away again. Raises `CommitStateUnknown` when that is in doubt.
    """
    store = store_for(target.storage_profile)
    written: list[str] = []
    try:
        _write_files(store, revisions, written)
        moved = _move(target, revisions, once, result)
    except (DatabaseError, InterfaceError) as error:
        if is_outcome_unknown(error):
            raise CommitStateUnknown("The connection to the database was lost while committing") from error
        take_away(store, written)
        if not is_load(error):
            raise
        raise CommitContended("The database is busy: nothing was committed, try again") from error
    except CommitStateUnknown:
        raise  # the files may be the tabulars now
    except CatalogError:
        take_away(store, written)
        raise
    if not moved:
        take_away(store, written)
        return False
    for revision in revisions:
        _remember(target, revision)
        take_away(store, revision.expired_files)
    return True


def _write_files(store: ObjectStore, revisions: Sequence[Revision], written: list[str]) -> None:
    """Put all files, several at once; `written` tells afterwards which are there, also when one could not be put."""

    def put(revision: Revision) -> None:
        store.put_new(revision.move.metadata_location, revision.file)
        written.append(revision.move.metadata_location)

    if len(revisions) == 1:
        put(revisions[0])
        return
    with ThreadPoolExecutor(min(len(revisions), PARALLEL_PUTS)) as pool:
        # Each in a context like this one, so that it knows the request's deadline.
        puts = [pool.submit(copy_context().run, put, revision) for revision in revisions]
    for each in puts:
        each.result()


def _move(target: Target, revisions: Sequence[Revision], once: RequestKey | None, result: object) -> bool:
    if len(revisions) == 1 and not revisions[0].new_claims:
        deadline.begin_write()
        kept = KeptOutcome(once.warehouse_id, once.key, once.fingerprint, answer_of(result)) if once else None
        try:
            return move_pointer(revisions[0].move, kept)
        except IntegrityError:
            if once is None:
                raise
            raise AlreadyDone("The same request was done already") from None
    try:
        with write_transaction():
            _move_all(target, revisions)
            keep_outcome(once, result)
    except _ChangedByOthers:
        return False
    return True


class _ChangedByOthers(Exception):
    """One of several pointers was not where it was seen: rolls back the others."""


def _move_all(target: Target, revisions: Sequence[Revision]) -> None:
    """Locks are taken in one order: the warehouse where locations are claimed, then the tabulars by id."""
    in_order = sorted(revisions, key=lambda revision: revision.move.tabular_id)
    if any(revision.new_claims for revision in revisions):
        warehouse = lock_warehouse(target.warehouse_id)
        if warehouse is None:
            raise no_such_warehouse(target.warehouse_id)
        for revision in in_order:
            owner = revision.move.tabular_id
            if revision.new_claims:
                require_free_location(warehouse=warehouse, location=revision.move.location, owner=owner)
            for location in revision.new_claims:
                require_free_location(warehouse=warehouse, location=location, owner=owner)
            claim(warehouse=warehouse, owner=owner, locations=revision.new_claims)
    for revision in in_order:
        if not move_pointer(revision.move, None):
            raise _ChangedByOthers


def _remember(target: Target, revision: Revision) -> None:
    identifier = revision.identifier
    version = Version(revision.move.tabular_id, revision.move.metadata_location)
    metadata_cache.put(
        version, revision.document, address=(target.warehouse_id, identifier.path_key, identifier.name_key)
    )
