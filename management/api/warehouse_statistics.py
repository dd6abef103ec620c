from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.warehouse_statistics import HOUR, list_warehouse_statistics_for
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from icekeeper.kernel.http.serializers import KebabSerializer, Text, operation_responses
from management.api.base import ManagementView
from management.api.schema import BAD_PAGE, EXTENSIONS_HEADER, NO_WAREHOUSE, WAREHOUSE_ID, WITH_EXTENSIONS
from management.api.warehouses.schema import TAGS


class WarehouseStatistics(KebabSerializer):
    """What is dropped is not counted, even while it can be restored."""

    timestamp = serializers.DateTimeField(help_text="The end of the hour")
    updated_at = serializers.DateTimeField(help_text="When it was noticed that the numbers are these")
    number_of_tables = serializers.IntegerField()
    number_of_views = serializers.IntegerField()
    number_of_generic_tables = serializers.IntegerField(required=False, help_text=WITH_EXTENSIONS)


class WarehouseStatisticsResponse(KebabSerializer):
    warehouse_ident = serializers.UUIDField()
    stats = WarehouseStatistics(many=True)
    next_page_token = Text(required=False, help_text="Left out on the last page")


class WarehouseStatisticsView(ManagementView):
    @extend_schema(
        operation_id="get_warehouse_statistics",
        tags=TAGS,
        summary="Get the number of tables and views of a warehouse by hour",
        description="Newest first: the current hour with the current numbers, then the hours in which a worker, which "
        "counts every minute, saw a change. Callers who may not list everything in the warehouse get only the current "
        "hour, with the number of objects that are visible to them.",
        parameters=[
            WAREHOUSE_ID,
            EXTENSIONS_HEADER,
            OpenApiParameter("page_token", OpenApiTypes.STR, description="`next-page-token` of the page before"),
            OpenApiParameter(
                "page_size",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
                description="Entries of a page; the server has a default and a largest size",
            ),
        ],
        responses=operation_responses({200: WarehouseStatisticsResponse}, {400: BAD_PAGE, 404: NO_WAREHOUSE}),
    )
    def get(self, request: Request, warehouse_id: str) -> Response:
        wants_extensions = self.wants_extensions()
        found, token = list_warehouse_statistics_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            page=self.page("warehouse-statistics", token="page_token", size="page_size"),  # noqa: S106 - no secret
        )
        body: dict[str, Any] = {
            "warehouse-ident": str(self.warehouse_id),
            "stats": [
                {
                    "timestamp": each.hour + HOUR,
                    "updated-at": each.updated_at,
                    "number-of-tables": each.tables,
                    "number-of-views": each.views,
                    **({"number-of-generic-tables": each.generic_tables} if wants_extensions else {}),
                }
                for each in found
            ],
        }
        return Response(body if token is None else body | {"next-page-token": token})
