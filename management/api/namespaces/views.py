"""Namespaces: moves to another name or parent."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.services.namespaces.move import move_namespace
from management.api.base import ObjectViewSet
from management.api.namespaces.schema import describe_namespaces
from management.api.namespaces.serializers import MoveNamespaceRequest, MoveNamespaceResponse
from tenancy.models import Securable


@describe_namespaces
class NamespaceMoveViewSet(ObjectViewSet):
    securable_type = Securable.Type.NAMESPACE

    def move(self, request: Request, **path: str) -> Response:
        namespace_id = self.object_id
        body = self.body(MoveNamespaceRequest)
        moved = move_namespace(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            namespace_id=namespace_id,
            destination=body["destination"],
            force=bool(body.get("force")),
        )
        return self.respond(MoveNamespaceResponse, moved)
