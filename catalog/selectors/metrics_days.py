"""Use of a table: daily sums of the metrics that engines reported."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from django.conf import settings

from catalog.models import MetricsDay
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable


def list_metrics_days_for(*, actor: Actor, table_id: UUID, first: date, last: date) -> list[MetricsDay]:
    """List the days from `first` to `last` that have reports, oldest first. One statement."""
    require_permission(actor, Can.GET_METADATA, Securable.Type.TABLE, table_id)
    days = MetricsDay.objects.using(settings.READ_DATABASE)
    return list(days.filter(tabular_id=table_id, day__gte=first, day__lte=last).order_by("day"))
