from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.tags import Attached, list_tag_attachments_for
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView, paged
from management.api.schema import BAD_PAGE, PAGE, PROJECT_ERRORS, PROJECT_HEADER
from management.api.tabulars.serializers import require_uuid
from tenancy.authz.actions import Can
from tenancy.models import TagDefinition
from tenancy.selectors.tag_attachments import AttachmentFilter
from tenancy.selectors.tag_definitions import get_tag_definition_for, list_tag_definitions_for, tag_id_not_found
from tenancy.services.tag_definitions import create_tag_definition, delete_tag_definition, update_tag_definition

TAGS = ["tag"]
SOURCES = ["manual"]
SCOPES = TagDefinition.Scope.values
TAG_ID = OpenApiParameter("tag_definition_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="Its `id`")
NO_DEFINITION = f"`TagDefinitionIdNotFound`, {PROJECT_ERRORS[404]}"
BAD_DEFINITION = f"{PROJECT_ERRORS[400]}, `InvalidTagName`, `ReservedTagNamespace`, `InvalidTagDefinition`, "
BAD_DEFINITION += "`InvalidTagValue`"
IN_SCOPE = "Types of objects that the tag may be attached to"


class TagDefinitionResponse(KebabSerializer):
    id = serializers.UUIDField()
    name = Text()
    description = Text(required=False, help_text="Absent when there is none")
    scope = serializers.ListField(child=serializers.ChoiceField(SCOPES), help_text=IN_SCOPE)
    value_kind = serializers.ChoiceField(TagDefinition.ValueKind.values)
    allowed_values = serializers.ListField(
        child=Text(), required=False, help_text="Of an enumerated definition; absent in listings"
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the definition was never updated")


class TagDefinitionListResponse(KebabSerializer):
    tag_definitions = TagDefinitionResponse(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


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


class TagAttachmentResponse(KebabSerializer):
    target = PolymorphicProxySerializer("TaggedTarget", TARGETS, "type")
    value = Text(required=False, help_text="Absent for a marker")
    source = serializers.ChoiceField(SOURCES, help_text="How the tag was attached")  # type: ignore[assignment]  # a field
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the value was never changed")


class TagAttachmentListResponse(KebabSerializer):
    attachments = TagAttachmentResponse(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


def tag_definition_json(definition: TagDefinition, *, is_listed: bool = False) -> dict[str, Any]:
    body = {
        "id": str(definition.pk),
        "name": definition.name,
        "scope": definition.scope,
        "value-kind": definition.value_kind,
        "created-at": definition.created_at,
    }
    if not is_listed and definition.value_kind == TagDefinition.ValueKind.ENUMERATED:
        body["allowed-values"] = definition.allowed_values
    sometimes = {"description": definition.description, "updated-at": definition.updated_at}
    return body | {name: value for name, value in sometimes.items() if value is not None}


class TagDefinitionsView(ManagementView):
    @extend_schema(
        operation_id="list_tag_definitions",
        tags=TAGS,
        summary="List the tag definitions that are visible to the caller",
        description="In order of creation.",
        parameters=[
            PROJECT_HEADER,
            *PAGE,
            OpenApiParameter(
                "name", OpenApiTypes.STR, description="Only the definition of this name, case-insensitive"
            ),
        ],
        responses=operation_responses(
            {200: TagDefinitionListResponse}, PROJECT_ERRORS | {400: f"{PROJECT_ERRORS[400]}, {BAD_PAGE}"}
        ),
    )
    def get(self, request: Request) -> Response:
        project, name = self.project(), request.GET.get("name")
        page = self.page(listing_key("tag-definitions", project.pk, name))
        found, token = list_tag_definitions_for(actor=self.actor, project=project, name=name, page=page)
        listed = [tag_definition_json(each, is_listed=True) for each in found]
        return Response(paged("tag-definitions", listed, token))

    @extend_schema(
        operation_id="create_tag_definition",
        tags=TAGS,
        summary="Create a tag definition",
        parameters=[PROJECT_HEADER],
        request=CreateTagDefinitionRequest,
        responses=operation_responses(
            {201: TagDefinitionResponse},
            {400: BAD_DEFINITION, 404: PROJECT_ERRORS[404], 409: "`TagNameAlreadyExists`"},
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateTagDefinitionRequest)
        definition = create_tag_definition(actor=self.actor, project=self.project(), **body)
        return Response(tag_definition_json(definition), status=201)


class TagDefinitionResourceView(ManagementView):
    """Routes below the path of a definition, which is one of the request's project."""

    @property
    def definition_id(self) -> UUID:
        text = decode_segment(self.kwargs["tag_definition_id"])
        definition_id = parse_id(text)
        if definition_id is None:
            raise tag_id_not_found(text[:100], self.project())
        return definition_id


class TagDefinitionView(TagDefinitionResourceView):
    @extend_schema(
        operation_id="get_tag_definition",
        tags=TAGS,
        summary="Get a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        responses=operation_responses({200: TagDefinitionResponse}, {400: PROJECT_ERRORS[400], 404: NO_DEFINITION}),
    )
    def get(self, request: Request, tag_definition_id: str) -> Response:
        definition = get_tag_definition_for(
            actor=self.actor, action=Can.READ, project=self.project(), definition_id=self.definition_id
        )
        return Response(tag_definition_json(definition))

    @extend_schema(
        operation_id="update_tag_definition",
        tags=TAGS,
        summary="Update a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        request=UpdateTagDefinitionRequest,
        responses=operation_responses(
            {200: TagDefinitionResponse},
            {400: f"{BAD_DEFINITION}, `TagScopeNarrowed`", 404: NO_DEFINITION, 409: "`TagNameAlreadyExists`"},
        ),
    )
    def post(self, request: Request, tag_definition_id: str) -> Response:
        body = {"description": None, **self.body(UpdateTagDefinitionRequest)}
        definition = update_tag_definition(
            actor=self.actor, project=self.project(), definition_id=self.definition_id, **body
        )
        return Response(tag_definition_json(definition))

    @extend_schema(
        operation_id="delete_tag_definition",
        tags=TAGS,
        summary="Delete an unused tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        responses=operation_responses(
            empty_response("Deleted"),
            {
                400: f"{PROJECT_ERRORS[400]}, `ReservedTagNamespace`",
                404: NO_DEFINITION,
                409: "`TagDefinitionInUse`: the tag is attached to an object, possibly to a dropped one that "
                "can be restored",
            },
        ),
    )
    def delete(self, request: Request, tag_definition_id: str) -> Response:
        delete_tag_definition(actor=self.actor, project=self.project(), definition_id=self.definition_id)
        return Response(status=204)


class TagAttachmentsView(TagDefinitionResourceView):
    @extend_schema(
        operation_id="list_tag_attachments",
        tags=TAGS,
        summary="List the objects that a tag is attached to",
        description="In order of attachment. Objects that inherit the tag are not included; dropped objects "
        "that can be "
        "restored are.",
        parameters=[
            TAG_ID,
            PROJECT_HEADER,
            *PAGE,
            OpenApiParameter("value", OpenApiTypes.STR, description="Only attachments with exactly this value"),
            OpenApiParameter("targetType", OpenApiTypes.STR, enum=SCOPES, description="Only targets of this type"),
            OpenApiParameter(
                "createdAfter", OpenApiTypes.DATETIME, description="Only attachments at or after this time"
            ),
            OpenApiParameter(
                "createdBefore", OpenApiTypes.DATETIME, description="Only attachments at or before this time"
            ),
            OpenApiParameter("warehouseId", OpenApiTypes.UUID, description="Only in this warehouse"),
        ],
        responses=operation_responses(
            {200: TagAttachmentListResponse}, {400: f"{PROJECT_ERRORS[400]}, {BAD_PAGE}", 404: NO_DEFINITION}
        ),
    )
    def get(self, request: Request, tag_definition_id: str) -> Response:
        wanted = self._wanted()
        found, token = list_tag_attachments_for(
            actor=self.actor,
            project=self.project(),
            definition_id=self.definition_id,
            wanted=wanted,
            page=self.page(listing_key("tag-attachments", self.definition_id, wanted)),
        )
        return Response(paged("attachments", [_attached_json(each) for each in found], token))

    def _wanted(self) -> AttachmentFilter:
        given = self.request.GET
        target, warehouse = given.get("targetType"), given.get("warehouseId")
        if target is not None and target not in SCOPES:
            raise BadRequest(f"targetType: must be one of {', '.join(SCOPES)}")
        return AttachmentFilter(
            value=given.get("value"),
            target=None if target is None else TagDefinition.Scope(target),
            created_after=self._time("createdAfter"),
            created_before=self._time("createdBefore"),
            warehouse_id=None if warehouse is None else require_uuid(warehouse, "warehouseId"),
        )

    def _time(self, name: str) -> datetime | None:
        text = self.request.GET.get(name)
        if text is None:
            return None
        try:
            read = datetime.fromisoformat(text)
            if read.tzinfo is not None:
                return read.astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # an error like that of a time without a zone
        raise BadRequest(f"{name}: must be a time such as 2026-01-31T12:00:00Z, with + encoded as %2B")


def _attached_json(attached: Attached) -> dict[str, Any]:
    attachment, kind = attached.attachment, attached.type.value
    target: dict[str, Any] = {"type": kind, "warehouse-id": str(attached.warehouse_id)}
    if kind == "column":
        target |= {"table-id": str(attached.object_id), "field-id": attachment.field_id}
    elif kind != "warehouse":
        target[f"{kind}-id"] = str(attached.object_id)
    body = {"target": target, "source": SOURCES[0], "created-at": attachment.created_at}
    sometimes = {"value": attachment.value, "updated-at": attachment.updated_at}
    return body | {name: value for name, value in sometimes.items() if value is not None}
