"""Requests and responses about namespaces, tables, views and generic tables of a warehouse."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers

from catalog.models import Tabular
from catalog.selectors.tables.search import FoundTabular
from catalog.services.protection import Protection
from catalog.services.tables.named_targets import MAX_TARGETS
from management.api.serializers import (
    LAST_PAGE,
    ONLY_WITH_PAGES,
    Flag,
    IdText,
    KebabSerializer,
    ResponseSerializer,
    SearchRequest,
    StrictSerializer,
    Text,
)
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
