"""Requests and responses about tables, views and generic tables, and about protection of namespaces and those."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers

from catalog.models import Tabular
from catalog.selectors.tables.search import FoundTabular
from catalog.services.protection import Protection
from catalog.services.tables.undrop import MAX_TARGETS
from icekeeper.kernel.http.serializers import Flag, KebabSerializer, Text
from management.api.serializers import LAST_PAGE, ONLY_WITH_PAGES, IdText, ResponseSerializer, SearchRequest
from storage.models import Warehouse

KINDS = Tabular.Kind.values


class TabularIdentUuid(ResponseSerializer):
    """A table, view or generic table."""

    type = serializers.ChoiceField(KINDS)
    id = IdText(help_text="The UUID that clients see: of a table its `table-uuid`")


class DeletedTabularResponse(ResponseSerializer):
    # `warehouse_id` is in the context.
    id = serializers.UUIDField(source="uuid", help_text="The UUID that clients see: of a table its `table-uuid`")
    name = Text()
    namespace = serializers.ListField(
        source="levels", child=Text(), help_text="The current path of its namespace, by level"
    )
    typ = serializers.ChoiceField(KINDS, source="kind")
    warehouse_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    deleted_at = serializers.DateTimeField()
    expiration_date = serializers.DateTimeField(
        source="expires_at", help_text="From this time on it may be deleted at any moment"
    )

    def render_warehouse_id(self, _: Any) -> UUID:
        warehouse_id: UUID = self.context["warehouse_id"]
        return warehouse_id


class ListDeletedTabularsResponse(ResponseSerializer):
    tabulars = DeletedTabularResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class UndropTabularsRequest(KebabSerializer):
    targets = serializers.ListField(
        child=TabularIdentUuid(),
        max_length=MAX_TARGETS,
        help_text="The tables and views to restore; those that are not dropped do not change",
    )


class SearchTabularRequest(SearchRequest):
    """A UUID finds the table or view with that id, and those directly in the namespace with that id."""

    types = serializers.ListField(
        child=serializers.ChoiceField(KINDS),
        required=False,
        allow_null=True,
        max_length=100,
        help_text="Only these types; default: all",
    )
    namespace_id = IdText(required=False, allow_null=True, help_text="Only in this namespace or below it")


class SearchTabular(ResponseSerializer):
    namespace_name = serializers.ListField(source="levels", child=Text())
    tabular_name = Text(source="name")
    tabular_id = TabularIdentUuid()
    distance = serializers.FloatField(
        allow_null=True,
        help_text="From 0, an equal name, to 1: one minus the trigram similarity of namespace and name together. "
        "Null when it was found by an id",
    )

    def render_tabular_id(self, found: FoundTabular) -> dict[str, Any]:
        return {"type": found.kind, "id": found.uuid}


class SearchTabularResponse(ResponseSerializer):
    tabulars = SearchTabular(many=True)
    next_page_token = Text(required=False, help_text=ONLY_WITH_PAGES)


class SetProtectionRequest(serializers.Serializer[Any]):
    protected = Flag(help_text="Whether dropping it needs `force`")


class ProtectionResponse(ResponseSerializer):
    has_kebab_keys = False
    protected = serializers.BooleanField()
    updated_at = serializers.DateTimeField()

    def render_protected(self, found: Protection | Warehouse) -> bool:
        return found.protected if isinstance(found, Warehouse) else found.is_protected
