"""Purge: deletion of the files of dropped tables, views and generic tables."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import transaction

from catalog.models import LocationClaim
from catalog.services.locations.claims import is_occupied, lock_warehouse
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import InvalidLocation
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from tasks.leases import Lease

logger = logging.getLogger("icekeeper.tasks")


def purge(lease: Lease, extend_lease: Callable[[], object]) -> None:
    """Delete every file below the locations that the task claims, then finish the task and release its claims.

    An interrupted purge can be resumed. Locations that are occupied by a tabular, or are outside of the task's
    warehouse, are released without a deletion. `extend_lease` is called before each step and must extend the lease; an
    error that it raises interrupts the purge. Raises `StoreUnavailable`, `StoreRefused`, and `LeaseLost` when another
    worker has the task.
    """
    warehouse, locations = _deletable(lease)
    if warehouse is not None:
        store = store_for(warehouse.storage)
        for location in locations:
            try:
                store.delete_below(location, extend_lease)
            except InvalidLocation as error:
                _log_skipped(lease, location, error.message)
            else:
                logger.info("files are deleted", extra=_log_fields(lease, location))
    with write_transaction():
        LocationClaim.objects.of_task(lease.task_id).delete()
        lease.finish()


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
                _log_skipped(lease, location, error.message)
                continue
            if is_occupied(warehouse=warehouse, location=checked):
                _log_skipped(lease, location, "a table or view occupies the location")
            else:
                locations.append(checked)
    return warehouse, locations


def _log_skipped(lease: Lease, location: str, reason: str) -> None:
    logger.error("files are not deleted: %s", reason, extra=_log_fields(lease, location))


def _log_fields(lease: Lease, location: str) -> dict[str, str]:
    return {"task": str(lease.task_id), "warehouse": str(lease.warehouse_id), "location": location}
