from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.services.delete_warehouse import delete_warehouse
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.base import ManagementView
from management.api.schema import BAD_PAGE, NO_WAREHOUSE, PAGE, PROJECT_ERRORS, PROJECT_HEADER, WAREHOUSE_ID
from management.api.warehouse_shapes import (
    CreateWarehouseRequest,
    WarehouseListResponse,
    WarehouseResponse,
    warehouse_json,
)
from storage.documents import InvalidMember
from storage.models import Warehouse
from storage.selectors.warehouses import get_warehouse_for, list_warehouses_for
from storage.services.warehouses import create_warehouse

TAGS = ["warehouse"]
LISTING = "warehouses"
INVALID_MEMBERS = ", ".join(f"`{wire_type}`" for wire_type in InvalidMember.wire_types.values())
BAD_CREDENTIAL = f"`MissingCredentialError`, `SystemIdentityDisabled`, {INVALID_MEMBERS}"
BAD_STORAGE = f"`InvalidLocation`, `CreateWarehouseStorageProfileOverlap`, {BAD_CREDENTIAL}"
BAD_NAME = "`EmptyWarehouseName`, `WarehouseNameTooLong`"
BAD_POLICY = "`EmptyAllowedFormatVersions`, `DefaultFormatVersionNotAllowed`"
NO_SECRETS = "`SecretStoreNotConfigured`: the server has no secret store"
MANAGED = "`WarehouseManaged`: only instance admins may change it"
NAME_TAKEN = "`WarehouseAlreadyExists`"


class WarehousesView(ManagementView):
    @extend_schema(
        operation_id="list_warehouses",
        tags=TAGS,
        summary="List the warehouses that are visible to the caller",
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
        responses=operation_responses(
            {200: WarehouseListResponse}, {**PROJECT_ERRORS, 400: f"{PROJECT_ERRORS[400]}, {BAD_PAGE}"}
        ),
    )
    def get(self, request: Request) -> Response:
        statuses = request.GET.getlist("warehouseStatus") or [Warehouse.Status.ACTIVE.value]
        unknown = sorted(set(statuses) - set(Warehouse.Status.values))
        if unknown:
            raise BadRequest(f"warehouseStatus: {unknown[0][:100]!r} is none of active, inactive")
        has_page = not {"pageToken", "pageSize"}.isdisjoint(request.GET)
        warehouses, next_token = list_warehouses_for(
            actor=self.actor,
            project=self.project(request.GET.get("projectId")),
            statuses=statuses,
            page=self.page(LISTING) if has_page else Page(LISTING, None, None),
        )
        listed: dict[str, Any] = {"warehouses": [warehouse_json(warehouse) for warehouse in warehouses]}
        return Response(listed if next_token is None else listed | {"next-page-token": next_token})

    @extend_schema(
        operation_id="create_warehouse",
        tags=TAGS,
        summary="Create a warehouse",
        description="The caller becomes its owner.",
        parameters=[PROJECT_HEADER],
        request=CreateWarehouseRequest,
        responses=operation_responses(
            {201: WarehouseResponse},
            {
                400: f"{PROJECT_ERRORS[400]}, {BAD_NAME}, {BAD_POLICY}, {BAD_STORAGE}",
                403: "`InstanceAdminRequired`: to create a managed warehouse",
                404: PROJECT_ERRORS[404],
                409: NAME_TAKEN,
                412: NO_SECRETS,
                413: "`PayloadTooLargeException`",
                503: "`StorageUnavailableException`: the folder could not be created",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateWarehouseRequest)
        warehouse = create_warehouse(
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
        return Response(warehouse_json(warehouse), status=201)


class WarehouseView(ManagementView):
    @extend_schema(
        operation_id="get_warehouse",
        tags=TAGS,
        summary="Get a warehouse",
        parameters=[WAREHOUSE_ID],
        responses=operation_responses({200: WarehouseResponse}, {404: NO_WAREHOUSE}),
    )
    def get(self, request: Request, warehouse_id: str) -> Response:
        warehouse = get_warehouse_for(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(warehouse_json(warehouse))

    @extend_schema(
        operation_id="delete_warehouse",
        tags=TAGS,
        summary="Delete an empty warehouse and its credential",
        description="Its files are not deleted.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter(
                "force", OpenApiTypes.BOOL, default=False, description="Also when the warehouse is protected"
            ),
        ],
        responses=operation_responses(
            empty_response("Deleted"),
            {
                403: MANAGED,
                404: NO_WAREHOUSE,
                409: "`WarehouseNotEmpty`, `WarehouseHasUnfinishedTasks`, `WarehouseProtected`",
            },
        ),
    )
    def delete(self, request: Request, warehouse_id: str) -> Response:
        delete_warehouse(actor=self.actor, warehouse_id=self.warehouse_id, force=self.flag("force"))
        return Response(status=204)
