from __future__ import annotations

from django.urls import path

from management.api.grants.serializers import GRANTED_ON
from management.api.grants.views import (
    AssignmentViewSet,
    GrantViewSet,
    PrincipalGrantViewSet,
    ProjectByIdAssignmentViewSet,
)
from management.api.objects import OBJECT_PATHS, PERMISSION_PATHS, PERMISSION_PROJECT_PATH
from tenancy.models import Securable

_PRIVILEGES = "grants/grantable-privileges"

urlpatterns = [
    path("v1/grants", PrincipalGrantViewSet.as_view({"get": "list"}), name="grants"),
    path(f"v1/{_PRIVILEGES}", PrincipalGrantViewSet.as_view({"get": "privileges"}), name="grantable-privileges"),
    *(
        path(
            f"{OBJECT_PATHS[kind]}/grants",
            GrantViewSet.as_view({"get": "list", "post": "apply"}, securable_type=kind),
            name=f"{kind}-grants",
        )
        for kind in GRANTED_ON
    ),
    *(
        path(
            f"{OBJECT_PATHS[kind]}/{_PRIVILEGES}",
            GrantViewSet.as_view({"get": "grantable_privileges"}, securable_type=kind),
            name=f"{kind}-grantable",
        )
        for kind in GRANTED_ON
    ),
    *(
        path(
            f"{prefix}/assignments",
            AssignmentViewSet.as_view({"get": "list", "post": "update"}, securable_type=kind),
            name=f"{kind}-assignments",
        )
        for kind, prefix in PERMISSION_PATHS.items()
    ),
    path(
        f"{PERMISSION_PROJECT_PATH}/assignments",
        ProjectByIdAssignmentViewSet.as_view({"get": "list", "post": "update"}, securable_type=Securable.Type.PROJECT),
        name="project-by-id-assignments",
    ),
]
