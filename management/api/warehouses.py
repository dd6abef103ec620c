from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from catalog.services.warehouses import delete_warehouse
from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers, done
from icekeeper.kernel.errors import BadRequest, NoSuchWarehouse
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.raw_path import decode_segment
from management.api.projects import PROJECT_HEADER, PROJECT_REFUSALS, header_project_id
from storage.models import Warehouse
from storage.selectors.warehouses import get_warehouse_for, list_warehouses_for
from storage.services.warehouses import create_warehouse
from tenancy.authn.requests import actor_of
from tenancy.selectors.projects import get_project

TAGS = ["warehouse"]
WAREHOUSE_ID = OpenApiParameter(
    "warehouse_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="Its `id`; the catalog calls it `prefix`"
)
NO_WAREHOUSE = "`NoSuchWarehouseException`"


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


class WarehousesView(APIView):
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
        project = get_project(request.GET.get("projectId") or header_project_id(request))
        warehouses = list_warehouses_for(actor=actor_of(request), project=project, statuses=statuses)
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
        serializer = CreateWarehouseRequest(data=request.data)
        serializer.is_valid(raise_exception=True)
        body = serializer.validated_data
        warehouse = create_warehouse(
            actor=actor_of(request),
            project=get_project(body.get("project_id") or header_project_id(request)),
            name=body["warehouse_name"],
            storage_profile=body["storage_profile"],
            storage_credential=body.get("storage_credential"),
            delete_profile=body.get("delete_profile"),
            allowed_format_versions=body.get("allowed_format_versions"),
            default_format_version=body.get("default_format_version"),
        )
        return Response(warehouse_json(warehouse), status=201)


class WarehouseView(APIView):
    @extend_schema(
        operation_id="get_warehouse",
        tags=TAGS,
        summary="One warehouse",
        parameters=[WAREHOUSE_ID],
        responses=answers({200: WarehouseResponse}, {404: NO_WAREHOUSE}),
    )
    def get(self, request: Request, warehouse_id: str) -> Response:
        warehouse = get_warehouse_for(actor=actor_of(request), warehouse_id=read_warehouse_id(warehouse_id))
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
        force = request.GET.get("force", "false").lower()
        if force not in {"true", "false"}:
            raise BadRequest("force: must be true or false")
        delete_warehouse(actor=actor_of(request), warehouse_id=read_warehouse_id(warehouse_id), force=force == "true")
        return Response(status=204)


def read_warehouse_id(segment: str) -> UUID:
    text = decode_segment(segment)
    warehouse_id = parse_id(text)
    if warehouse_id is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {text[:100]}")
    return warehouse_id
