"""OpenAPI descriptions of the operations on endpoint statistics and warehouse statistics."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from management.api.schema import (
    BAD_PAGE,
    EXTENSIONS_HEADER,
    NO_WAREHOUSE,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    TOO_LARGE,
    WAREHOUSE_ID,
    describe,
    operation,
)
from management.api.statistics.serializers import (
    EndpointStatisticsRequest,
    EndpointStatisticsResponse,
    WarehouseStatisticsResponse,
)
from management.endpoint_statistics import MAX_ENTRIES

describe_endpoint_statistics = describe(
    list=operation(
        "get_endpoint_statistics",
        "Get calls of each endpoint by hour and status",
        tag="project",
        description="An hour belongs to the window in which it begins. For a window with more than "
        f"{MAX_ENTRIES:,} entries the newest hours are returned, and `previous-page-token` continues before them. "
        "Counts are delayed by some seconds: each server process writes its own every "
        "`LAKEKEEPER__ENDPOINT_STAT_FLUSH_INTERVAL`.",
        parameters=[PROJECT_HEADER],
        request=EndpointStatisticsRequest,
        success={200: EndpointStatisticsResponse},
        errors={
            400: f"{PROJECT_ERRORS[400]}, `InvalidPaginationToken`",
            404: f"{PROJECT_ERRORS[404]}, {NO_WAREHOUSE}",
            413: TOO_LARGE,
        },
    )
)

describe_warehouse_statistics = describe(
    list=operation(
        "get_warehouse_statistics",
        "Get the number of tables and views of a warehouse by hour",
        tag="warehouse",
        description="Newest first: the current hour with the current numbers, then the hours at whose end they "
        "differed from the hour before. Callers without the permission to list everything in the warehouse get only "
        "the current hour, with the number of objects that are visible to them.",
        parameters=[
            WAREHOUSE_ID,
            EXTENSIONS_HEADER,
            OpenApiParameter("page_token", OpenApiTypes.STR, description="`next-page-token` of the previous page"),
            OpenApiParameter(
                "page_size",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
                description="Entries per page; the server has a default and a maximum",
            ),
        ],
        success={200: WarehouseStatisticsResponse},
        errors={400: BAD_PAGE, 404: NO_WAREHOUSE},
    )
)
