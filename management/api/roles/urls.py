from __future__ import annotations

from django.urls import path

from management.api.roles.views import RoleMemberViewSet, RoleViewSet

_ROLE = "v1/role/<str:role_id>"
_MEMBERS, _MEMBER_OF = f"{_ROLE}/members", f"{_ROLE}/member-of"

urlpatterns = [
    path("v1/role", RoleViewSet.as_view({"get": "list", "post": "create"}), name="roles"),
    path(_ROLE, RoleViewSet.as_view({"get": "retrieve", "post": "update", "delete": "destroy"}), name="role"),
    path(f"{_ROLE}/metadata", RoleViewSet.as_view({"get": "metadata"}), name="role-metadata"),
    path(f"{_ROLE}/source-system", RoleViewSet.as_view({"put": "update_source_system"}), name="role-source-system"),
    path("v1/search/role", RoleViewSet.as_view({"post": "search"}), name="role-search"),
    path(_MEMBERS, RoleMemberViewSet.as_view({"get": "list", "post": "create"}), name="role-members"),
    path(
        f"{_MEMBERS}/transitive", RoleMemberViewSet.as_view({"get": "list_transitive"}), name="role-transitive-members"
    ),
    path(
        f"{_MEMBERS}/<str:member_type>/<str:member_id>",
        RoleMemberViewSet.as_view({"delete": "destroy"}),
        name="role-member",
    ),
    path(_MEMBER_OF, RoleMemberViewSet.as_view({"get": "member_of"}), name="role-member-of"),
    path(
        f"{_MEMBER_OF}/transitive",
        RoleMemberViewSet.as_view({"get": "transitive_member_of"}),
        name="role-transitive-member-of",
    ),
]
