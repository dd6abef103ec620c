from __future__ import annotations

from django.urls import path

from management.api.tabulars.views import ProtectionViewSet, WarehouseTabularViewSet
from tenancy.models import Securable

_WAREHOUSE = "v1/warehouse/<str:warehouse_id>"
_PROTECTED = {
    Securable.Type.NAMESPACE: "namespace-protection",
    Securable.Type.TABLE: "table-protection",
    Securable.Type.VIEW: "view-protection",
    Securable.Type.GENERIC_TABLE: "generic-protection",
}
"""Types of objects whose protection has a route of this form, with the route's name."""

urlpatterns = [
    path(
        f"{_WAREHOUSE}/deleted-tabulars",
        WarehouseTabularViewSet.as_view({"get": "list_deleted"}),
        name="deleted-tabulars",
    ),
    path(f"{_WAREHOUSE}/deleted-tabulars/undrop", WarehouseTabularViewSet.as_view({"post": "undrop"}), name="undrop"),
    path(f"{_WAREHOUSE}/search-tabular", WarehouseTabularViewSet.as_view({"post": "search"}), name="search-tabular"),
    *(
        path(
            f"{_WAREHOUSE}/{securable_type.value}/<str:object_id>/protection",
            ProtectionViewSet.as_view({"get": "retrieve", "post": "update"}, securable_type=securable_type),
            name=name,
        )
        for securable_type, name in _PROTECTED.items()
    ),
]
