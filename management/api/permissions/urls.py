from __future__ import annotations

from django.urls import path

from management.api.base import OBJECT_PATHS, PERMISSION_PATHS, PERMISSION_PROJECT_PATH, object_routes
from management.api.permissions.views import (
    AccessViewSet,
    AuthorizerActionViewSet,
    ManagedAccessViewSet,
    ObjectActionViewSet,
    PermissionCheckViewSet,
    ProjectByIdAccessViewSet,
)
from tenancy.authz.actions import GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable

T = Securable.Type
_LIST = {"get": "list"}
_MANAGED = (T.WAREHOUSE, T.NAMESPACE)
_WITH_ACCESS = [kind for kind in LEGACY_ACTION_NAMES if kind is not T.GENERIC_TABLE]

urlpatterns = [
    path("v1/action/batch-check", PermissionCheckViewSet.as_view({"post": "batch_check"}), name="batch-check"),
    path("v1/permissions/check", PermissionCheckViewSet.as_view({"post": "check"}), name="permission-check"),
    path("v1/permissions/explain", PermissionCheckViewSet.as_view({"post": "explain"}), name="permission-explain"),
    *object_routes(OBJECT_PATHS, OBJECT_PATHS, "actions", ObjectActionViewSet, _LIST),
    *object_routes(PERMISSION_PATHS, _WITH_ACCESS, "access", AccessViewSet, _LIST),
    path(
        f"{PERMISSION_PROJECT_PATH}/access",
        ProjectByIdAccessViewSet.as_view(dict(_LIST), securable_type=T.PROJECT),
        name="project-by-id-access",
    ),
    *object_routes(PERMISSION_PATHS, GRANT_ACTION_NAMES, "authorizer-actions", AuthorizerActionViewSet, _LIST),
    *object_routes(PERMISSION_PATHS, _MANAGED, "", ManagedAccessViewSet, {"get": "retrieve"}, name="auth-properties"),
    *object_routes(PERMISSION_PATHS, _MANAGED, "managed-access", ManagedAccessViewSet, {"post": "update"}),
]
