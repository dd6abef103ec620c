from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.services.warehouses import delete_warehouse
from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers, done
from icekeeper.kernel.errors import BadRequest
from management.api.base import NO_WAREHOUSE, PROJECT_HEADER, PROJECT_REFUSALS, WAREHOUSE_ID, ManagementView
from storage.models import Warehouse
from storage.selectors.warehouses import get_warehouse_for, list_warehouses_for
from storage.services.warehouses import create_warehouse

TAGS = ["warehouse"]


class LocalStorageProfile(KebabSerializer):
    """A folder of the server's machine, below `ICEKEEPER__LOCAL_STORAGE_ROOT`."""

    type = serializers.ChoiceField(["local"])
    path = Text(help_text="Absolute path of the folder")
    allow_non_empty_locations = serializers.BooleanField(
        default=False, help_text="Let a new table be put at a location that holds files already"
    )
    verify_metadata_on_load = serializers.BooleanField(
        default=True, help_text="Answer 404 when the metadata file of a table is gone, instead of serving what it said"
    )


class DeleteProfile(KebabSerializer):
    """What a drop does: `hard` forgets a table at once, `soft` keeps it for some time, hidden."""

    type = serializers.ChoiceField(["hard", "soft"])
    expiration_seconds = serializers.IntegerField(
        required=False, min_value=0, help_text="`soft` only, and required there: how long a dropped table is kept"
    )


@extend_schema_field(LocalStorageProfile)
class StorageProfileField(serializers.DictField):
    """Read by the storage room, which knows the types."""


@extend_schema_field(DeleteProfile)
class DeleteProfileField(serializers.DictField):
    """Read by the storage room."""


class CreateWarehouseRequest(KebabSerializer):
    warehouse_name = Text(help_text="Unique in the project; no slash")
    storage_profile = StorageProfileField()
    storage_credential = serializers.DictField(
        required=False, allow_null=True, allow_empty=False, help_text="A local warehouse takes none"
    )
    delete_profile = DeleteProfileField(required=False, allow_null=True)
    allowed_format_versions = serializers.ListField(child=serializers.IntegerField(), required=False, allow_null=True)
    default_format_version = serializers.IntegerField(required=False, allow_null=True)
    project_id = Text(required=False, allow_null=True, help_text="Or x-project-id")


class WarehouseResponse(KebabSerializer):
    id = serializers.UUIDField()
    warehouse_id = serializers.UUIDField()
    name = Text()
    project_id = Text()
    status = serializers.ChoiceField(Warehouse.Status.values)
    protected = serializers.BooleanField()
    managed_by = Text()
    storage_profile = LocalStorageProfile()
    delete_profile = DeleteProfile()
    allowed_format_versions = serializers.ListField(child=serializers.IntegerField())
    default_format_version = serializers.IntegerField(allow_null=True)
    updated_at = serializers.DateTimeField()


class WarehouseListResponse(KebabSerializer):
    warehouses = WarehouseResponse(many=True)


def warehouse_json(warehouse: Warehouse) -> dict[str, Any]:
    return {
        "id": str(warehouse.pk),
        "warehouse-id": str(warehouse.pk),
        "name": warehouse.name,
        "project-id": warehouse.project_id,
        "status": warehouse.status,
        "protected": warehouse.protected,
        "managed-by": "self-managed",
        "storage-profile": warehouse.storage_profile,
        "delete-profile": warehouse.delete_profile,
        "allowed-format-versions": warehouse.allowed_format_versions,
        "default-format-version": warehouse.default_format_version,
        "updated-at": warehouse.updated_at,
    }


class WarehousesView(ManagementView):
    @extend_schema(
        operation_id="list_warehouses",
        tags=TAGS,
        summary="The warehouses of a project",
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
        ],
        responses=answers({200: WarehouseListResponse}, PROJECT_REFUSALS),
    )
    def get(self, request: Request) -> Response:
        statuses = request.GET.getlist("warehouseStatus") or [Warehouse.Status.ACTIVE.value]
        unknown = sorted(set(statuses) - set(Warehouse.Status.values))
        if unknown:
            raise BadRequest(f"warehouseStatus: {unknown[0][:100]!r} is none of active, inactive")
        project = self.project(request.GET.get("projectId"))
        warehouses = list_warehouses_for(actor=self.actor, project=project, statuses=statuses)
        return Response({"warehouses": [warehouse_json(warehouse) for warehouse in warehouses]})

    @extend_schema(
        operation_id="create_warehouse",
        tags=TAGS,
        summary="Make a warehouse",
        parameters=[PROJECT_HEADER],
        request=CreateWarehouseRequest,
        responses=answers(
            {201: WarehouseResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, `InvalidLocation`, `CreateWarehouseStorageProfileOverlap`",
                404: PROJECT_REFUSALS[404],
                409: "`WarehouseAlreadyExists`",
                413: "`PayloadTooLargeException`",
                503: "`StorageUnavailableException`: the folder could not be made",
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
        )
        return Response(warehouse_json(warehouse), status=201)


class WarehouseView(ManagementView):
    @extend_schema(
        operation_id="get_warehouse",
        tags=TAGS,
        summary="One warehouse",
        parameters=[WAREHOUSE_ID],
        responses=answers({200: WarehouseResponse}, {404: NO_WAREHOUSE}),
    )
    def get(self, request: Request, warehouse_id: str) -> Response:
        warehouse = get_warehouse_for(actor=self.actor, warehouse_id=self.warehouse_id)
        return Response(warehouse_json(warehouse))

    @extend_schema(
        operation_id="delete_warehouse",
        tags=TAGS,
        summary="Forget an empty warehouse; its files stay",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter("force", OpenApiTypes.BOOL, default=False, description="Also when it is protected"),
        ],
        responses=answers(
            done("Deleted"),
            {404: NO_WAREHOUSE, 409: "`WarehouseNotEmpty`, `WarehouseHasUnfinishedTasks`, `WarehouseProtected`"},
        ),
    )
    def delete(self, request: Request, warehouse_id: str) -> Response:
        delete_warehouse(actor=self.actor, warehouse_id=self.warehouse_id, force=self.flag("force"))
        return Response(status=204)
