from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.tables.deleted import DeletedTabular, list_deleted_tabulars_for
from catalog.services.tables.undrop import MOST_TARGETS, undrop_tabulars
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from management.api.base import ManagementView
from management.api.protection import MISSING
from management.api.schema import BAD_PAGE, NO_WAREHOUSE, PAGE, WAREHOUSE_ID
from management.api.tabular_shapes import KINDS, NO_TABULAR, TabularIdentUuid, named, required_id
from management.api.warehouses.schema import TAGS


class DeletedTabularResponse(KebabSerializer):
    id = serializers.UUIDField(help_text="As clients know it: of a table its `table-uuid`")
    name = Text()
    namespace = serializers.ListField(child=Text(), help_text="The levels of its namespace as they are now")
    typ = serializers.ChoiceField(KINDS)
    warehouse_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    deleted_at = serializers.DateTimeField()
    expiration_date = serializers.DateTimeField(help_text="From then on it may be gone for good at any moment")


class ListDeletedTabularsResponse(KebabSerializer):
    tabulars = DeletedTabularResponse(many=True)
    next_page_token = Text(required=False, help_text="Left out on the last page")


class UndropTabularsRequest(KebabSerializer):
    targets = serializers.ListField(
        child=TabularIdentUuid(),
        max_length=MOST_TARGETS,
        help_text="What is to be restored; what was not dropped is left as it is",
    )


class DeletedTabularsView(ManagementView):
    @extend_schema(
        operation_id="list_deleted_tabulars",
        tags=TAGS,
        summary="List dropped tables and views that can be restored",
        description="In order of creation.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter("namespaceId", OpenApiTypes.UUID, description="Only what is right in this namespace"),
            *PAGE,
        ],
        responses=operation_responses(
            {200: ListDeletedTabularsResponse},
            {400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {MISSING['namespace']}"},
        ),
    )
    def get(self, request: Request, warehouse_id: str) -> Response:
        given = request.GET.get("namespaceId")
        namespace_id = None if given is None else required_id(given, "namespaceId")
        found, token = list_deleted_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            namespace_id=namespace_id,
            page=self.page(listing_key("deleted-tabulars", self.warehouse_id, namespace_id)),
        )
        body: dict[str, Any] = {"tabulars": [_json(each, str(self.warehouse_id)) for each in found]}
        return Response(body if token is None else body | {"next-page-token": token})


class UndropView(ManagementView):
    @extend_schema(
        operation_id="undrop_tabulars",
        tags=TAGS,
        summary="Restore dropped tables and views",
        description="All of them are restored, or none; each with its name, id, location, data and protection.",
        parameters=[WAREHOUSE_ID],
        request=UndropTabularsRequest,
        responses=operation_responses(
            empty_response("Restored"),
            {
                404: f"{NO_WAREHOUSE}, {NO_TABULAR}",
                409: "`AlreadyExistsException`: something has one of the names by now; "
                "`TabularHasRunningExpiration`: one of them is just being deleted for good",
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        targets = self.body(UndropTabularsRequest)["targets"]
        undrop_tabulars(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            targets=[named(target, f"targets[{at}]") for at, target in enumerate(targets)],
        )
        return Response(status=204)


def _json(dropped: DeletedTabular, warehouse_id: str) -> dict[str, Any]:
    return {
        "id": str(dropped.uuid),
        "name": dropped.name,
        "namespace": list(dropped.levels),
        "typ": dropped.kind,
        "warehouse-id": warehouse_id,
        "created-at": dropped.created_at,
        "deleted-at": dropped.deleted_at,
        "expiration-date": dropped.expires_at,
    }
