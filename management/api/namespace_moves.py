from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.errors import no_such_object
from catalog.services.namespaces.move import move_namespace
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView
from management.api.protection import MISSING
from management.api.schema import NO_WAREHOUSE, WAREHOUSE_ID
from management.api.warehouses.schema import TAGS


class MoveNamespaceRequest(KebabSerializer):
    """Other members than these are refused, so that no condition that a client names is passed over."""

    destination = serializers.ListField(
        child=Text(),
        help_text="All levels of the new path: the last one is the new name, those before it are the new parent, "
        "which must be there. A single one moves it to the first level",
    )
    force = Flag(required=False, allow_null=True, help_text="Also when it is protected, or a namespace in it is")

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError({unknown[0][:100]: ["There is no such member."]})
        return super().to_internal_value(data)


class MoveNamespaceRequestSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Says in the document that it is closed."""

    target_class = MoveNamespaceRequest

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001
        return {**schema, "additionalProperties": False}


class MoveNamespaceResponse(KebabSerializer):
    namespace = serializers.ListField(
        child=Text(), help_text="Its new path; the levels above as they are spelled there"
    )
    namespace_id = serializers.UUIDField(help_text="As before")
    parent_namespace_id = serializers.UUIDField(allow_null=True, help_text="Null on the first level")


class NamespaceMoveView(ManagementView):
    @extend_schema(
        operation_id="move_namespace",
        tags=TAGS,
        summary="Update the name or parent of a namespace",
        description="Its tables, views, generic tables and child namespaces move with it. Ids, properties, locations "
        "and files do not change. A move to the current path changes nothing.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter(
                "namespace_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The namespace's id"
            ),
        ],
        request=MoveNamespaceRequest,
        responses=operation_responses(
            {200: MoveNamespaceResponse},
            {
                400: "`NamespaceEmpty`, `NamespaceDepthExceeded`, `ReservedNamespace`, `NamespaceCannotMoveIntoSelf`; "
                "`StorageLayoutForbidsNamespaceMove`: the warehouse keeps each namespace in a folder that says where "
                "it is",
                404: f"{NO_WAREHOUSE}; {MISSING['namespace']}: the namespace, or its new parent",
                409: "`AlreadyExistsException`; `NamespaceProtected`, `ChildNamespaceProtected`: not without `force`",
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request, warehouse_id: str, namespace_id: str) -> Response:
        text = decode_segment(namespace_id)
        parsed = parse_id(text)
        if parsed is None:
            raise no_such_object("namespace", text[:100])
        body = self.body(MoveNamespaceRequest)
        moved = move_namespace(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            namespace_id=parsed,
            destination=body["destination"],
            force=bool(body.get("force")),
        )
        return Response(
            {
                "namespace": list(moved.levels),
                "namespace-id": str(moved.pk),
                "parent-namespace-id": None if moved.parent_id is None else str(moved.parent_id),
            }
        )
