"""Room for a new table at a location where somebody may have been before."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from catalog.errors import LocationNotEmpty, location_taken
from catalog.iceberg.metadata_files import is_first_metadata_file
from catalog.selectors.tables.targets import Target
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import others_at
from catalog.services.locations.purge import purge
from icekeeper.kernel.errors.types import Busy
from icekeeper.kernel.request import deadline
from storage.errors import StoreRefused, StoreUnavailable
from storage.io.stores import store_for
from storage.profiles.location import location_inside
from storage.profiles.options import allows_non_empty_locations
from tasks.queue.leases import Lease, LeaseLost, lease_task
from tenancy.actor import Actor

RESERVED_SECONDS = 2.0
"""Of the request's time, for the rest of what it asks for."""

MAX_WAIT_SECONDS = 5.0
"""For a worker that is about to finish."""

PAUSE_SECONDS = 0.05


def require_empty_location(actor: Actor, target: Target, location: str, idempotency_key: IdempotencyKey | None) -> None:
    """Raises `LocationAlreadyTaken` (409) when somebody lies there, `InvalidLocation` (400) when files do,
    unless the warehouse allows that.

    Files of a dropped table whose purge is pending do not count (see `run_pending_purges`), nor does the metadata file
    of an equal request that was interrupted.
    """
    run_pending_purges(actor, target, location)
    if allows_non_empty_locations(target.storage.profile):
        return
    compared = location_inside(location, base=target.warehouse_location)
    if not store_for(target.storage).is_empty(compared, apart_from=partial(_is_of, idempotency_key)):
        raise LocationNotEmpty(f"Unexpected files in location {compared}: a new table needs an empty one")


def run_pending_purges(actor: Actor, target: Target, location: str) -> None:
    """Delete what dropped tables left at or below the location and a purge is queued for, in place of the worker.

    Raises `LocationAlreadyTaken` (409) when anybody else is there or around it, `Busy` (503) when there is no time for
    it, or when the worker is at it and does not end soon.
    """
    compared = location_inside(location, base=target.warehouse_location)
    budget = _TimeBudget.of_this_request(compared)
    while tasks := _queued_purges(actor, target, compared):
        deadline.begin_write()  # from here on only `budget` ends it: a purge given up must still be given back
        for task_id in tasks:
            lease = lease_task(task_id)
            if lease is None:
                budget.wait_for_the_worker()
            else:
                _purge_now(lease, budget)


def _is_of(idempotency_key: IdempotencyKey | None, name: str) -> bool:
    return idempotency_key is not None and is_first_metadata_file(name, idempotency_key.mark)


@dataclass(frozen=True, slots=True)
class _TimeBudget:
    """How long the request may go on (None: without end) and may wait, on the monotonic clock.

    The request's own deadline does not tell: it ends before the first purge, which is a write.
    """

    location: str
    until: float | None
    wait_until: float

    @classmethod
    def of_this_request(cls, location: str) -> _TimeBudget:
        left, at = deadline.remaining(), time.monotonic()
        return cls(location, None if left is None else at + left - RESERVED_SECONDS, at + MAX_WAIT_SECONDS)

    def keep(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            raise self.lost()

    def wait_for_the_worker(self) -> None:
        self.keep()
        if time.monotonic() > self.wait_until:
            raise self.lost()
        time.sleep(PAUSE_SECONDS)

    def lost(self) -> Busy:
        return Busy(f"Files of a dropped table are still being deleted at {self.location}: nothing was made, try again")


def _queued_purges(actor: Actor, target: Target, location: str) -> list[UUID]:
    """Tasks that hold the location or one below it. Raises `LocationAlreadyTaken` when anybody else is there."""
    found: list[UUID] = []
    base = target.warehouse_location
    for holder in others_at(actor=actor, warehouse_id=target.warehouse_id, base=base, location=location):
        if holder.task_id is None or not f"{holder.location}/".startswith(f"{location}/"):
            raise location_taken(location)
        found.append(holder.task_id)
    return list(dict.fromkeys(found))


def _purge_now(lease: Lease, budget: _TimeBudget) -> None:
    def keep_going() -> None:
        budget.keep()
        lease.keep()

    try:
        purge(lease, keep_going)
    except LeaseLost:
        raise budget.lost() from None
    except (StoreUnavailable, StoreRefused) as error:
        lease.fail(error.message)
        raise
    except BaseException:
        with suppress(DatabaseError, InterfaceError):
            lease.give_back()
        raise
