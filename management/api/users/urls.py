from __future__ import annotations

from django.urls import path

from management.api.users.views import UserViewSet

_USER = "v1/user/<str:user_id>"

urlpatterns = [
    path("v1/whoami", UserViewSet.as_view({"get": "whoami"}), name="whoami"),
    path("v1/user", UserViewSet.as_view({"get": "list", "post": "create"}), name="users"),
    path(_USER, UserViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}), name="user"),
    path(f"{_USER}/roles", UserViewSet.as_view({"get": "roles"}), name="user-roles"),
    path(f"{_USER}/roles/transitive", UserViewSet.as_view({"get": "transitive_roles"}), name="user-transitive-roles"),
    path("v1/search/user", UserViewSet.as_view({"post": "search"}), name="user-search"),
]
