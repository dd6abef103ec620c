"""Routes of `/management` about rights: what may be done, and what is granted."""

from __future__ import annotations

from typing import Final

from django.urls import URLPattern, path

from management.api.action_checks import BatchCheckView
from management.api.allowed_actions import (
    GenericTableActionsView,
    NamespaceActionsView,
    ProjectActionsView,
    RoleActionsView,
    ServerActionsView,
    TableActionsView,
    TagActionsView,
    UserActionsView,
    ViewActionsView,
    WarehouseActionsView,
)

_WAREHOUSE = "v1/warehouse/<str:warehouse_id>"
_NAMESPACE = f"{_WAREHOUSE}/namespace/<str:namespace_id>"
_TABLE = f"{_WAREHOUSE}/table/<str:table_id>"
_VIEW = f"{_WAREHOUSE}/view/<str:view_id>"
_GENERIC_TABLE = f"{_WAREHOUSE}/generic-table/<str:generic_table_id>"
_TAG = "v1/tag-definition/<str:tag_definition_id>"

RIGHTS_ROUTES: Final[list[URLPattern]] = [
    path("v1/action/batch-check", BatchCheckView.as_view(), name="batch-check"),
    path("v1/server/actions", ServerActionsView.as_view(), name="server-actions"),
    path("v1/project/actions", ProjectActionsView.as_view(), name="project-actions"),
    path(f"{_WAREHOUSE}/actions", WarehouseActionsView.as_view(), name="warehouse-actions"),
    path(f"{_NAMESPACE}/actions", NamespaceActionsView.as_view(), name="namespace-actions"),
    path(f"{_TABLE}/actions", TableActionsView.as_view(), name="table-actions"),
    path(f"{_VIEW}/actions", ViewActionsView.as_view(), name="view-actions"),
    path(f"{_GENERIC_TABLE}/actions", GenericTableActionsView.as_view(), name="generic-table-actions"),
    path(f"{_TAG}/actions", TagActionsView.as_view(), name="tag-actions"),
    path("v1/role/<str:role_id>/actions", RoleActionsView.as_view(), name="role-actions"),
    path("v1/user/<str:user_id>/actions", UserActionsView.as_view(), name="user-actions"),
]
