from __future__ import annotations

from django.urls import path

from management.api.statistics.views import EndpointStatisticsViewSet, WarehouseStatisticsViewSet

urlpatterns = [
    path("v1/endpoint-statistics", EndpointStatisticsViewSet.as_view({"post": "list"}), name="endpoint-statistics"),
    path(
        "v1/warehouse/<str:warehouse_id>/statistics",
        WarehouseStatisticsViewSet.as_view({"get": "list"}),
        name="warehouse-statistics",
    ),
]
