from __future__ import annotations

from django.urls import path

from management.api.namespaces.views import NamespaceMoveViewSet

urlpatterns = [
    path(
        "v1/warehouse/<str:warehouse_id>/namespace/<str:namespace_id>/move",
        NamespaceMoveViewSet.as_view({"post": "move"}),
        name="namespace-move",
    ),
]
