"""Routes of `/management`."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include(f"management.api.{resource}.urls"))
    for resource in (
        "grants",  # the first three come before routes with a variable in the same segment
        "permissions",
        "access_reviews",
        "server",
        "projects",
        "users",
        "roles",
        "tokens",
        "warehouses",
        "warehouse_objects",
        "tasks",
        "tags",
        "change_rules",
        "audit",
        "events",
        "event_sinks",
        "statistics",
    )
]
