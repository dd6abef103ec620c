"""Commits to one table: judged on the newest metadata, written as one new file, made true by one compare-and-set."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from catalog.errors import no_such_table, no_such_warehouse
from catalog.iceberg.requirements import check_requirements, requires_create
from catalog.iceberg.updates import apply_updates
from catalog.identifiers import Identifier
from catalog.models import FormerLocation
from catalog.selectors.metadata_cache import Version, metadata_cache
from catalog.selectors.tables import LoadedTable
from catalog.selectors.targets import CurrentTabular, Target, find_target_of_commit
from catalog.services.creation import finish_staged_create, require_format_version
from catalog.services.documents import write_metadata
from catalog.services.locations import lock_warehouse, require_free_location
from catalog.services.pointers import Move, move_pointer
from icekeeper.kernel import deadline
from icekeeper.kernel.clock import now, now_ms
from icekeeper.kernel.database_errors import is_load, is_outcome_unknown
from icekeeper.kernel.errors import BadRequest, CatalogError, CommitFailed, CommitStateUnknown
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json_text import read_stored_json
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.port import ObjectStore
from storage.io.stores import store_for
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can

ATTEMPTS = 4
"""How often a commit is judged anew when somebody else moved the pointer in between."""

PAUSE_SECONDS = 0.02


def commit_table(
    *, actor: Actor, warehouse_id: UUID, table: Identifier, requirements: list[Any], updates: list[Any]
) -> LoadedTable:
    """Apply `updates` if all `requirements` hold on the newest metadata; the new metadata is durable on return.

    No net change writes nothing. Raises `NoSuchTable`, `CommitFailed` (409, certainly not committed), `BadRequest`,
    or `CommitStateUnknown` (500) when the database was lost in the act.
    """
    for attempt in range(ATTEMPTS):
        target, document = find_target_of_commit(warehouse_id=warehouse_id, identifier=table)
        if requires_create(requirements) and target.current is None:
            check_requirements(None, requirements)
            return finish_staged_create(actor=actor, target=target, updates=updates)
        committed = _commit_once(actor, target, document, requirements, updates)
        if committed is not None:
            return committed
        time.sleep(random.uniform(0, PAUSE_SECONDS * 2**attempt))  # noqa: S311
        deadline.remaining()
    raise CommitFailed(f"Commit conflict: {table} was changed by others {ATTEMPTS} times in a row; try again")


def _commit_once(
    actor: Actor, target: Target, before: bytes, requirements: list[Any], updates: list[Any]
) -> LoadedTable | None:
    """Commit on top of the metadata file `before`.

    None when somebody else moved the pointer first: nothing was changed and nothing is left behind.
    """
    if target.namespace_id is None:
        raise no_such_table(target.identifier)
    current = target.table_for(actor, Can.COMMIT)
    base = read_stored_json(before)
    check_requirements(base, requirements)
    change = apply_updates(
        base,
        updates,
        now_ms=now_ms(),
        base_metadata_location=current.metadata_location,
        between_updates=deadline.remaining,
    )
    if not change.changed:
        return LoadedTable(current.id, current.metadata_location, before)
    metadata = change.metadata
    if metadata["format-version"] != base["format-version"]:
        require_format_version(target, metadata["format-version"])
    if metadata.get("table-uuid") != base.get("table-uuid"):
        raise BadRequest("Cannot assign another UUID to a table")
    location = location_inside(metadata["location"], base=target.warehouse_location)
    metadata_location = _next_metadata_location(metadata["location"], current.metadata_location)
    document = write_metadata(metadata)
    inline = len(document) <= settings.ICEKEEPER.metadata_inline_limit
    move = Move(
        tabular_id=current.id,
        seen=current.metadata_location,
        metadata_location=metadata_location,
        location=location,
        document=document if inline else None,
        added_snapshots=change.added_snapshots,
        removed_snapshot_ids=change.removed_snapshot_ids,
        at=now(),
    )
    if not _write(target, current, move, document):
        return None
    identifier = target.identifier
    address = (target.warehouse_id, identifier.path_key, identifier.name_key)
    metadata_cache.put(Version(current.id, metadata_location), document, address=address)
    return LoadedTable(current.id, metadata_location, document)


def _write(target: Target, current: CurrentTabular, move: Move, document: bytes) -> bool:
    """The file, then the pointer. Whenever the pointer certainly did not move, the file is taken away again."""
    store = store_for(target.storage_profile)
    store.put_new(move.metadata_location, document)
    try:
        deadline.begin_write()
        moved = (
            move_pointer(move)
            if move.location == current.location
            else _move_with_location(target, move, current.location)
        )
    except (DatabaseError, InterfaceError) as error:
        if is_outcome_unknown(error):
            raise CommitStateUnknown("The connection to the database was lost while committing") from error
        _take_away(store, move.metadata_location)
        if not is_load(error):
            raise
        raise CommitFailed("The database is busy: nothing was committed, try again") from error
    except CommitStateUnknown:
        raise  # the file may be the table now
    except CatalogError:
        _take_away(store, move.metadata_location)
        raise
    if not moved:
        _take_away(store, move.metadata_location)
    return moved


def _take_away(store: ObjectStore, metadata_location: str) -> None:
    """Delete a metadata file that certainly no pointer names. Left undone it is an orphan, not an error."""
    with suppress(CatalogError):
        store.delete(metadata_location)


def _move_with_location(target: Target, move: Move, left_location: str) -> bool:
    """A table that moves claims its new location under the warehouse's lock, and keeps the old one.

    Its files still lie there.
    """
    with write_transaction():
        warehouse = lock_warehouse(target.warehouse_id)
        if warehouse is None:
            raise no_such_warehouse(target.warehouse_id)
        require_free_location(warehouse=warehouse, location=move.location, owner=move.tabular_id)
        if not move_pointer(move):
            return False
        FormerLocation.objects.get_or_create(
            warehouse_id=warehouse.pk, tabular_id=move.tabular_id, location=left_location
        )
        return True


def _next_metadata_location(location: str, previous: str) -> str:
    """`<location>/metadata/NNNNN-<uuid>.metadata.json`, one version on from `previous` where its name has one."""
    digits = previous.rsplit("/", 1)[-1].split("-", 1)[0]
    version = int(digits) + 1 if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0  # noqa: PLR2004
    return f"{location}/metadata/{version:05d}-{new_id()}.metadata.json"
