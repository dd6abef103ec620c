"""Routes of `/management`."""

from __future__ import annotations

from django.urls import path

from management.api.endpoint_statistics import EndpointStatisticsView
from management.api.projects import ProjectListView, ProjectView
from management.api.protection import (
    GenericTableProtectionView,
    NamespaceProtectionView,
    TableProtectionView,
    ViewProtectionView,
)
from management.api.server import BootstrapView, ServerInfoView
from management.api.service_accounts import ServiceAccountsView, ServiceAccountView
from management.api.tokens import TokenRotationView, TokensView, TokenView
from management.api.warehouses import WarehousesView, WarehouseView

_WAREHOUSE = "v1/warehouse/<str:warehouse_id>"
_PROTECTION = "<str:object_id>/protection"

urlpatterns = [
    path("v1/info", ServerInfoView.as_view(), name="server-info"),
    path("v1/bootstrap", BootstrapView.as_view(), name="bootstrap"),
    path("v1/project", ProjectView.as_view(), name="project"),
    path("v1/project-list", ProjectListView.as_view(), name="project-list"),
    path("v1/endpoint-statistics", EndpointStatisticsView.as_view(), name="endpoint-statistics"),
    path("v1/service-account", ServiceAccountsView.as_view(), name="service-accounts"),
    path("v1/service-account/<str:account_id>", ServiceAccountView.as_view(), name="service-account"),
    path("v1/token", TokensView.as_view(), name="tokens"),
    path("v1/token/<str:token_id>", TokenView.as_view(), name="token"),
    path("v1/token/<str:token_id>/rotate", TokenRotationView.as_view(), name="token-rotation"),
    path("v1/warehouse", WarehousesView.as_view(), name="warehouses"),
    path("v1/warehouse/<str:warehouse_id>", WarehouseView.as_view(), name="warehouse"),
    path(f"{_WAREHOUSE}/namespace/{_PROTECTION}", NamespaceProtectionView.as_view(), name="namespace-protection"),
    path(f"{_WAREHOUSE}/table/{_PROTECTION}", TableProtectionView.as_view(), name="table-protection"),
    path(f"{_WAREHOUSE}/view/{_PROTECTION}", ViewProtectionView.as_view(), name="view-protection"),
    path(f"{_WAREHOUSE}/generic-table/{_PROTECTION}", GenericTableProtectionView.as_view(), name="generic-protection"),
]
