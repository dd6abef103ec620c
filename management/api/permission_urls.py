"""Routes of `/management/v1/permissions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.urls import URLPattern, path

from management.api.authorizer_actions import ACCESS_VIEWS, AUTHORIZER_ACTIONS_VIEWS, PROJECT_BY_ID_ACCESS_VIEW
from management.api.managed_access import (
    NamespaceAuthPropertiesView,
    NamespaceManagedAccessView,
    WarehouseAuthPropertiesView,
    WarehouseManagedAccessView,
)
from management.api.permission_check import PermissionCheckView
from management.api.permission_places import PermissionView
from tenancy.models import Securable

_PROJECT_BY_ID = "project/<str:project_id>"
_WAREHOUSE = "warehouse/<str:warehouse_id>"
_NAMESPACE = "namespace/<str:namespace_id>"

_PLACES: Final = {
    Securable.Type.SERVER: "server",
    Securable.Type.PROJECT: "project",
    Securable.Type.WAREHOUSE: _WAREHOUSE,
    Securable.Type.NAMESPACE: _NAMESPACE,
    Securable.Type.TABLE: f"{_WAREHOUSE}/table/<str:table_id>",
    Securable.Type.VIEW: f"{_WAREHOUSE}/view/<str:view_id>",
    Securable.Type.GENERIC_TABLE: f"{_WAREHOUSE}/generic-table/<str:generic_table_id>",
    Securable.Type.ROLE: "role/<str:role_id>",
    Securable.Type.TAG: "tag/<str:tag_definition_id>",
}


def _below_places(ending: str, views: Mapping[Securable.Type, type[PermissionView]]) -> list[URLPattern]:
    return [path(f"{_PLACES[kind]}/{ending}", view.as_view(), name=f"{kind}-{ending}") for kind, view in views.items()]


urlpatterns = [
    path("check", PermissionCheckView.as_view(), name="permission-check"),
    path(_WAREHOUSE, WarehouseAuthPropertiesView.as_view(), name="warehouse-auth-properties"),
    path(f"{_WAREHOUSE}/managed-access", WarehouseManagedAccessView.as_view(), name="warehouse-managed-access"),
    path(_NAMESPACE, NamespaceAuthPropertiesView.as_view(), name="namespace-auth-properties"),
    path(f"{_NAMESPACE}/managed-access", NamespaceManagedAccessView.as_view(), name="namespace-managed-access"),
    path(f"{_PROJECT_BY_ID}/access", PROJECT_BY_ID_ACCESS_VIEW.as_view(), name="project-by-id-access"),
    *_below_places("access", ACCESS_VIEWS),
    *_below_places("authorizer-actions", AUTHORIZER_ACTIONS_VIEWS),
]
