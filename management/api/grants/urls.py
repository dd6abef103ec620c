from __future__ import annotations

from django.urls import path

from management.api.base import OBJECT_PATHS, PERMISSION_PATHS, PERMISSION_PROJECT_PATH, object_routes
from management.api.grants.serializers import GRANTED_ON
from management.api.grants.views import (
    AssignmentViewSet,
    GrantViewSet,
    PrincipalGrantViewSet,
    ProjectByIdAssignmentViewSet,
)
from tenancy.models import Securable

_PRIVILEGES = "grants/grantable-privileges"
_GRANTS = {"get": "list", "post": "apply"}
_ASSIGNMENTS = {"get": "list", "post": "update"}

urlpatterns = [
    path("v1/grants", PrincipalGrantViewSet.as_view({"get": "list"}), name="grants"),
    path(f"v1/{_PRIVILEGES}", PrincipalGrantViewSet.as_view({"get": "privileges"}), name="grantable-privileges"),
    *object_routes(OBJECT_PATHS, GRANTED_ON, "grants", GrantViewSet, _GRANTS),
    *object_routes(
        OBJECT_PATHS, GRANTED_ON, _PRIVILEGES, GrantViewSet, {"get": "grantable_privileges"}, name="grantable"
    ),
    *object_routes(PERMISSION_PATHS, PERMISSION_PATHS, "assignments", AssignmentViewSet, _ASSIGNMENTS),
    path(
        f"{PERMISSION_PROJECT_PATH}/assignments",
        ProjectByIdAssignmentViewSet.as_view(dict(_ASSIGNMENTS), securable_type=Securable.Type.PROJECT),
        name="project-by-id-assignments",
    ),
]
