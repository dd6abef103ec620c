"""OpenAPI descriptions of the operations on warehouses and of the validation of their storage."""

from __future__ import annotations

from functools import partial
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
from management.api.schema import (
    BAD_PAGE,
    BAD_PROJECT,
    EXTENSIONS_HEADER,
    NO_PROJECT,
    NO_WAREHOUSE,
    PAGE,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    WAREHOUSE_ID,
    Operation,
    describe,
    operation,
)
from management.api.warehouse_objects.serializers import ProtectionResponse, SetProtectionRequest
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
from storage.documents import InvalidMember
from storage.models import Warehouse

_operation = partial(operation, tag="warehouse")
_INVALID_MEMBERS = ", ".join(f"`{wire_type}`" for wire_type in InvalidMember.wire_types.values())
_BAD_CREDENTIAL = f"`MissingCredentialError`, `SystemIdentityDisabled`, {_INVALID_MEMBERS}"
_BAD_STORAGE = f"`InvalidLocation`, `CreateWarehouseStorageProfileOverlap`, {_BAD_CREDENTIAL}"
_BAD_NAME = "`EmptyWarehouseName`, `WarehouseNameTooLong`"
_BAD_POLICY = "`EmptyAllowedFormatVersions`, `DefaultFormatVersionNotAllowed`"
_NO_SECRETS = "`SecretStoreNotConfigured`: the server has no secret store"
_MANAGED = "`WarehouseManaged`: only instance admins may change it"
_NAME_TAKEN = "`WarehouseAlreadyExists`"
_RESULT_NOTE = "The status is always 200 for a well-formed request: see `valid` and the checks."


def _update(
    operation_id: str,
    summary: str,
    *,
    request: Any = None,
    success: dict[int, Any] | None = None,
    errors: dict[int, str] | None = None,
) -> Operation:
    """Describe the update of one property of a warehouse."""
    return _operation(
        operation_id,
        summary,
        parameters=[WAREHOUSE_ID],
        request=request,
        success=success or {200: WarehouseResponse},
        errors={403: _MANAGED, 404: NO_WAREHOUSE} | (errors or {}),
    )


_validate = partial(
    _operation,
    parameters=[WAREHOUSE_ID, EXTENSIONS_HEADER],
    success={200: ValidationResponse},
    errors={404: NO_WAREHOUSE},
)

describe_warehouses = describe(
    list=_operation(
        "list_warehouses",
        "List the warehouses that are visible to the caller",
        description="In order of creation; all at once unless the request has `pageToken` or `pageSize`.",
        parameters=[
            PROJECT_HEADER,
            OpenApiParameter(
                "warehouseStatus",
                OpenApiTypes.STR,
                many=True,
                enum=Warehouse.Status.values,
                description="May be repeated; default: active",
            ),
            OpenApiParameter("projectId", OpenApiTypes.STR, deprecated=True, description="Comes before x-project-id"),
            *PAGE,
        ],
        success={200: WarehouseListResponse},
        errors={**PROJECT_ERRORS, 400: f"{BAD_PROJECT}, {BAD_PAGE}"},
    ),
    create=_operation(
        "create_warehouse",
        "Create a warehouse",
        description="The caller becomes its owner.",
        parameters=[PROJECT_HEADER],
        request=CreateWarehouseRequest,
        success={201: WarehouseResponse},
        errors={
            400: f"{BAD_PROJECT}, {_BAD_NAME}, {_BAD_POLICY}, {_BAD_STORAGE}",
            403: "`InstanceAdminRequired`: to create a managed warehouse",
            404: NO_PROJECT,
            409: _NAME_TAKEN,
            412: _NO_SECRETS,
            413: "`PayloadTooLargeException`",
            503: "`StorageUnavailableException`: the folder could not be created",
        },
    ),
    retrieve=_operation(
        "get_warehouse",
        "Get a warehouse",
        parameters=[WAREHOUSE_ID],
        success={200: WarehouseResponse},
        errors={404: NO_WAREHOUSE},
    ),
    destroy=_operation(
        "delete_warehouse",
        "Delete an empty warehouse and its credential",
        description="Its files are not deleted.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter(
                "force", OpenApiTypes.BOOL, default=False, description="Also when the warehouse is protected"
            ),
        ],
        success=empty_response("Deleted"),
        errors={
            403: _MANAGED,
            404: NO_WAREHOUSE,
            409: "`WarehouseNotEmpty`, `WarehouseHasUnfinishedTasks`, `WarehouseProtected`",
        },
    ),
    rename=_update(
        "rename_warehouse",
        "Update the name of an active warehouse",
        request=RenameWarehouseRequest,
        errors={400: _BAD_NAME, 404: f"{NO_WAREHOUSE}, `WarehouseNotActive`", 409: _NAME_TAKEN},
    ),
    activate=_update(
        "activate_warehouse", "Update a warehouse to be active", success=empty_response("Active", status=200)
    ),
    deactivate=_update(
        "deactivate_warehouse", "Update a warehouse to be inactive", success=empty_response("Inactive", status=200)
    ),
    update_delete_profile=_update(
        "update_warehouse_delete_profile", "Update the delete profile", request=UpdateDeleteProfileRequest
    ),
    update_format_version_policy=_update(
        "update_warehouse_format_version_policy",
        "Update the allowed format versions of tables",
        request=UpdateFormatVersionPolicyRequest,
        errors={400: _BAD_POLICY},
    ),
    update_protection=_update(
        "set_warehouse_protection",
        "Update the delete protection of a warehouse",
        request=SetProtectionRequest,
        success={200: ProtectionResponse},
    ),
    update_managed_by=_update(
        "set_warehouse_managed_by",
        "Update whether only instance admins may change a warehouse",
        request=SetManagedByRequest,
        errors={403: "`InstanceAdminRequired`"},
    ),
    update_storage=_update(
        "update_storage_profile",
        "Update the storage profile and the credential",
        request=UpdateStorageRequest,
        errors={400: f"{_BAD_STORAGE}, `UpdateError`, `IncompatibleProfiles`", 412: _NO_SECRETS},
    ),
    update_storage_credential=_update(
        "update_storage_credential",
        "Update or delete the storage credential",
        request=UpdateStorageCredentialRequest,
        errors={400: _BAD_CREDENTIAL, 412: _NO_SECRETS},
    ),
)

describe_storage_validation = describe(
    validate_creation=_validate(
        "validate_warehouse",
        "Validate the creation of a warehouse",
        description=f"Creates nothing. Needs the permission to create a warehouse. {_RESULT_NOTE}",
        parameters=[PROJECT_HEADER, EXTENSIONS_HEADER],
        request=CreateWarehouseRequest,
        errors=PROJECT_ERRORS,
    ),
    validate_profile=_validate(
        "validate_storage_profile",
        "Validate an update of the storage profile and credential",
        description=f"Changes nothing. Needs the permission to update them. {_RESULT_NOTE}",
        request=UpdateStorageRequest,
    ),
    validate_credential=_validate(
        "validate_storage_credential",
        "Validate an update of the storage credential",
        description=f"Changes nothing. Needs the permission to update it. {_RESULT_NOTE}",
        request=UpdateStorageCredentialRequest,
    ),
    validate_access=_validate(
        "validate_storage_access",
        "Validate access with the current storage profile",
        description=f"Changes nothing. Needs the permission to update it. {_RESULT_NOTE}",
        request=None,
    ),
)
