"""Requests and responses about namespaces."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers

from icekeeper.kernel.http.serializers import Flag, Text
from management.api.serializers import ResponseSerializer, StrictSerializer


class MoveNamespaceRequest(StrictSerializer):
    """Unknown members are an error, so that no condition of a client is ignored."""

    destination = serializers.ListField(
        child=Text(),
        help_text="All levels of the new path: the last one is the new name, those before it are the new parent, "
        "which must exist. A single level moves it to the top",
    )
    force = Flag(required=False, allow_null=True, help_text="Also when it or a child namespace is protected")


class MoveNamespaceRequestSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Excludes additional properties in the OpenAPI document."""

    target_class = MoveNamespaceRequest

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001
        return {**schema, "additionalProperties": False}


class MoveNamespaceResponse(ResponseSerializer):
    namespace = serializers.ListField(
        source="levels", child=Text(), help_text="The new path, with its parents as they are spelled"
    )
    namespace_id = serializers.UUIDField(source="pk", help_text="Unchanged")
    parent_namespace_id = serializers.UUIDField(source="parent_id", allow_null=True, help_text="Null at the top level")
