"""The end of the files that dropped tables, views and generic tables left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import transaction

from catalog.models import LocationClaim
from catalog.services.locations.claims import is_occupied, lock_warehouse
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import InvalidLocation
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.location import location_inside
from tasks.queue.leases import Lease

logger = logging.getLogger("icekeeper.tasks")


def purge(lease: Lease, keep_going: Callable[[], object]) -> None:
    """Delete every file below the locations that the task holds, then end the task and let go of the locations.

    A purge that was cut off goes on where it was. Locations in which a tabular lies all the same, or that are not in
    the task's warehouse, are let go of and their files left. `keep_going`, called before each step, must extend the
    lease; what it raises ends the work for now. Raises `StoreUnavailable`, `StoreRefused`, and `LeaseLost` when
    somebody else has the task.
    """
    warehouse, locations = _deletable(lease)
    if warehouse is not None:
        store = store_for(warehouse.storage)
        for location in locations:
            try:
                store.delete_below(location, keep_going)
            except InvalidLocation as error:
                _leave(lease, location, error.message)
            else:
                logger.info("files are deleted", extra=_about(lease, location))
    with write_transaction():
        LocationClaim.objects.filter(task_id=lease.task_id).delete()
        lease.finish()


def _deletable(lease: Lease) -> tuple[Warehouse | None, list[str]]:
    """The locations of the task in which certainly nobody lies: while it holds them, nobody can come to."""
    locations: list[str] = []
    with transaction.atomic():
        warehouse = lock_warehouse(lease.warehouse_id)
        if warehouse is None:
            return None, []
        claims = LocationClaim.objects.filter(task_id=lease.task_id, warehouse_id=warehouse.pk).order_by("id")
        for location in claims.values_list("location", flat=True):
            try:
                checked = location_inside(location, base=warehouse.location)
            except InvalidLocation as error:
                _leave(lease, location, error.message)
                continue
            if is_occupied(warehouse=warehouse, location=checked):
                _leave(lease, location, "a table or view lies there")
            else:
                locations.append(checked)
    return warehouse, locations


def _leave(lease: Lease, location: str, reason: str) -> None:
    logger.error("files are left: %s", reason, extra=_about(lease, location))


def _about(lease: Lease, location: str) -> dict[str, str]:
    return {"task": str(lease.task_id), "warehouse": str(lease.warehouse_id), "location": location}
