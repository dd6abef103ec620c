"""Purges: deletion of the files of dropped tables, views and generic tables.

The worker runs them, or a request that needs the location for a new table; that location must be empty afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction

from catalog.errors import LocationAlreadyTaken, LocationNotEmpty, PurgeRunning, location_taken
from catalog.iceberg.metadata_files import is_first_metadata_file, referenced_files
from catalog.models import LocationClaim
from catalog.selectors.tables.metadata_cache import read_metadata_file
from catalog.selectors.tables.targets import Target
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import find_other_claims, is_occupied, lock_warehouse
from icekeeper.kernel import request_context
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import Busy, CatalogError, InvalidLocation
from icekeeper.kernel.json.strict import read_json_object
from storage.errors import StoreRefused, StoreUnavailable
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from storage.profiles.profile import allows_non_empty_locations
from tasks.models import Task
from tasks.queue.control import end_as_cancelled
from tasks.queue.leases import Lease, LeaseLost, StopRequested, has_failed, lease_task
from tenancy.actor import Actor

RESERVED_SECONDS = 2.0
"""The part of the request's time that is reserved for its other work."""

MAX_WAIT_SECONDS = 5.0
"""Maximum time to wait for a worker that runs the purge."""

PAUSE_SECONDS = 0.05

DELETED_FILES, DELETED_BYTES, SKIPPED_LOCATIONS = "deleted-files", "deleted-bytes", "skipped-locations"
"""What a purge reports in `Lease.execution_details`: totals of all attempts, and the locations of the last one."""

FILES_OUTSIDE = "files-outside"
"""How many files outside of the locations the last metadata names (`referenced_files`): they remain."""

logger = logging.getLogger("icekeeper.tasks")


def purge(lease: Lease, checkpoint: Callable[[], object]) -> None:
    """Delete every file below the locations that the task claims, then finish the task and release its claims.

    An interrupted purge can be resumed. Locations that are occupied by a tabular, or are outside of the task's
    warehouse, are released without a deletion. `checkpoint` is called before each step and must extend the lease; an
    error that it raises interrupts the purge. Raises `StoreUnavailable`, `StoreRefused`, and `LeaseLost` when another
    worker has the task.

    The lease reports the files and bytes whose deletion the store has confirmed, in all attempts, the number of
    locations that are released without a deletion, and the number of files outside of them, as far as the last metadata
    names them. The total is unknown, so `progress` is 0 until the end.
    """
    lease.execution_details[SKIPPED_LOCATIONS] = 0
    _count_deleted(lease, 0, 0)
    warehouse, locations = _deletable(lease)
    if warehouse is not None:
        store = store_for(warehouse.storage)
        _count_files_outside(lease, warehouse, locations)
        for location in locations:
            try:
                store.delete_below(location, checkpoint, partial(_count_deleted, lease))
            except InvalidLocation as error:
                _skip(lease, location, error.message)
            else:
                logger.info("files are deleted", extra=_log_fields(lease, location))
    with write_transaction():
        lease.finish()
        LocationClaim.objects.of_task(lease.task_id).delete()


def _deletable(lease: Lease) -> tuple[Warehouse | None, list[str]]:
    """Return the claimed locations that no tabular occupies; while the task claims them, none can be created there."""
    locations: list[str] = []
    with transaction.atomic():
        warehouse = lock_warehouse(lease.warehouse_id)
        if warehouse is None:
            return None, []
        claims = LocationClaim.objects.of_task(lease.task_id).filter(warehouse_id=warehouse.pk).order_by("id")
        for location in claims.values_list("location", flat=True):
            try:
                checked = location_inside(location, base=warehouse.location)
            except InvalidLocation as error:
                _skip(lease, location, error.message)
                continue
            if is_occupied(warehouse=warehouse, location=checked):
                _skip(lease, location, "a table or view occupies the location")
            else:
                locations.append(checked)
    return warehouse, locations


def cancel_purges(actor: Actor, tasks: Sequence[Task]) -> list[Task]:
    """End purges, also failed ones, and release the locations that they claim; their files remain
    (`QueueDefinition.on_cancel`).

    Returns those that it ended. Raises `PurgeRunning` (409) for one that a worker executes: it could still delete
    files of a new table at the location.
    """
    rows = Task.objects.filter(pk__in=[task.pk for task in tasks])
    rows = rows.exclude(status__in=(Task.Status.SUCCESS, Task.Status.CANCELLED))
    pending = list(rows.order_by("pk").select_for_update())
    running = [task for task in pending if task.status in Task.LEASED]
    if running:
        raise PurgeRunning(f"Task {running[0].pk} is running: stop it first, and cancel it when it is scheduled again")
    end_as_cancelled(pending)
    LocationClaim.objects.filter(task_id__in=[task.pk for task in pending]).delete()
    return pending


def _count_deleted(lease: Lease, files: int, size: int) -> None:
    for key, number in ((DELETED_FILES, files), (DELETED_BYTES, size)):
        lease.execution_details[key] = lease.execution_details.get(key, 0) + number


def _count_files_outside(lease: Lease, warehouse: Warehouse, locations: Sequence[str]) -> None:
    """Report `FILES_OUTSIDE`, in the first attempt, in which the metadata file exists. One read of the store."""
    last = lease.payload.get("metadata_location")
    if not last or FILES_OUTSIDE in lease.execution_details:
        return
    try:
        metadata = read_json_object(read_metadata_file(warehouse.storage, last))
    except CatalogError:  # only the report depends on it
        return
    folders = [f"{location}/" for location in locations]
    outside = 0
    for file in {last, *referenced_files(metadata)}:
        try:
            checked = location_inside(file, base=warehouse.location)
        except InvalidLocation:
            outside += 1
        else:
            outside += not checked.startswith(tuple(folders))
    lease.execution_details[FILES_OUTSIDE] = outside


def _skip(lease: Lease, location: str, reason: str) -> None:
    lease.execution_details[SKIPPED_LOCATIONS] += 1
    logger.error("files are not deleted: %s", reason, extra=_log_fields(lease, location))


def _log_fields(lease: Lease, location: str) -> dict[str, str]:
    return {"task": str(lease.task_id), "warehouse": str(lease.warehouse_id), "location": location}


def require_empty_location(actor: Actor, target: Target, location: str, idempotency_key: IdempotencyKey | None) -> None:
    """Raises `LocationAlreadyTaken` (409) when the location has another owner, `InvalidLocation` (400) when it contains
    files, unless the warehouse allows that.

    Files of a dropped table whose purge is pending are deleted first (see `run_pending_purges`); the metadata file of
    the same request, interrupted earlier, is ignored.
    """
    run_pending_purges(actor, target, location)
    if allows_non_empty_locations(target.storage.profile):
        return
    compared = location_inside(location, base=target.warehouse_location)
    if not store_for(target.storage).is_empty(compared, ignore=partial(_is_own_metadata_file, idempotency_key)):
        raise LocationNotEmpty(f"Unexpected files in location {compared}: a new table needs an empty one")


def run_pending_purges(actor: Actor, target: Target, location: str) -> None:
    """Run the queued purges of dropped tables at or below the location now, instead of in the worker.

    Raises `LocationAlreadyTaken` (409) when the location overlaps that of another owner, `Busy` (503) when the time is
    too short, or when a worker runs the purge and does not finish soon.
    """
    compared = location_inside(location, base=target.warehouse_location)
    budget = _TimeBudget.of_this_request(compared)
    while tasks := _queued_purges(actor, target, compared):
        # From here on only `budget` limits the time: a purge that is interrupted must release its lease.
        request_context.begin_write()
        for task_id in tasks:
            lease = lease_task(task_id)
            if lease is None and has_failed(task_id):
                message = (
                    f"Files of a dropped table could not be deleted: an operator must retry or cancel task {task_id}"
                )
                raise LocationAlreadyTaken(f"{message}: {compared}")
            if lease is None:
                budget.wait_for_the_worker()
            else:
                _purge_now(lease, budget)


def _is_own_metadata_file(idempotency_key: IdempotencyKey | None, name: str) -> bool:
    return idempotency_key is not None and is_first_metadata_file(name, idempotency_key.mark)


@dataclass(frozen=True, slots=True)
class _TimeBudget:
    """The ends of the request's time (None: no limit) and of its waiting time, on the monotonic clock.

    The request's own deadline cannot be used: it does not apply after the first purge, which is a write.
    """

    location: str
    until: float | None
    wait_until: float

    @classmethod
    def of_this_request(cls, location: str) -> _TimeBudget:
        remaining, at = request_context.remaining_seconds(), time.monotonic()
        return cls(location, None if remaining is None else at + remaining - RESERVED_SECONDS, at + MAX_WAIT_SECONDS)

    def require_time(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            raise self.exhausted()

    def wait_for_the_worker(self) -> None:
        self.require_time()
        if time.monotonic() > self.wait_until:
            raise self.exhausted()
        time.sleep(PAUSE_SECONDS)

    def exhausted(self) -> Busy:
        return Busy(
            f"Files of a dropped table are still being deleted at {self.location}: nothing was created, try again"
        )


def _queued_purges(actor: Actor, target: Target, location: str) -> list[UUID]:
    """Find the tasks with claims at or below the location. Raises `LocationAlreadyTaken` for any other claim."""
    found: list[UUID] = []
    base = target.warehouse_location
    for claim in find_other_claims(actor=actor, warehouse_id=target.warehouse_id, base=base, location=location):
        if claim.task_id is None or not f"{claim.location}/".startswith(f"{location}/"):
            raise location_taken(location)
        found.append(claim.task_id)
    return list(dict.fromkeys(found))


def _purge_now(lease: Lease, budget: _TimeBudget) -> None:
    def checkpoint() -> None:
        budget.require_time()
        lease.extend()

    try:
        purge(lease, checkpoint)
    except LeaseLost:
        raise budget.exhausted() from None
    except StopRequested:
        lease.stop()
        raise budget.exhausted() from None
    except (StoreUnavailable, StoreRefused) as error:
        lease.fail(error.message)
        raise
    except BaseException:
        with suppress(DatabaseError, InterfaceError):
            lease.release()
        raise
