"""Routes of `/management/v1/permissions`."""

from __future__ import annotations

from django.urls import path

from management.api.assignments import (
    GenericTableAssignmentsView,
    NamespaceAssignmentsView,
    ProjectAssignmentsView,
    ProjectByIdAssignmentsView,
    RoleAssignmentsView,
    ServerAssignmentsView,
    TableAssignmentsView,
    TagAssignmentsView,
    ViewAssignmentsView,
    WarehouseAssignmentsView,
)
from management.api.authorizer_actions import (
    GenericTableAuthorizerActionsView,
    NamespaceAccessView,
    NamespaceAuthorizerActionsView,
    ProjectAccessView,
    ProjectAuthorizerActionsView,
    ProjectByIdAccessView,
    RoleAccessView,
    RoleAuthorizerActionsView,
    ServerAccessView,
    ServerAuthorizerActionsView,
    TableAccessView,
    TableAuthorizerActionsView,
    ViewAccessView,
    ViewAuthorizerActionsView,
    WarehouseAccessView,
    WarehouseAuthorizerActionsView,
)
from management.api.explanation import ExplainView
from management.api.managed_access import (
    NamespaceAuthPropertiesView,
    NamespaceManagedAccessView,
    WarehouseAuthPropertiesView,
    WarehouseManagedAccessView,
)
from management.api.permission_check import PermissionCheckView

_PROJECT = "project/<str:project_id>"
_WAREHOUSE = "warehouse/<str:warehouse_id>"
_NAMESPACE = "namespace/<str:namespace_id>"
_TABLE = f"{_WAREHOUSE}/table/<str:table_id>"
_VIEW = f"{_WAREHOUSE}/view/<str:view_id>"
_GENERIC = f"{_WAREHOUSE}/generic-table/<str:generic_table_id>"
_ROLE = "role/<str:role_id>"
_TAG = "tag/<str:tag_definition_id>"

urlpatterns = [
    path("check", PermissionCheckView.as_view(), name="permission-check"),
    path("explain", ExplainView.as_view(), name="permission-explain"),
    path("server/access", ServerAccessView.as_view(), name="server-access"),
    path("server/assignments", ServerAssignmentsView.as_view(), name="server-assignments"),
    path("server/authorizer-actions", ServerAuthorizerActionsView.as_view(), name="server-authorizer-actions"),
    path("project/access", ProjectAccessView.as_view(), name="project-access"),
    path("project/assignments", ProjectAssignmentsView.as_view(), name="project-assignments"),
    path("project/authorizer-actions", ProjectAuthorizerActionsView.as_view(), name="project-authorizer-actions"),
    path(f"{_PROJECT}/access", ProjectByIdAccessView.as_view(), name="project-by-id-access"),
    path(f"{_PROJECT}/assignments", ProjectByIdAssignmentsView.as_view(), name="project-by-id-assignments"),
    path(_WAREHOUSE, WarehouseAuthPropertiesView.as_view(), name="warehouse-auth-properties"),
    path(f"{_WAREHOUSE}/access", WarehouseAccessView.as_view(), name="warehouse-access"),
    path(f"{_WAREHOUSE}/assignments", WarehouseAssignmentsView.as_view(), name="warehouse-assignments"),
    path(
        f"{_WAREHOUSE}/authorizer-actions",
        WarehouseAuthorizerActionsView.as_view(),
        name="warehouse-authorizer-actions",
    ),
    path(f"{_WAREHOUSE}/managed-access", WarehouseManagedAccessView.as_view(), name="warehouse-managed-access"),
    path(_NAMESPACE, NamespaceAuthPropertiesView.as_view(), name="namespace-auth-properties"),
    path(f"{_NAMESPACE}/access", NamespaceAccessView.as_view(), name="namespace-access"),
    path(f"{_NAMESPACE}/assignments", NamespaceAssignmentsView.as_view(), name="namespace-assignments"),
    path(
        f"{_NAMESPACE}/authorizer-actions",
        NamespaceAuthorizerActionsView.as_view(),
        name="namespace-authorizer-actions",
    ),
    path(f"{_NAMESPACE}/managed-access", NamespaceManagedAccessView.as_view(), name="namespace-managed-access"),
    path(f"{_TABLE}/access", TableAccessView.as_view(), name="table-access"),
    path(f"{_TABLE}/assignments", TableAssignmentsView.as_view(), name="table-assignments"),
    path(f"{_TABLE}/authorizer-actions", TableAuthorizerActionsView.as_view(), name="table-authorizer-actions"),
    path(f"{_VIEW}/access", ViewAccessView.as_view(), name="view-access"),
    path(f"{_VIEW}/assignments", ViewAssignmentsView.as_view(), name="view-assignments"),
    path(f"{_VIEW}/authorizer-actions", ViewAuthorizerActionsView.as_view(), name="view-authorizer-actions"),
    path(f"{_GENERIC}/assignments", GenericTableAssignmentsView.as_view(), name="generic-table-assignments"),
    path(
        f"{_GENERIC}/authorizer-actions",
        GenericTableAuthorizerActionsView.as_view(),
        name="generic-table-authorizer-actions",
    ),
    path(f"{_ROLE}/access", RoleAccessView.as_view(), name="role-access"),
    path(f"{_ROLE}/assignments", RoleAssignmentsView.as_view(), name="role-assignments"),
    path(f"{_ROLE}/authorizer-actions", RoleAuthorizerActionsView.as_view(), name="role-authorizer-actions"),
    path(f"{_TAG}/assignments", TagAssignmentsView.as_view(), name="tag-assignments"),
]
