from __future__ import annotations

from django.urls import path

from management.api.base import WAREHOUSE_PATH
from management.api.warehouses.views import StorageValidationViewSet, WarehouseViewSet

_UPDATES = {
    "rename": ("rename", "rename-warehouse"),
    "activate": ("activate", "activate-warehouse"),
    "deactivate": ("deactivate", "deactivate-warehouse"),
    "delete-profile": ("update_delete_profile", "warehouse-delete-profile"),
    "format-version-policy": ("update_format_version_policy", "warehouse-formats"),
    "protection": ("update_protection", "warehouse-protection"),
    "managed-by": ("update_managed_by", "warehouse-managed-by"),
    "storage": ("update_storage", "warehouse-storage"),
    "storage-credential": ("update_storage_credential", "warehouse-credential"),
}
"""Actions and names of the routes below a warehouse that update a property of it."""

_VALIDATIONS = {
    "validate-profile": ("validate_profile", "validate-storage"),
    "validate-credential": ("validate_credential", "validate-credential"),
    "validate-access": ("validate_access", "validate-access"),
}

urlpatterns = [
    path("v1/warehouse", WarehouseViewSet.as_view({"get": "list", "post": "create"}), name="warehouses"),
    path(WAREHOUSE_PATH, WarehouseViewSet.as_view({"get": "retrieve", "delete": "destroy"}), name="warehouse"),
    *(
        path(f"{WAREHOUSE_PATH}/{segment}", WarehouseViewSet.as_view({"post": action}), name=name)
        for segment, (action, name) in _UPDATES.items()
    ),
    path(
        "v1/warehouse-creation-validation",
        StorageValidationViewSet.as_view({"post": "validate_creation"}),
        name="validate-warehouse",
    ),
    *(
        path(f"{WAREHOUSE_PATH}/storage/{segment}", StorageValidationViewSet.as_view({"post": action}), name=name)
        for segment, (action, name) in _VALIDATIONS.items()
    ),
]
