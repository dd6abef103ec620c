from __future__ import annotations

from django.urls import path

from management.api.base import WAREHOUSE_PATH
from management.api.statistics.views import EndpointStatisticsViewSet, WarehouseStatisticsViewSet

urlpatterns = [
    path("v1/endpoint-statistics", EndpointStatisticsViewSet.as_view({"post": "list"}), name="endpoint-statistics"),
    path(
        f"{WAREHOUSE_PATH}/statistics",
        WarehouseStatisticsViewSet.as_view({"get": "list"}),
        name="warehouse-statistics",
    ),
]
