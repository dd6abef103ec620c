"""Requests and responses of endpoint statistics and warehouse statistics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from catalog.services.warehouse_statistics import HOUR, CountsOfAnHour
from management.api.schema import WITH_EXTENSIONS
from management.api.serializers import LAST_PAGE, IdText, KebabSerializer, ResponseSerializer, Text
from management.models import NO_WAREHOUSE


@extend_schema_field(OpenApiTypes.DURATION)
class IntervalText(Text):
    """An ISO 8601 duration."""


class WarehouseFilter(KebabSerializer):
    type = serializers.ChoiceField(
        ["all", "unmapped", "warehouse-id"],
        help_text="`all`: all calls in the project; `unmapped`: calls that name no warehouse; `warehouse-id`: calls of "
        "one warehouse",
    )
    id = IdText(required=False, allow_null=True, help_text="With `warehouse-id`")


class TimeWindowSelector(KebabSerializer):
    type = serializers.ChoiceField(["window", "page-token"])
    end = serializers.DateTimeField(required=False, allow_null=True, help_text="With `window`")
    interval = IntervalText(
        required=False, allow_null=True, help_text="With `window`: the length of the window before `end`, such as `P1D`"
    )
    token = Text(required=False, allow_null=True, help_text="With `page-token`: one of an earlier response")


class EndpointStatisticsRequest(KebabSerializer):
    warehouse = WarehouseFilter()
    status_codes = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=32_767),
        max_length=1000,
        required=False,
        allow_null=True,
        help_text="Only these status codes; default: all",
    )
    range_specifier = TimeWindowSelector(required=False, allow_null=True, help_text="Default: the last 24 hours")


class EndpointStatisticEntry(ResponseSerializer):
    http_route = Text(source="endpoint", help_text="`METHOD /route/{pattern}`")
    status_code = serializers.IntegerField(source="status")
    count = serializers.IntegerField()
    warehouse_id = serializers.UUIDField(allow_null=True)
    warehouse_name = Text(allow_null=True, help_text="Null when the warehouse does not exist any more")
    created_at = serializers.DateTimeField(help_text="The first call in this hour")
    updated_at = serializers.DateTimeField(allow_null=True, help_text="The last call, if there was more than one")

    def render_warehouse_id(self, entry: Mapping[str, Any]) -> UUID | None:
        warehouse_id: UUID = entry["warehouse_id"]
        return None if warehouse_id == NO_WAREHOUSE else warehouse_id


class EndpointStatisticsResponse(ResponseSerializer):
    timestamps = serializers.ListField(
        child=serializers.DateTimeField(), help_text="The ends of the hours with calls, oldest first"
    )
    called_endpoints = serializers.ListField(
        child=EndpointStatisticEntry(many=True), help_text="The calls of each of these hours"
    )
    previous_page_token = Text(
        help_text="The window of the same length before this one, or before its oldest returned hour"
    )
    next_page_token = Text(help_text="The window of the same length after this one")

    def render_called_endpoints(self, content: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        shape = EndpointStatisticEntry()
        return [[shape.to_representation(each) for each in hour] for hour in content["called_endpoints"]]


class WarehouseStatistics(ResponseSerializer):
    """Dropped objects are not counted, even while they can be restored."""

    timestamp = serializers.DateTimeField(help_text="The end of the hour")
    updated_at = serializers.DateTimeField(help_text="When these numbers were first counted")
    number_of_tables = serializers.IntegerField(source="tables")
    number_of_views = serializers.IntegerField(source="views")
    number_of_generic_tables = serializers.IntegerField(required=False, help_text=WITH_EXTENSIONS)

    def render_timestamp(self, counts: CountsOfAnHour) -> datetime:
        return counts.hour + HOUR

    def render_number_of_generic_tables(self, counts: CountsOfAnHour) -> int | None:
        return counts.generic_tables if self.context["with_extensions"] else None


class WarehouseStatisticsResponse(ResponseSerializer):
    warehouse_ident = serializers.UUIDField()
    stats = WarehouseStatistics(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)
