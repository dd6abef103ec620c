"""Which places of a warehouse are held for whoever staged a table there: nobody sees them among the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, fetch_all
from tenancy.actor import Actor
from tenancy.authz.actions import Can

AT_ONCE: Final = 1_000
"""Rows in memory."""

# In the order of bytes, as the index `location_claim_at` is sorted.
_HELD = """
SELECT id, location, staged_by, expires_at FROM catalog_locationclaim
 WHERE warehouse_id = %s AND staged_by IS NOT NULL AND expires_at > %s
   AND location ~>=~ %s AND (location ~>~ %s OR id > %s)
 ORDER BY location USING ~<~, id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class StagedPlace:
    """A hold that has not ended: `location` in compared form, `staged_by` as `Actor.name`."""

    location: str
    staged_by: str
    expires_at: datetime


def list_staged_places_for(*, actor: Actor, warehouse_id: UUID) -> Iterator[StagedPlace]:
    """Those of a warehouse, active or not, by location, read in pieces. Raises `NoSuchWarehouse`, `Forbidden`."""
    require_on_warehouse(actor, warehouse_id, Can.UPDATE_STORAGE)
    return _held(warehouse_id)


def _held(warehouse_id: UUID) -> Iterator[StagedPlace]:
    moment, location, last_id = now(), "", 0
    while True:
        rows = fetch_all("default", _HELD, [warehouse_id, moment, location, location, last_id, AT_ONCE])
        for _, held, staged_by, expires_at in rows:
            yield StagedPlace(held, staged_by, as_datetime(expires_at))
        if len(rows) < AT_ONCE:
            return
        last_id, location, *_ = rows[-1]
