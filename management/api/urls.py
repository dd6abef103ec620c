"""Routes of `/management`."""

from __future__ import annotations

from django.urls import path

from management.api.endpoint_statistics import EndpointStatisticsView
from management.api.projects import ProjectListView, ProjectView
from management.api.server import BootstrapView, ServerInfoView
from management.api.warehouses import WarehousesView, WarehouseView

urlpatterns = [
    path("v1/info", ServerInfoView.as_view(), name="server-info"),
    path("v1/bootstrap", BootstrapView.as_view(), name="bootstrap"),
    path("v1/project", ProjectView.as_view(), name="project"),
    path("v1/project-list", ProjectListView.as_view(), name="project-list"),
    path("v1/endpoint-statistics", EndpointStatisticsView.as_view(), name="endpoint-statistics"),
    path("v1/warehouse", WarehousesView.as_view(), name="warehouses"),
    path("v1/warehouse/<str:warehouse_id>", WarehouseView.as_view(), name="warehouse"),
]
