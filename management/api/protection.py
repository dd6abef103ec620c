"""Protection of namespaces, tables, views and generic tables; each type has its own route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.errors import no_such_object
from catalog.selectors.protection import Protection, get_protection_for
from catalog.services.set_protection import set_protection
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import Flag, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView
from management.api.schema import NO_WAREHOUSE, WAREHOUSE_ID
from management.api.serializers import ResponseSerializer
from storage.models import Warehouse
from tenancy.models import Securable

TAGS = ["warehouse"]
MISSING = {
    "namespace": "`NoSuchNamespaceException`",
    "table": "`NoSuchTableException`",
    "view": "`NoSuchViewException`",
    "generic-table": "`NoSuchGenericTableException`",
}


class SetProtectionRequest(serializers.Serializer[Any]):
    protected = Flag(help_text="Whether dropping it needs `force`")


class ProtectionResponse(ResponseSerializer):
    has_kebab_keys = False
    protected = serializers.BooleanField()
    updated_at = serializers.DateTimeField()

    def render_protected(self, found: Protection | Warehouse) -> bool:
        return found.protected if isinstance(found, Warehouse) else found.is_protected


def described(kind: str) -> Callable[[type[ProtectionView]], type[ProtectionView]]:
    """Describe the operations on the protection of `kind`."""
    thing, noun = kind.replace("-", "_"), kind.replace("-", " ")
    parameters = [
        WAREHOUSE_ID,
        OpenApiParameter("object_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id"),
    ]
    responses = operation_responses({200: ProtectionResponse}, {404: f"{MISSING[kind]}, {NO_WAREHOUSE}"})
    return extend_schema_view(
        get=extend_schema(
            operation_id=f"get_{thing}_protection",
            tags=TAGS,
            summary=f"Get the drop protection of a {noun}",
            parameters=parameters,
            responses=responses,
        ),
        post=extend_schema(
            operation_id=f"set_{thing}_protection",
            tags=TAGS,
            summary=f"Update the drop protection of a {noun}",
            parameters=parameters,
            request=SetProtectionRequest,
            responses=responses,
        ),
    )


class ProtectionView(ManagementView):
    kind: ClassVar[Securable.Type]

    def get(self, request: Request, warehouse_id: str, object_id: str) -> Response:
        return _answer(get_protection_for(actor=self.actor, **self._addressed(object_id)))

    def post(self, request: Request, warehouse_id: str, object_id: str) -> Response:
        body = self.body(SetProtectionRequest)
        return _answer(
            set_protection(
                actor=self.actor,
                is_protected=body["protected"],
                **self._addressed(object_id),
            )
        )

    def _addressed(self, object_id: str) -> dict[str, Any]:
        text = decode_segment(object_id)
        parsed = parse_id(text)
        if parsed is None:
            raise no_such_object(self.kind.value, text[:100])
        return {"warehouse_id": self.warehouse_id, "kind": self.kind, "object_id": parsed}


@described("namespace")
class NamespaceProtectionView(ProtectionView):
    kind = Securable.Type.NAMESPACE


@described("table")
class TableProtectionView(ProtectionView):
    kind = Securable.Type.TABLE


@described("view")
class ViewProtectionView(ProtectionView):
    kind = Securable.Type.VIEW


@described("generic-table")
class GenericTableProtectionView(ProtectionView):
    kind = Securable.Type.GENERIC_TABLE


def _answer(protection: Protection) -> Response:
    return Response(ProtectionResponse(protection).data)
