from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tabular
from catalog.selectors.tables.search import FoundTabular, Wanted, search_tabulars_for
from icekeeper.kernel.http.serializers import KebabSerializer, Text, operation_responses
from management.api.base import ManagementView, paged
from management.api.protection import MISSING
from management.api.schema import BAD_PAGE, NO_WAREHOUSE, WAREHOUSE_ID
from management.api.searches import next_page_token, search_page
from management.api.serializers import ONLY_WITH_PAGES, SearchRequest
from management.api.tabular_shapes import KINDS, IdText, TabularIdentUuid, required_id
from management.api.warehouses.schema import TAGS


class SearchTabularRequest(SearchRequest):
    """A UUID finds the tabular with that id, and those right in the namespace with that id."""

    types = serializers.ListField(
        child=serializers.ChoiceField(KINDS),
        required=False,
        allow_null=True,
        max_length=100,
        help_text="Only these kinds; default: all",
    )
    namespace_id = IdText(required=False, allow_null=True, help_text="Only what is in this namespace or below it")


class SearchTabular(KebabSerializer):
    namespace_name = serializers.ListField(child=Text())
    tabular_name = Text()
    tabular_id = TabularIdentUuid()
    distance = serializers.FloatField(
        allow_null=True,
        help_text="From 0, the very name, up to 1: one minus the similarity of trigrams, namespace and name together. "
        "Null when it was found by an id",
    )


class SearchTabularResponse(KebabSerializer):
    tabulars = SearchTabular(many=True)
    next_page_token = Text(required=False, help_text=ONLY_WITH_PAGES)


class SearchTabularView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="search_tabular",
        tags=TAGS,
        summary="List tables and views by similarity of name",
        description="Tables, views and generic tables; the best match first. Names without similarity are omitted.",
        parameters=[WAREHOUSE_ID],
        request=SearchTabularRequest,
        responses=operation_responses(
            {200: SearchTabularResponse},
            {400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {MISSING['namespace']}", 413: "`PayloadTooLargeException`"},
        ),
    )
    def post(self, request: Request, warehouse_id: str) -> Response:
        body = self.body(SearchTabularRequest)
        namespace_id = body.get("namespace_id")
        kinds = body.get("types")
        found, token = search_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            wanted=Wanted(
                search=body["search"],
                kinds=[Tabular.Kind(kind) for kind in (KINDS if kinds is None else kinds)],
                namespace_id=None if namespace_id is None else required_id(namespace_id, "namespace-id"),
            ),
            page=search_page("search-tabular", body, self.warehouse_id, kinds, namespace_id),
        )
        answer: dict[str, Any] = {"tabulars": [_json(each) for each in found]}
        return Response(paged("tabulars", answer["tabulars"], next_page_token(body, token)))


def _json(found: FoundTabular) -> dict[str, Any]:
    return {
        "namespace-name": list(found.levels),
        "tabular-name": found.name,
        "tabular-id": {"type": found.kind, "id": str(found.uuid)},
        "distance": found.distance,
    }
