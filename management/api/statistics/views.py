"""Statistics: calls of the endpoints of a project, and numbers of the tables and views of a warehouse, by hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from django.utils.dateparse import parse_duration
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.services.warehouse_statistics import HOUR, list_warehouse_statistics_for
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, InvalidPageToken
from icekeeper.kernel.http.paging import read_page_token, write_page_token
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementViewSet
from management.api.statistics.schema import describe_endpoint_statistics, describe_warehouse_statistics
from management.api.statistics.serializers import (
    EndpointStatisticsRequest,
    EndpointStatisticsResponse,
    WarehouseStatisticsResponse,
)
from management.endpoint_statistics import Window, list_endpoint_statistics_for
from management.models import NO_WAREHOUSE

DEFAULT_INTERVAL: Final = timedelta(days=1)
MAX_INTERVAL: Final = timedelta(days=3660)
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""The limits of the end of a window; start and end of its neighbours are still valid dates."""

TOKEN_KIND = "endpoint-statistics"  # noqa: S105 - no secret


@describe_endpoint_statistics
class EndpointStatisticsViewSet(ManagementViewSet):
    reading_actions = {"list"}

    def list(self, request: Request) -> Response:
        body = self.body(EndpointStatisticsRequest)
        window = _window(body.get("range_specifier"))
        found = list_endpoint_statistics_for(
            actor=self.actor,
            project=self.project(),
            warehouse_id=_warehouse_id(body["warehouse"]),
            status_codes=body.get("status_codes"),
            window=window,
        )
        by_hour = {hour: [*entries] for hour, entries in groupby(found.entries, itemgetter("hour"))}
        interval = window.end - window.start
        content = {
            "timestamps": [hour + HOUR for hour in by_hour],
            "called_endpoints": by_hour.values(),
            "previous_page_token": _page_token(found.window.start, interval),
            "next_page_token": _page_token(window.end + interval, interval),
        }
        return self.respond(EndpointStatisticsResponse, content)


@describe_warehouse_statistics
class WarehouseStatisticsViewSet(ManagementViewSet):
    def list(self, request: Request, **path: str) -> Response:
        with_extensions, warehouse_id = self.wants_extensions(), self.warehouse_id
        page = self.page("warehouse-statistics", token="page_token", size="page_size")  # noqa: S106 - no secret
        found, token = list_warehouse_statistics_for(actor=self.actor, warehouse_id=warehouse_id, page=page)
        content = {"warehouse_ident": warehouse_id, "stats": found, "next_page_token": token}
        return self.respond(WarehouseStatisticsResponse, content, with_extensions=with_extensions)


def _warehouse_id(given: dict[str, Any]) -> UUID | None:
    """Return the argument of the selector: None for all calls, `NO_WAREHOUSE` for those without a warehouse."""
    if given["type"] != "warehouse-id":
        return None if given["type"] == "all" else NO_WAREHOUSE
    warehouse_id = parse_id(given.get("id") or "")
    if warehouse_id is None or warehouse_id == NO_WAREHOUSE:
        raise BadRequest("warehouse.id: must be the id of a warehouse")
    return warehouse_id


def _window(given: dict[str, Any] | None) -> Window:
    if given is None:
        end, interval = now(), DEFAULT_INTERVAL
    elif given["type"] == "page-token":
        end, interval = _read_page_token(given.get("token") or "")
    else:
        end, interval = _end(given.get("end")), _interval(given.get("interval"))
    return Window(end - interval, end)


def _end(given: datetime | None) -> datetime:
    if given is None or not EARLIEST <= given <= LATEST:
        raise BadRequest("range-specifier.end: must be a time between the years 1970 and 9000")
    return given


def _interval(text: str | None) -> timedelta:
    interval = None
    if text is not None and text.startswith("P"):
        try:
            interval = parse_duration(text)
        except OverflowError:
            interval = None
    if interval is None or not timedelta() < interval <= MAX_INTERVAL:
        raise BadRequest("range-specifier.interval: must be an ISO 8601 duration such as PT1H or P1D, up to P3660D")
    return interval


def _page_token(end: datetime, interval: timedelta) -> str:
    return write_page_token(TOKEN_KIND, end.isoformat(), str(interval.total_seconds()))


def _read_page_token(token: str) -> tuple[datetime, timedelta]:
    end_text, seconds = read_page_token(token, TOKEN_KIND, parts=2)
    try:
        end, interval = datetime.fromisoformat(end_text), timedelta(seconds=float(seconds))
        if EARLIEST <= end <= LATEST and timedelta() < interval <= MAX_INTERVAL:
            return end, interval
    except (ValueError, TypeError, OverflowError):
        pass  # an error like that of a token that this server did not issue
    raise InvalidPageToken("Invalid page token")
