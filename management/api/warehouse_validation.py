"""Validation of the storage of a new warehouse, of an update, and of the current profile; nothing is changed."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import KebabSerializer, Text, operation_responses
from icekeeper.kernel.ids import new_id
from management.api.base import ManagementView
from management.api.schema import (
    EXTENSIONS_HEADER,
    NO_WAREHOUSE,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    WAREHOUSE_ID,
    WITH_EXTENSIONS,
)
from management.api.warehouse_shapes import (
    CreateWarehouseRequest,
    UpdateStorageCredentialRequest,
    UpdateStorageRequest,
)
from management.api.warehouses import TAGS
from storage.models import Warehouse
from storage.services.warehouse_drafts import validate_new_warehouse
from storage.services.warehouse_storage import validate_access, validate_storage
from storage.validation.access import FINDINGS
from storage.validation.examination import CheckName, Status, ValidationCheck

RESULT_NOTE = "The status is always 200 for a well-formed request: see `valid` and the checks."


class CheckError(KebabSerializer):
    message = Text()
    type = Text(help_text="As the request itself would be refused with")
    code = serializers.IntegerField(help_text="Its HTTP status")
    stack = serializers.ListField(child=Text())


class CheckResponse(KebabSerializer):
    name = serializers.ChoiceField(
        list(CheckName),
        help_text="What is true when the check is passed. `remote-signing` is listed "
        f"{WITH_EXTENSIONS[0].lower()}{WITH_EXTENSIONS[1:]}; without it `vended-credentials-scope-enforced` shows what "
        "it found",
    )
    status = serializers.ChoiceField(list(Status))
    duration_ms = serializers.IntegerField(allow_null=True, required=False, help_text="Unless it was skipped")
    reason = Text(allow_null=True, required=False, help_text="Why it was skipped, or what it found")
    error = CheckError(allow_null=True, required=False, help_text="What it failed with")


class ValidationResponse(KebabSerializer):
    """Every check in the order in which they are made, whatever became of it."""

    valid = serializers.BooleanField(help_text="Whether no check failed; a skipped one proves nothing")
    checks = CheckResponse(many=True)


class WarehouseCreationValidationView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="validate_warehouse",
        tags=TAGS,
        summary="Validate the creation of a warehouse",
        description=f"Creates nothing. Needs the permission to create a warehouse. {RESULT_NOTE}",
        parameters=[PROJECT_HEADER, EXTENSIONS_HEADER],
        request=CreateWarehouseRequest,
        responses=operation_responses({200: ValidationResponse}, PROJECT_ERRORS),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateWarehouseRequest)
        checks = validate_new_warehouse(
            actor=self.actor,
            project=self.project(body.get("project_id")),
            name=body["warehouse_name"],
            storage_profile=body["storage_profile"],
            storage_credential=body.get("storage_credential"),
            delete_profile=body.get("delete_profile"),
            allowed_format_versions=body.get("allowed_format_versions"),
            default_format_version=body.get("default_format_version"),
            managed_by=body.get("managed_by") or Warehouse.ManagedBy.SELF_MANAGED,
        )
        return _report(checks, lists_all=self.wants_extensions())


class StorageValidationView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="validate_storage_profile",
        tags=TAGS,
        summary="Validate an update of the storage profile and credential",
        description=f"Changes nothing. Needs the permission to update them. {RESULT_NOTE}",
        parameters=[WAREHOUSE_ID, EXTENSIONS_HEADER],
        request=UpdateStorageRequest,
        responses=operation_responses({200: ValidationResponse}, {404: NO_WAREHOUSE}),
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateStorageRequest)
        checks = validate_storage(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            storage_profile=body["storage_profile"],
            storage_credential=body.get("storage_credential"),
        )
        return _report(checks, lists_all=self.wants_extensions())


class StorageCredentialValidationView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="validate_storage_credential",
        tags=TAGS,
        summary="Validate an update of the storage credential",
        description=f"Changes nothing. Needs the permission to update it. {RESULT_NOTE}",
        parameters=[WAREHOUSE_ID, EXTENSIONS_HEADER],
        request=UpdateStorageCredentialRequest,
        responses=operation_responses({200: ValidationResponse}, {404: NO_WAREHOUSE}),
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(UpdateStorageCredentialRequest)
        checks = validate_storage(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            storage_profile=None,
            storage_credential=body.get("new_storage_credential"),
        )
        return _report(checks, lists_all=self.wants_extensions())


class StorageAccessValidationView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="validate_storage_access",
        tags=TAGS,
        summary="Validate access with the current storage profile",
        description=f"Changes nothing. Needs the permission to update it. {RESULT_NOTE}",
        parameters=[WAREHOUSE_ID, EXTENSIONS_HEADER],
        request=None,
        responses=operation_responses({200: ValidationResponse}, {404: NO_WAREHOUSE}),
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        checks = validate_access(actor=self.actor, warehouse_id=self.warehouse_id)
        return _report(checks, lists_all=self.wants_extensions())


def _report(checks: list[ValidationCheck], *, lists_all: bool) -> Response:
    is_valid = all(check.status != Status.FAILED for check in checks)
    listed = [_json(check) for check in checks]
    return Response({"valid": is_valid, "checks": listed if lists_all else _as_lakekeeper_names(listed)})


def _as_lakekeeper_names(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without `remote-signing`, a name that Lakekeeper's clients do not know.

    That check is made where credentials are not vended, so the check of their scope, which is skipped there, shows
    what it found.
    """
    named = {check["name"]: check for check in checks}
    signing, scope = named.pop(CheckName.REMOTE_SIGNING), named[CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED]
    if signing["status"] == Status.FAILED:
        error = signing["error"] | {"message": f"{CheckName.REMOTE_SIGNING}: {signing['error']['message']}"}
        named[scope["name"]] = signing | {"name": scope["name"], "error": error}
    elif signing.get("reason") in FINDINGS:
        named[scope["name"]] = scope | {"reason": f"{scope['reason']} {signing['reason']}"}
    return list(named.values())


def _json(check: ValidationCheck) -> dict[str, Any]:
    answer: dict[str, Any] = {"name": check.name.value, "status": check.status.value}
    if check.milliseconds is not None:
        answer["duration-ms"] = check.milliseconds
    if check.reason is not None:
        answer["reason"] = check.reason
    if check.error is not None:
        answer["error"] = check.error.envelope(error_id=str(new_id()))["error"]
    return answer
