from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from django.utils.dateparse import parse_duration
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, InvalidPageToken
from icekeeper.kernel.http.paging import read_page_token, write_page_token
from icekeeper.kernel.http.serializers import KebabSerializer, Text, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView
from management.api.projects.schema import TAGS
from management.api.schema import PROJECT_ERRORS, PROJECT_HEADER
from management.models.endpoint_statistic import NO_WAREHOUSE
from management.selectors.endpoint_statistics import MAX_ENTRIES, Window, list_endpoint_statistics_for

HOUR: Final = timedelta(hours=1)
USUAL_INTERVAL: Final = timedelta(days=1)
LONGEST_INTERVAL: Final = timedelta(days=3660)
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
"""Where a window may end, so that the ones beside it are dates too."""

TOKEN_KIND = "endpoint-statistics"  # noqa: S105 - no secret


@extend_schema_field(OpenApiTypes.UUID)
class IdText(Text):
    """A UUID in its canonical form."""


@extend_schema_field(OpenApiTypes.DURATION)
class IntervalText(Text):
    """An ISO 8601 duration."""


class WarehouseFilter(KebabSerializer):
    type = serializers.ChoiceField(
        ["all", "unmapped", "warehouse-id"],
        help_text="`all`: everything in the project; `unmapped`: what no warehouse was named in; `warehouse-id`: one",
    )
    id = IdText(required=False, allow_null=True, help_text="With `warehouse-id`")


class TimeWindowSelector(KebabSerializer):
    type = serializers.ChoiceField(["window", "page-token"])
    end = serializers.DateTimeField(required=False, allow_null=True, help_text="With `window`")
    interval = IntervalText(
        required=False, allow_null=True, help_text="With `window`: how long before `end` it begins, such as `P1D`"
    )
    token = Text(required=False, allow_null=True, help_text="With `page-token`: one of an earlier answer")


class EndpointStatisticsRequest(KebabSerializer):
    warehouse = WarehouseFilter()
    status_codes = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=32_767),
        max_length=1000,
        required=False,
        allow_null=True,
        help_text="Only these; default: all",
    )
    range_specifier = TimeWindowSelector(required=False, allow_null=True, help_text="Default: the last 24 hours")


class EndpointStatisticEntry(KebabSerializer):
    http_route = Text(help_text="`METHOD /route/{pattern}`")
    status_code = serializers.IntegerField()
    count = serializers.IntegerField()
    warehouse_id = serializers.UUIDField(allow_null=True)
    warehouse_name = Text(allow_null=True, help_text="Null when there is no such warehouse any more")
    created_at = serializers.DateTimeField(help_text="The first call in this hour")
    updated_at = serializers.DateTimeField(allow_null=True, help_text="The last one, if there was more than one")


class EndpointStatisticsResponse(KebabSerializer):
    timestamps = serializers.ListField(
        child=serializers.DateTimeField(), help_text="The ends of the hours with calls, the oldest first"
    )
    called_endpoints = serializers.ListField(
        child=EndpointStatisticEntry(many=True), help_text="What was called in each of these hours"
    )
    previous_page_token = Text(
        help_text="The window of the same length before this one, or before its oldest returned hour"
    )
    next_page_token = Text(help_text="The one after it")


class EndpointStatisticsView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="get_endpoint_statistics",
        tags=TAGS,
        summary="Get calls of each endpoint by hour and status",
        description="An hour belongs to the window in which it begins. For a window with more than "
        f"{MAX_ENTRIES:,} entries the newest hours are returned, and `previous-page-token` continues before them. "
        "Counts are delayed by some seconds: each server process writes its own every "
        "`LAKEKEEPER__ENDPOINT_STAT_FLUSH_INTERVAL`.",
        parameters=[PROJECT_HEADER],
        request=EndpointStatisticsRequest,
        responses=operation_responses(
            {200: EndpointStatisticsResponse},
            {
                400: f"{PROJECT_ERRORS[400]}, `InvalidPaginationToken`",
                404: f"{PROJECT_ERRORS[404]}, `NoSuchWarehouseException`",
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(EndpointStatisticsRequest)
        window = _window(body.get("range_specifier"))
        found = list_endpoint_statistics_for(
            actor=self.actor,
            project=self.project(),
            warehouse_id=_warehouse_id(body["warehouse"]),
            status_codes=body.get("status_codes"),
            window=window,
        )
        hours = [(hour, list(group)) for hour, group in groupby(found.entries, itemgetter("hour"))]
        interval = window.end - window.start
        return Response(
            {
                "timestamps": [hour + HOUR for hour, _ in hours],
                "called-endpoints": [_entries_json(group) for _, group in hours],
                "previous-page-token": _page_token(found.window.start, interval),
                "next-page-token": _page_token(window.end + interval, interval),
            }
        )


def _entries_json(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "http-route": entry["endpoint"],
            "status-code": entry["status"],
            "count": entry["count"],
            "warehouse-id": None if entry["warehouse_id"] == NO_WAREHOUSE else str(entry["warehouse_id"]),
            "warehouse-name": entry["warehouse_name"],
            "created-at": entry["created_at"],
            "updated-at": entry["updated_at"],
        }
        for entry in entries
    ]


def _warehouse_id(given: dict[str, Any]) -> UUID | None:
    """As the selector wants it: None for all, `NO_WAREHOUSE` for those without."""
    if given["type"] != "warehouse-id":
        return None if given["type"] == "all" else NO_WAREHOUSE
    warehouse_id = parse_id(given.get("id") or "")
    if warehouse_id is None or warehouse_id == NO_WAREHOUSE:
        raise BadRequest("warehouse.id: must be the id of a warehouse")
    return warehouse_id


def _window(given: dict[str, Any] | None) -> Window:
    if given is None:
        end, interval = now(), USUAL_INTERVAL
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
    if interval is None or not timedelta() < interval <= LONGEST_INTERVAL:
        raise BadRequest("range-specifier.interval: must be an ISO 8601 duration such as PT1H or P1D, up to P3660D")
    return interval


def _page_token(end: datetime, interval: timedelta) -> str:
    return write_page_token(TOKEN_KIND, end.isoformat(), str(interval.total_seconds()))


def _read_page_token(token: str) -> tuple[datetime, timedelta]:
    end_text, seconds = read_page_token(token, TOKEN_KIND, parts=2)
    try:
        end, interval = datetime.fromisoformat(end_text), timedelta(seconds=float(seconds))
        if EARLIEST <= end <= LATEST and timedelta() < interval <= LONGEST_INTERVAL:
            return end, interval
    except (ValueError, TypeError, OverflowError):
        pass  # refused like one that can be read, and that we never wrote
    raise InvalidPageToken("Invalid page token")
