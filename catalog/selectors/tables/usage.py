"""How a table is read and written, from the metrics reports of engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings

from catalog.models import MetricsDay
from icekeeper.kernel.clock import now

MAX_DAYS: Final = 400


def list_metrics_days(*, tabular_id: UUID, days: int) -> Sequence[MetricsDay]:
    """Return the sums of each of the last `days` UTC days that has reports, oldest first. One statement.

    Requires the permission to read the metadata of the table.
    """
    first: date = (now() - timedelta(days=min(days, MAX_DAYS) - 1)).date()
    rows = MetricsDay.objects.using(settings.READ_DATABASE).filter(tabular_id=tabular_id, day__gte=first)
    return list(rows.order_by("day"))
