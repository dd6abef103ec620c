"""Tags of warehouses, namespaces, tables, views, generic tables and columns; each type has its own routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.errors import no_such_object
from catalog.selectors.tag_targets import TagPlace
from catalog.selectors.tags import list_column_tags_for, list_tags_for
from catalog.services.tags import attach_tag, detach_tag
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView
from management.api.schema import MISSING_OBJECTS, NO_WAREHOUSE, PROJECT_ERRORS, PROJECT_HEADER, WAREHOUSE_ID
from management.api.tag_definitions import SOURCES, TAGS, TaggedNamespace, TaggedWarehouse
from tenancy.models import Securable
from tenancy.selectors.tag_attachments import TargetTag

TAG_NAME = OpenApiParameter(
    "tag_name", OpenApiTypes.STR, OpenApiParameter.PATH, description="The name of the definition"
)
COLUMN_NAME = OpenApiParameter(
    "column_name",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="The full name in the table's current schema: `zip`, `address.zip`, `phones.element`",
)
EFFECTIVE = OpenApiParameter(
    "effective",
    OpenApiTypes.BOOL,
    description="Also return tags that are inherited from the namespaces and the warehouse, the nearest of each "
    "name; columns inherit none",
)
NO_TAG = "`TagDefinitionNameNotFound`"
NO_COLUMN = "`ColumnNotFound`"


class SetTagRequest(KebabSerializer):
    value = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Required unless the definition is a marker, which has no value",
    )


class AppliedTagResponse(KebabSerializer):
    tag_definition_id = serializers.UUIDField()
    name = Text()
    value = Text(required=False, help_text="Absent for a marker")
    applied_at = serializers.DateTimeField(help_text="When the tag was attached, or its value was changed")


class TargetTagResponse(KebabSerializer):
    tag_definition_id = serializers.UUIDField()
    name = Text()
    value = Text(required=False, help_text="Absent for a marker")
    source = serializers.ChoiceField(SOURCES, help_text="How the tag was attached")  # type: ignore[assignment]  # a field
    inherited_from = PolymorphicProxySerializer(
        "TagInheritanceSource",
        {"warehouse": TaggedWarehouse, "namespace": TaggedNamespace},
        "type",
        required=False,
        help_text="The object that the tag is attached to; absent when it is the target itself",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the value was never changed")


class TagListResponse(KebabSerializer):
    tags = TargetTagResponse(many=True)


class ColumnTags(KebabSerializer):
    field_id = serializers.IntegerField(help_text="The field id of a current or dropped column")
    tags = TargetTagResponse(many=True)


class ColumnTagListResponse(KebabSerializer):
    columns = ColumnTags(many=True)


def target_tag_json(tag: TargetTag, warehouse_id: UUID) -> dict[str, Any]:
    attachment = tag.attachment
    body: dict[str, Any] = {
        "tag-definition-id": str(attachment.definition_id),
        "name": attachment.definition.name,
        "source": SOURCES[0],
        "created-at": attachment.created_at,
    }
    if tag.inherited_from is not None:
        above: dict[str, str] = {"type": tag.inherited_from.type, "warehouse-id": str(warehouse_id)}
        if above["type"] == Securable.Type.NAMESPACE:
            above["namespace-id"] = tag.inherited_from.object_id
        body["inherited-from"] = above
    sometimes = {"value": attachment.value, "updated-at": attachment.updated_at}
    return body | {name: value for name, value in sometimes.items() if value is not None}


class TaggedView(ManagementView):
    """Routes below the path of an object that tags can be attached to. It is in the request's project."""

    kind: ClassVar[Securable.Type]

    @property
    def place(self) -> TagPlace:
        warehouse_id, column = self.warehouse_id, self.kwargs.get("column_name")
        text = decode_segment(self.kwargs.get("object_id", str(warehouse_id)))
        object_id = parse_id(text)
        if object_id is None:
            raise no_such_object(self.kind.value, text[:100])
        return TagPlace(warehouse_id, self.kind, object_id, None if column is None else decode_segment(column))


class TargetTagsView(TaggedView):
    def get(self, request: Request, **names: str) -> Response:
        place = self.place
        tags = list_tags_for(actor=self.actor, project=self.project(), place=place, effective=self.flag("effective"))
        return Response({"tags": [target_tag_json(tag, place.warehouse_id) for tag in tags]})


class TargetTagView(TaggedView):
    @property
    def tag_name(self) -> str:
        return decode_segment(self.kwargs["tag_name"])

    def put(self, request: Request, **names: str) -> Response:
        value = self.body(SetTagRequest).get("value")
        applied = attach_tag(
            actor=self.actor, project=self.project(), place=self.place, name=self.tag_name, value=value
        )
        body = {
            "tag-definition-id": str(applied.definition_id),
            "name": applied.definition.name,
            "applied-at": applied.updated_at or applied.created_at,
        }
        return Response(body if value is None else body | {"value": value})

    def delete(self, request: Request, **names: str) -> Response:
        detach_tag(actor=self.actor, project=self.project(), place=self.place, name=self.tag_name)
        return Response(status=204)


V = TypeVar("V", bound=TaggedView)


def described(kind: str, *, of_columns: bool = False) -> Callable[[type[V]], type[V]]:
    """Describe the operations on tags of `kind`, or of the columns of a table."""
    noun, thing = kind.replace("-", " "), kind.replace("-", "_")
    target, operation = (f"a column of a {noun}", f"{thing}_column") if of_columns else (f"a {noun}", thing)
    parameters, missing = [WAREHOUSE_ID, PROJECT_HEADER], [NO_WAREHOUSE, PROJECT_ERRORS[404]]
    if kind != "warehouse":
        object_id = OpenApiParameter(
            "object_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id"
        )
        parameters, missing = [*parameters, object_id], [MISSING_OBJECTS[Securable.Type(kind)], *missing]
    if of_columns:
        parameters, missing = [*parameters, COLUMN_NAME], [NO_COLUMN, *missing]
    bad = PROJECT_ERRORS[400]
    listing = {
        "get": extend_schema(
            operation_id=f"list_{operation}_tags",
            tags=TAGS,
            summary=f"List the tags of {target}",
            description="By name.",
            parameters=[*parameters, EFFECTIVE],
            responses=operation_responses({200: TagListResponse}, {400: bad, 404: ", ".join(missing)}),
        )
    }
    changing = {
        "put": extend_schema(
            operation_id=f"set_{operation}_tag",
            tags=TAGS,
            summary=f"Create or update a tag of {target}",
            parameters=[*parameters, TAG_NAME],
            request=SetTagRequest,
            responses=operation_responses(
                {200: AppliedTagResponse},
                {400: f"{bad}, `TagScopeNotAllowed`, `InvalidTagValue`", 404: ", ".join([NO_TAG, *missing])},
            ),
        ),
        "delete": extend_schema(
            operation_id=f"delete_{operation}_tag",
            tags=TAGS,
            summary=f"Delete a tag of {target}",
            parameters=[*parameters, TAG_NAME],
            responses=operation_responses(
                empty_response("Deleted, or was not attached"), {400: bad, 404: ", ".join([NO_TAG, *missing])}
            ),
        ),
    }

    def describe(view: type[V]) -> type[V]:
        operations = changing if issubclass(view, TargetTagView) else listing
        return extend_schema_view(**operations)(view)

    return describe


@described("warehouse")
class WarehouseTagsView(TargetTagsView):
    kind = Securable.Type.WAREHOUSE


@described("warehouse")
class WarehouseTagView(TargetTagView):
    kind = Securable.Type.WAREHOUSE


@described("namespace")
class NamespaceTagsView(TargetTagsView):
    kind = Securable.Type.NAMESPACE


@described("namespace")
class NamespaceTagView(TargetTagView):
    kind = Securable.Type.NAMESPACE


@described("table")
class TableTagsView(TargetTagsView):
    kind = Securable.Type.TABLE


@described("table")
class TableTagView(TargetTagView):
    kind = Securable.Type.TABLE


@described("view")
class ViewTagsView(TargetTagsView):
    kind = Securable.Type.VIEW


@described("view")
class ViewTagView(TargetTagView):
    kind = Securable.Type.VIEW


@described("generic-table")
class GenericTableTagsView(TargetTagsView):
    kind = Securable.Type.GENERIC_TABLE


@described("generic-table")
class GenericTableTagView(TargetTagView):
    kind = Securable.Type.GENERIC_TABLE


@described("table", of_columns=True)
class ColumnTagsView(TargetTagsView):
    kind = Securable.Type.TABLE


@described("table", of_columns=True)
class ColumnTagView(TargetTagView):
    kind = Securable.Type.TABLE


class AllColumnTagsView(TaggedView):
    kind = Securable.Type.TABLE

    @extend_schema(
        operation_id="list_column_tags",
        tags=TAGS,
        summary="List the tags of all columns of a table",
        description="In order of field ids. Columns without tags are omitted; dropped columns with tags are included.",
        parameters=[
            WAREHOUSE_ID,
            PROJECT_HEADER,
            OpenApiParameter("object_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The table's id"),
        ],
        responses=operation_responses(
            {200: ColumnTagListResponse},
            {
                400: PROJECT_ERRORS[400],
                404: f"{MISSING_OBJECTS[Securable.Type.TABLE]}, {NO_WAREHOUSE}, {PROJECT_ERRORS[404]}",
            },
        ),
    )
    def get(self, request: Request, **names: str) -> Response:
        place = self.place
        found = list_column_tags_for(
            actor=self.actor, project=self.project(), warehouse_id=place.warehouse_id, table_id=place.object_id
        )
        columns = [
            {"field-id": field_id, "tags": [target_tag_json(tag, place.warehouse_id) for tag in tags]}
            for field_id, tags in found.items()
        ]
        return Response({"columns": columns})
