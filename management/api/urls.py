"""Routes of `/management`."""

from __future__ import annotations

from django.urls import include, path

from management.api.access_review_urls import ACCESS_REVIEW_ROUTES
from management.api.endpoint_statistics import EndpointStatisticsView
from management.api.rights_urls import RIGHTS_ROUTES
from management.api.warehouse_statistics import WarehouseStatisticsView

_WAREHOUSE = "v1/warehouse/<str:warehouse_id>"

urlpatterns = [
    *ACCESS_REVIEW_ROUTES,
    *RIGHTS_ROUTES,  # before what takes any text in their places
    *(
        path("", include(f"management.api.{resource}.urls"))
        for resource in (
            "server",
            "projects",
            "users",
            "roles",
            "tokens",
            "warehouses",
            "namespaces",
            "tabulars",
            "tags",
            "audit",
        )
    ),
    path("v1/endpoint-statistics", EndpointStatisticsView.as_view(), name="endpoint-statistics"),
    path(f"{_WAREHOUSE}/statistics", WarehouseStatisticsView.as_view(), name="warehouse-statistics"),
    path("v1/permissions/", include("management.api.permission_urls")),
]
