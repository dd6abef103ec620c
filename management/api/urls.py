"""Routes of `/management`."""

from __future__ import annotations

from django.urls import include, path

from management.api.rights_urls import RIGHTS_ROUTES

urlpatterns = [
    *RIGHTS_ROUTES,  # before what takes any text in their places
    *(
        path("", include(f"management.api.{resource}.urls"))
        for resource in (
            "grants",  # before routes with any text in their place
            "access_reviews",
            "server",
            "projects",
            "users",
            "roles",
            "tokens",
            "warehouses",
            "namespaces",
            "tabulars",
            "tags",
            "audit",
            "statistics",
            "explanations",
        )
    ),
    path("v1/permissions/", include("management.api.permission_urls")),
]
