from __future__ import annotations

from django.urls import path

from management.api.base import WAREHOUSE_PATH
from management.api.warehouse_objects.views import NamespaceMoveViewSet, ProtectionViewSet, WarehouseTabularViewSet
from tenancy.models import Securable

_PROTECTED = {
    Securable.Type.NAMESPACE: "namespace-protection",
    Securable.Type.TABLE: "table-protection",
    Securable.Type.VIEW: "view-protection",
    Securable.Type.GENERIC_TABLE: "generic-protection",
}
"""Types of objects whose protection has a route of this form, with the route's name."""

urlpatterns = [
    path(
        f"{WAREHOUSE_PATH}/deleted-tabulars",
        WarehouseTabularViewSet.as_view({"get": "list_deleted"}),
        name="deleted-tabulars",
    ),
    path(
        f"{WAREHOUSE_PATH}/deleted-tabulars/undrop", WarehouseTabularViewSet.as_view({"post": "undrop"}), name="undrop"
    ),
    path(
        f"{WAREHOUSE_PATH}/search-tabular", WarehouseTabularViewSet.as_view({"post": "search"}), name="search-tabular"
    ),
    path(
        f"{WAREHOUSE_PATH}/namespace/<str:namespace_id>/move",
        NamespaceMoveViewSet.as_view({"post": "move"}),
        name="namespace-move",
    ),
    *(
        path(
            f"{WAREHOUSE_PATH}/{securable_type.value}/<str:object_id>/protection",
            ProtectionViewSet.as_view({"get": "retrieve", "post": "update"}, securable_type=securable_type),
            name=name,
        )
        for securable_type, name in _PROTECTED.items()
    ),
]
