"""Warehouses: their properties, status and storage, and the validation of their storage."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.services.delete_warehouse import delete_warehouse
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page
from management.api.base import ManagementViewSet
from management.api.warehouse_objects.serializers import ProtectionResponse, SetProtectionRequest
from management.api.warehouses.schema import describe_storage_validation, describe_warehouses
from management.api.warehouses.serializers import (
    CreateWarehouseRequest,
    RenameWarehouseRequest,
    SetManagedByRequest,
    UpdateDeleteProfileRequest,
    UpdateFormatVersionPolicyRequest,
    UpdateStorageCredentialRequest,
    UpdateStorageRequest,
    ValidationResponse,
    WarehouseListResponse,
    WarehouseResponse,
)
from storage.models import Warehouse
from storage.selectors import get_warehouse_for, list_warehouses_for
from storage.services.warehouse_changes import (
    activate_warehouse,
    deactivate_warehouse,
    rename_warehouse,
    set_delete_profile,
    set_format_version_policy,
    set_managed_by,
    set_warehouse_protection,
)
from storage.services.warehouse_storage import (
    update_storage,
    update_storage_credential,
    validate_access,
    validate_storage,
)
from storage.services.warehouses import create_warehouse, validate_new_warehouse
from storage.validation.access import FINDINGS
from storage.validation.checks import CheckName, Status, ValidationCheck
from tenancy.authz.actions import Can

_LISTING = "warehouses"


def _new_warehouse(view: ManagementViewSet) -> dict[str, Any]:
    """Return the arguments of `create_warehouse` and of its validation."""
    body = view.body(CreateWarehouseRequest)
    return {
        "actor": view.actor,
        "project": view.project(body.get("project_id")),
        "name": body["warehouse_name"],
        "storage_profile": body["storage_profile"],
        "storage_credential": body.get("storage_credential"),
        "delete_profile": body.get("delete_profile"),
        "allowed_format_versions": body.get("allowed_format_versions"),
        "default_format_version": body.get("default_format_version"),
        "managed_by": body.get("managed_by") or Warehouse.ManagedBy.SELF_MANAGED,
    }


@describe_warehouses
class WarehouseViewSet(ManagementViewSet):
    def list(self, request: Request) -> Response:
        statuses = request.GET.getlist("warehouseStatus") or [Warehouse.Status.ACTIVE.value]
        unknown = sorted(set(statuses) - set(Warehouse.Status.values))
        if unknown:
            raise BadRequest(f"warehouseStatus: {unknown[0][:100]!r} is none of active, inactive")
        has_page = not {"pageToken", "pageSize"}.isdisjoint(request.GET)
        found = list_warehouses_for(
            actor=self.actor,
            project=self.project_of_query,
            statuses=statuses,
            page=self.page(_LISTING) if has_page else Page(_LISTING, None, None),
        )
        return self.respond_page(WarehouseListResponse, "warehouses", found)

    def create(self, request: Request) -> Response:
        return self.respond(WarehouseResponse, create_warehouse(**_new_warehouse(self)), status=201)

    def retrieve(self, request: Request, **path: str) -> Response:
        return self.respond(
            WarehouseResponse,
            get_warehouse_for(actor=self.actor, action=Can.GET_METADATA, warehouse_id=self.warehouse_id),
        )

    def destroy(self, request: Request, **path: str) -> Response:
        delete_warehouse(actor=self.actor, warehouse_id=self.warehouse_id, force=self.flag("force"))
        return Response(status=204)

    def rename(self, request: Request, **path: str) -> Response:
        new_name = self.body(RenameWarehouseRequest)["new_name"]
        changed = rename_warehouse(actor=self.actor, warehouse_id=self.warehouse_id, new_name=new_name)
        return self.respond(WarehouseResponse, changed)

    def activate(self, request: Request, **path: str) -> Response:
        activate_warehouse(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(status=200)

    def deactivate(self, request: Request, **path: str) -> Response:
        deactivate_warehouse(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(status=200)

    def update_delete_profile(self, request: Request, **path: str) -> Response:
        profile = self.body(UpdateDeleteProfileRequest)["delete_profile"]
        changed = set_delete_profile(actor=self.actor, warehouse_id=self.warehouse_id, delete_profile=profile)
        return self.respond(WarehouseResponse, changed)

    def update_format_version_policy(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateFormatVersionPolicyRequest)
        changed = set_format_version_policy(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            allowed=body["allowed_format_versions"],
            default=body.get("default_format_version"),
        )
        return self.respond(WarehouseResponse, changed)

    def update_protection(self, request: Request, **path: str) -> Response:
        is_protected = self.body(SetProtectionRequest)["protected"]
        changed = set_warehouse_protection(actor=self.actor, warehouse_id=self.warehouse_id, is_protected=is_protected)
        return Response(ProtectionResponse(changed).data)

    def update_managed_by(self, request: Request, **path: str) -> Response:
        managed_by = self.body(SetManagedByRequest)["managed_by"]
        changed = set_managed_by(actor=self.actor, warehouse_id=self.warehouse_id, managed_by=managed_by)
        return self.respond(WarehouseResponse, changed)

    def update_storage(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateStorageRequest)
        changed = update_storage(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            storage_profile=body["storage_profile"],
            storage_credential=body.get("storage_credential"),
        )
        return self.respond(WarehouseResponse, changed)

    def update_storage_credential(self, request: Request, **path: str) -> Response:
        credential = self.body(UpdateStorageCredentialRequest).get("new_storage_credential")
        changed = update_storage_credential(
            actor=self.actor, warehouse_id=self.warehouse_id, storage_credential=credential
        )
        return self.respond(WarehouseResponse, changed)


@describe_storage_validation
class StorageValidationViewSet(ManagementViewSet):
    reading_actions = {"validate_creation", "validate_profile", "validate_credential", "validate_access"}

    def validate_creation(self, request: Request) -> Response:
        return self._report(validate_new_warehouse(**_new_warehouse(self)))

    def validate_profile(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateStorageRequest)
        return self._report(self._validate_storage(body["storage_profile"], body.get("storage_credential")))

    def validate_credential(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateStorageCredentialRequest)
        return self._report(self._validate_storage(None, body.get("new_storage_credential")))

    def validate_access(self, request: Request, **path: str) -> Response:
        return self._report(validate_access(actor=self.actor, warehouse_id=self.warehouse_id))

    def _validate_storage(self, profile: dict[str, Any] | None, credential: Any) -> list[ValidationCheck]:
        return validate_storage(
            actor=self.actor, warehouse_id=self.warehouse_id, storage_profile=profile, storage_credential=credential
        )

    def _report(self, checks: list[ValidationCheck]) -> Response:
        is_valid = all(check.status != Status.FAILED for check in checks)
        listed = list(ValidationResponse({"valid": is_valid, "checks": checks}).data["checks"])
        shown = listed if self.wants_extensions() else _as_lakekeeper_names(listed)
        return Response({"valid": is_valid, "checks": shown})


def _as_lakekeeper_names(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove `remote-signing`, a name that Lakekeeper's clients do not know.

    That check runs where credentials are not vended, so the check of their scope, which is skipped there, gets its
    result.
    """
    named = {check["name"]: check for check in checks}
    signing, scope = named.pop(CheckName.REMOTE_SIGNING), named[CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED]
    if signing["status"] == Status.FAILED:
        error = signing["error"] | {"message": f"{CheckName.REMOTE_SIGNING}: {signing['error']['message']}"}
        named[scope["name"]] = signing | {"name": scope["name"], "error": error}
    elif signing.get("reason") in FINDINGS:
        named[scope["name"]] = scope | {"reason": f"{scope['reason']} {signing['reason']}"}
    return [*named.values()]
