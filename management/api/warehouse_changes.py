"""Updates of a warehouse; each property has its own route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import KebabSerializer, empty_response, operation_responses
from management.api.base import ManagementView
from management.api.protection import ProtectionResponse, SetProtectionRequest
from management.api.schema import NO_WAREHOUSE, WAREHOUSE_ID
from management.api.warehouse_shapes import (
    RenameWarehouseRequest,
    SetManagedByRequest,
    UpdateDeleteProfileRequest,
    UpdateFormatVersionPolicyRequest,
    UpdateStorageCredentialRequest,
    UpdateStorageRequest,
    WarehouseResponse,
    warehouse_json,
)
from management.api.warehouses import (
    BAD_CREDENTIAL,
    BAD_NAME,
    BAD_POLICY,
    BAD_STORAGE,
    MANAGED,
    NAME_TAKEN,
    NO_SECRETS,
    TAGS,
)
from storage.services.warehouse_changes import (
    activate_warehouse,
    deactivate_warehouse,
    rename_warehouse,
    set_delete_profile,
    set_format_version_policy,
    set_managed_by,
    set_warehouse_protection,
)
from storage.services.warehouse_storage import update_storage, update_storage_credential

Method = Callable[..., Response]


def described(
    operation_id: str,
    summary: str,
    *,
    request: type[KebabSerializer] | Any = None,
    success: dict[int, Any] | None = None,
    refusals: dict[int, str] | None = None,
) -> Callable[[Method], Method]:
    """Describe an update in the OpenAPI document."""
    every = {403: MANAGED, 404: NO_WAREHOUSE}
    decorate: Callable[[Method], Method] = extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        parameters=[WAREHOUSE_ID],
        request=request,
        responses=operation_responses(success or {200: WarehouseResponse}, every | (refusals or {})),
    )
    return decorate


class RenameWarehouseView(ManagementView):
    @described(
        "rename_warehouse",
        "Update the name of an active warehouse",
        request=RenameWarehouseRequest,
        refusals={400: BAD_NAME, 404: f"{NO_WAREHOUSE}, `WarehouseNotActive`", 409: NAME_TAKEN},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(RenameWarehouseRequest)
        changed = rename_warehouse(actor=self.actor, warehouse_id=self.warehouse_id, new_name=body["new_name"])
        return Response(warehouse_json(changed))


class ActivateWarehouseView(ManagementView):
    @described("activate_warehouse", "Update a warehouse to be active", success=empty_response("Active", status=200))
    def post(self, request: Request, warehouse_id: str) -> Response:
        activate_warehouse(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(status=200)


class DeactivateWarehouseView(ManagementView):
    @described(
        "deactivate_warehouse", "Update a warehouse to be inactive", success=empty_response("Inactive", status=200)
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        deactivate_warehouse(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(status=200)


class WarehouseDeleteProfileView(ManagementView):
    @described("update_warehouse_delete_profile", "Update the delete profile", request=UpdateDeleteProfileRequest)
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateDeleteProfileRequest)
        changed = set_delete_profile(
            actor=self.actor, warehouse_id=self.warehouse_id, delete_profile=body["delete_profile"]
        )
        return Response(warehouse_json(changed))


class WarehouseFormatVersionPolicyView(ManagementView):
    @described(
        "update_warehouse_format_version_policy",
        "Update the allowed format versions of tables",
        request=UpdateFormatVersionPolicyRequest,
        refusals={400: BAD_POLICY},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateFormatVersionPolicyRequest)
        changed = set_format_version_policy(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            allowed=body["allowed_format_versions"],
            default=body.get("default_format_version"),
        )
        return Response(warehouse_json(changed))


class WarehouseProtectionView(ManagementView):
    @described(
        "set_warehouse_protection",
        "Update the delete protection of a warehouse",
        request=SetProtectionRequest,
        success={200: ProtectionResponse},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(SetProtectionRequest)
        changed = set_warehouse_protection(
            actor=self.actor, warehouse_id=self.warehouse_id, is_protected=body["protected"]
        )
        return Response({"protected": changed.protected, "updated_at": changed.updated_at})


class WarehouseManagedByView(ManagementView):
    @described(
        "set_warehouse_managed_by",
        "Update whether only instance admins may change a warehouse",
        request=SetManagedByRequest,
        refusals={403: "`InstanceAdminRequired`"},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(SetManagedByRequest)
        changed = set_managed_by(actor=self.actor, warehouse_id=self.warehouse_id, managed_by=body["managed_by"])
        return Response(warehouse_json(changed))


class WarehouseStorageView(ManagementView):
    @described(
        "update_storage_profile",
        "Update the storage profile and the credential",
        request=UpdateStorageRequest,
        refusals={400: f"{BAD_STORAGE}, `UpdateError`, `IncompatibleProfiles`", 412: NO_SECRETS},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateStorageRequest)
        changed = update_storage(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            storage_profile=body["storage_profile"],
            storage_credential=body.get("storage_credential"),
        )
        return Response(warehouse_json(changed))


class WarehouseStorageCredentialView(ManagementView):
    @described(
        "update_storage_credential",
        "Update or delete the storage credential",
        request=UpdateStorageCredentialRequest,
        refusals={400: BAD_CREDENTIAL, 412: NO_SECRETS},
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateStorageCredentialRequest)
        changed = update_storage_credential(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            storage_credential=body.get("new_storage_credential"),
        )
        return Response(warehouse_json(changed))
