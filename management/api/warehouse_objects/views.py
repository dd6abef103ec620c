"""Namespaces, tables, views and generic tables of a warehouse: search, dropped ones, moves and protection."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tabular
from catalog.selectors.tables.deleted import list_deleted_tabulars_for
from catalog.selectors.tables.search import Wanted, search_tabulars_for
from catalog.services.namespaces.move import move_namespace
from catalog.services.protection import get_protection_for, set_protection
from catalog.services.tables.undrop import undrop_tabulars
from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet, ObjectViewSet
from management.api.schema import OperationsByType
from management.api.serializers import read_uuid
from management.api.warehouse_objects.schema import describe_namespaces, describe_protection, describe_tabulars
from management.api.warehouse_objects.serializers import (
    KINDS,
    ListDeletedTabularsResponse,
    MoveNamespaceRequest,
    MoveNamespaceResponse,
    ProtectionResponse,
    SearchTabularRequest,
    SearchTabularResponse,
    SetProtectionRequest,
    UndropTabularsRequest,
)
from tenancy.authz.actions import Can
from tenancy.models import Securable


@describe_tabulars
class WarehouseTabularViewSet(ManagementViewSet):
    reading_actions = {"search"}

    def list_deleted(self, request: Request, **path: str) -> Response:
        given = request.GET.get("namespaceId")
        namespace_id = None if given is None else read_uuid(given, "namespaceId")
        found = list_deleted_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            namespace_id=namespace_id,
            page=self.page(listing_key("deleted-tabulars", self.warehouse_id, namespace_id)),
        )
        return self.respond_page(ListDeletedTabularsResponse, "tabulars", found, warehouse_id=self.warehouse_id)

    def undrop(self, request: Request, **path: str) -> Response:
        targets = self.body(UndropTabularsRequest)["targets"]
        undrop_tabulars(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            targets=[
                (Tabular.Kind(target["type"]), read_uuid(target["id"], f"targets[{index}].id"))
                for index, target in enumerate(targets)
            ],
        )
        return Response(status=204)

    def search(self, request: Request, **path: str) -> Response:
        body = self.body(SearchTabularRequest)
        namespace_id, kinds = body.get("namespace_id"), body.get("types")
        found = search_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            wanted=Wanted(
                search=body["search"],
                kinds=[Tabular.Kind(kind) for kind in (KINDS if kinds is None else kinds)],
                namespace_id=None if namespace_id is None else read_uuid(namespace_id, "namespace-id"),
            ),
            page=self.search_page("search-tabular", body, self.warehouse_id, kinds, namespace_id),
        )
        return self.respond_hits(SearchTabularResponse, "tabulars", found, body)


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


class ProtectionViewSet(ObjectViewSet):
    schema = OperationsByType(describe_protection)  # type: ignore[assignment]  # it depends on the route

    def retrieve(self, request: Request, **path: str) -> Response:
        return self.respond(
            ProtectionResponse, get_protection_for(actor=self.actor, action=Can.GET_METADATA, **self._object())
        )

    def update(self, request: Request, **path: str) -> Response:
        is_protected = self.body(SetProtectionRequest)["protected"]
        return self.respond(
            ProtectionResponse, set_protection(actor=self.actor, is_protected=is_protected, **self._object())
        )

    def _object(self) -> dict[str, Any]:
        object_id = self.object_id
        return {"warehouse_id": self.warehouse_id, "kind": self.securable_type, "object_id": object_id}
