"""Requests and responses about tag definitions and tags."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers

from catalog.selectors.tagged_objects import Attached
from management.api.serializers import LAST_PAGE, KebabSerializer, ResponseSerializer, Text
from tenancy.models import Securable, TagAttachment, TagDefinition
from tenancy.selectors.tags import TargetTag

SOURCES = ["manual"]
SCOPES = TagDefinition.Scope.values
IN_SCOPE = "Types of objects that the tag may be attached to"


class TagDefinitionResponse(ResponseSerializer):
    id = serializers.UUIDField(source="pk")
    name = Text()
    scope = serializers.ListField(child=serializers.ChoiceField(SCOPES), help_text=IN_SCOPE)
    value_kind = serializers.ChoiceField(TagDefinition.ValueKind.values)
    created_at = serializers.DateTimeField()
    allowed_values = serializers.ListField(
        child=Text(), required=False, help_text="Of an enumerated definition; absent in listings"
    )
    description = Text(required=False, help_text="Absent when there is none")
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the definition was never updated")

    def render_allowed_values(self, definition: TagDefinition) -> list[str] | None:
        is_shown = definition.value_kind == TagDefinition.ValueKind.ENUMERATED and not self.context.get("is_listed")
        return definition.allowed_values if is_shown else None


class TagDefinitionListResponse(ResponseSerializer):
    tag_definitions = TagDefinitionResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class CreateTagDefinitionRequest(KebabSerializer):
    name = Text(
        allow_blank=True,
        help_text="Unique in the project, case-insensitive; dots separate its parts (`pii.classification`)",
    )
    description = Text(required=False, allow_null=True, allow_blank=True)
    scope = serializers.ListField(child=serializers.ChoiceField(SCOPES), help_text=IN_SCOPE)
    value_kind = serializers.ChoiceField(
        TagDefinition.ValueKind.values,
        help_text="Whether the tag has no value, any value, or one of `allowed-values`; it cannot be changed",
    )
    allowed_values = serializers.ListField(
        child=Text(allow_blank=True),
        required=False,
        allow_null=True,
        help_text="One or more for an enumerated definition, none for others",
    )


class UpdateTagDefinitionRequest(KebabSerializer):
    name = Text(allow_blank=True, help_text="The rules for a new definition apply")
    description = Text(required=False, allow_null=True, allow_blank=True, help_text="Removed when absent")
    scope = serializers.ListField(
        child=serializers.ChoiceField(SCOPES), help_text="The whole scope; it may be extended, not narrowed"
    )
    add_allowed_values = serializers.ListField(
        child=Text(allow_blank=True),
        required=False,
        allow_null=True,
        help_text="For an enumerated definition: values to add",
    )


class TaggedWarehouse(KebabSerializer):
    type = serializers.ChoiceField(["warehouse"])
    warehouse_id = serializers.UUIDField()


class TaggedNamespace(KebabSerializer):
    type = serializers.ChoiceField(["namespace"])
    warehouse_id = serializers.UUIDField()
    namespace_id = serializers.UUIDField()


class TaggedTable(KebabSerializer):
    type = serializers.ChoiceField(["table"])
    warehouse_id = serializers.UUIDField()
    table_id = serializers.UUIDField()


class TaggedView(KebabSerializer):
    type = serializers.ChoiceField(["view"])
    warehouse_id = serializers.UUIDField()
    view_id = serializers.UUIDField()


class TaggedGenericTable(KebabSerializer):
    type = serializers.ChoiceField(["generic-table"])
    warehouse_id = serializers.UUIDField()
    generic_table_id = serializers.UUIDField()


class TaggedColumn(KebabSerializer):
    type = serializers.ChoiceField(["column"])
    warehouse_id = serializers.UUIDField()
    table_id = serializers.UUIDField()
    field_id = serializers.IntegerField(help_text="The column's field id, which renaming does not change")


TARGETS: dict[str, serializers.Serializer[Any] | type[serializers.Serializer[Any]]] = {
    "warehouse": TaggedWarehouse,
    "namespace": TaggedNamespace,
    "table": TaggedTable,
    "view": TaggedView,
    "generic-table": TaggedGenericTable,
    "column": TaggedColumn,
}


class _AttachmentRenderer:
    # Renders the members that lists of the objects of a tag and of the tags of an object share. (A docstring here would
    # become the description of both shapes.)

    def render_source(self, _: Attached | TargetTag) -> str:
        return SOURCES[0]

    def render_created_at(self, found: Attached | TargetTag) -> datetime:
        return found.attachment.created_at

    def render_value(self, found: Attached | TargetTag) -> str | None:
        return found.attachment.value

    def render_updated_at(self, found: Attached | TargetTag) -> datetime | None:
        return found.attachment.updated_at


class TagAttachmentResponse(_AttachmentRenderer, ResponseSerializer):
    target = PolymorphicProxySerializer("TaggedTarget", TARGETS, "type")
    source = serializers.ChoiceField(SOURCES, help_text="How the tag was attached")  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    value = Text(required=False, help_text="Absent for a marker")
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the value was never changed")

    def render_target(self, attached: Attached) -> dict[str, Any]:
        kind = attached.type.value
        target: dict[str, Any] = {"type": kind, "warehouse-id": attached.warehouse_id}
        if kind == "column":
            return target | {"table-id": attached.object_id, "field-id": attached.attachment.field_id}
        return target if kind == "warehouse" else target | {f"{kind}-id": attached.object_id}


class TagAttachmentListResponse(ResponseSerializer):
    attachments = TagAttachmentResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class SetTagRequest(KebabSerializer):
    value = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Required unless the definition is a marker, which has no value",
    )


class AppliedTagResponse(ResponseSerializer):
    tag_definition_id = serializers.UUIDField()
    name = Text()
    applied_at = serializers.DateTimeField(help_text="When the tag was attached, or its value was changed")
    value = Text(required=False, help_text="Absent for a marker")

    def render_tag_definition_id(self, tag: TagAttachment) -> UUID:
        return tag.definition_id

    def render_name(self, tag: TagAttachment) -> str:
        return tag.definition.name

    def render_value(self, _: TagAttachment) -> str | None:
        value: str | None = self.context["value"]
        return value

    def render_applied_at(self, tag: TagAttachment) -> datetime:
        return tag.updated_at or tag.created_at


class TargetTagResponse(_AttachmentRenderer, ResponseSerializer):
    # `warehouse_id` is in the context.
    tag_definition_id = serializers.UUIDField()
    name = Text()
    source = serializers.ChoiceField(SOURCES, help_text="How the tag was attached")  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    inherited_from = PolymorphicProxySerializer(
        "TagInheritanceSource",
        {"warehouse": TaggedWarehouse, "namespace": TaggedNamespace},
        "type",
        required=False,
        help_text="The object that the tag is attached to; absent when it is the target itself",
    )
    value = Text(required=False, help_text="Absent for a marker")
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the value was never changed")

    def render_tag_definition_id(self, tag: TargetTag) -> UUID:
        return tag.attachment.definition_id

    def render_name(self, tag: TargetTag) -> str:
        return tag.attachment.definition.name

    def render_inherited_from(self, tag: TargetTag) -> dict[str, Any] | None:
        parent = tag.inherited_from
        if parent is None:
            return None
        found = {"type": parent.type, "warehouse-id": self.context["warehouse_id"]}
        return found | ({"namespace-id": parent.object_id} if parent.type == Securable.Type.NAMESPACE else {})


class TagListResponse(ResponseSerializer):
    tags = TargetTagResponse(many=True)


class ColumnTags(ResponseSerializer):
    field_id = serializers.IntegerField(help_text="The field id of a current or dropped column")
    tags = TargetTagResponse(many=True)


class ColumnTagListResponse(ResponseSerializer):
    columns = ColumnTags(many=True)
