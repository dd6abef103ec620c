from __future__ import annotations

from django.urls import path

from management.api.objects import OBJECT_PATHS, PERMISSION_PATHS, PERMISSION_PROJECT_PATH
from management.api.permissions.views import (
    AccessViewSet,
    AuthorizerActionViewSet,
    ManagedAccessViewSet,
    ObjectActionViewSet,
    PermissionCheckViewSet,
    ProjectByIdAccessViewSet,
)
from tenancy.authz.action_names import GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable

_LIST = {"get": "list"}
_MANAGED = (Securable.Type.WAREHOUSE, Securable.Type.NAMESPACE)

urlpatterns = [
    path("v1/action/batch-check", PermissionCheckViewSet.as_view({"post": "batch_check"}), name="batch-check"),
    path("v1/permissions/check", PermissionCheckViewSet.as_view({"post": "check"}), name="permission-check"),
    path("v1/permissions/explain", PermissionCheckViewSet.as_view({"post": "explain"}), name="permission-explain"),
    path("v1/permissions/explain", PermissionCheckViewSet.as_view({"post": "explain"}), name="permission-explain"),
    *(
        path(f"{prefix}/actions", ObjectActionViewSet.as_view(dict(_LIST), securable_type=kind), name=f"{kind}-actions")
        for kind, prefix in OBJECT_PATHS.items()
    ),
    *(
        path(
            f"{PERMISSION_PATHS[kind]}/access",
            AccessViewSet.as_view(dict(_LIST), securable_type=kind),
            name=f"{kind}-access",
        )
        for kind in LEGACY_ACTION_NAMES
        if kind is not Securable.Type.GENERIC_TABLE
    ),
    path(
        f"{PERMISSION_PROJECT_PATH}/access",
        ProjectByIdAccessViewSet.as_view(dict(_LIST), securable_type=Securable.Type.PROJECT),
        name="project-by-id-access",
    ),
    *(
        path(
            f"{PERMISSION_PATHS[kind]}/authorizer-actions",
            AuthorizerActionViewSet.as_view(dict(_LIST), securable_type=kind),
            name=f"{kind}-authorizer-actions",
        )
        for kind in GRANT_ACTION_NAMES
    ),
    *(
        path(
            PERMISSION_PATHS[kind],
            ManagedAccessViewSet.as_view({"get": "retrieve"}, securable_type=kind),
            name=f"{kind}-auth-properties",
        )
        for kind in _MANAGED
    ),
    *(
        path(
            f"{PERMISSION_PATHS[kind]}/managed-access",
            ManagedAccessViewSet.as_view({"post": "update"}, securable_type=kind),
            name=f"{kind}-managed-access",
        )
        for kind in _MANAGED
    ),
]
