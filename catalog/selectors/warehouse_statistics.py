"""How many tables, views and generic tables a warehouse has and had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count

from catalog.models import Tabular, WarehouseStatistic
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors import InvalidPageToken
from icekeeper.kernel.paging import Page, page_of
from tenancy.actor import Actor
from tenancy.authz.actions import Can

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CountsOfAnHour:
    """What there was at the end of the hour that begins at `hour`, or is now in the one that goes on.

    Since `updated_at` it was so.
    """

    hour: datetime
    tables: int
    views: int
    generic_tables: int
    updated_at: datetime


def beginning_of_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def list_warehouse_statistics_for(
    *, actor: Actor, warehouse_id: UUID, page: Page
) -> tuple[list[CountsOfAnHour], str | None]:
    """The hours in which something changed, the newest first, and the next page's token.

    The first of all is the hour that goes on, with what is there now. Raises `NoSuchWarehouse`, `Forbidden`.
    """
    require_on_warehouse(actor, warehouse_id, Can.GET_METADATA)
    before = _before(page)
    rows = WarehouseStatistic.objects.using(settings.READ_DATABASE).filter(warehouse_id=warehouse_id)
    if before is not None:
        rows = rows.filter(hour__lt=before)
    found = [_counts_of(row) for row in rows.order_by("-hour")[: page.sql_limit]]
    if before is None:
        current = _current(warehouse_id, found[0] if found else None)
        found = [current, *(each for each in found if each.hour < current.hour)]
    return page_of([(each.hour.isoformat(), each) for each in found], page)


def _before(page: Page) -> datetime | None:
    key = page.after_key()
    if not key:
        return None
    try:
        before = datetime.fromisoformat(key)
    except ValueError:
        before = None
    if before is None or before.tzinfo is None or not 1970 <= before.year < 9000:  # noqa: PLR2004
        raise InvalidPageToken("Invalid page token")
    return before


def _counts_of(row: WarehouseStatistic) -> CountsOfAnHour:
    return CountsOfAnHour(row.hour, row.tables, row.views, row.generic_tables, row.updated_at)


def _current(warehouse_id: UUID, last: CountsOfAnHour | None) -> CountsOfAnHour:
    living = Tabular.objects.using(settings.READ_DATABASE).filter(warehouse_id=warehouse_id, deleted_at__isnull=True)
    by_kind = dict(living.order_by().values_list("kind").annotate(Count("pk")))
    at = now()
    tables, views, generic_tables = (by_kind.get(kind.value, 0) for kind in _KINDS)
    is_as_before = last is not None and (last.tables, last.views, last.generic_tables) == (
        tables,
        views,
        generic_tables,
    )
    since = last.updated_at if last is not None and is_as_before else at
    return CountsOfAnHour(beginning_of_hour(at), tables, views, generic_tables, since)


_KINDS = (Tabular.Kind.TABLE, Tabular.Kind.VIEW, Tabular.Kind.GENERIC_TABLE)
