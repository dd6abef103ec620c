"""OpenAPI descriptions of the operations on tag definitions and tags."""

from __future__ import annotations

from collections.abc import Mapping

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.schema import (
    BAD_PAGE,
    MISSING_OBJECTS,
    NO_WAREHOUSE,
    PAGE,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    TAG_ID,
    WAREHOUSE_ID,
    Operation,
    describe,
)
from management.api.tags.serializers import (
    SCOPES,
    AppliedTagResponse,
    ColumnTagListResponse,
    CreateTagDefinitionRequest,
    SetTagRequest,
    TagAttachmentListResponse,
    TagDefinitionListResponse,
    TagDefinitionResponse,
    TagListResponse,
    UpdateTagDefinitionRequest,
)
from tenancy.models import Securable

TAGS = ["tag"]
NO_DEFINITION = f"`TagDefinitionIdNotFound`, {PROJECT_ERRORS[404]}"
BAD_DEFINITION = f"{PROJECT_ERRORS[400]}, `InvalidTagName`, `ReservedTagNamespace`, `InvalidTagDefinition`, "
BAD_DEFINITION += "`InvalidTagValue`"
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

describe_tag_definitions = describe(
    list=extend_schema(
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
    ),
    create=extend_schema(
        operation_id="create_tag_definition",
        tags=TAGS,
        summary="Create a tag definition",
        parameters=[PROJECT_HEADER],
        request=CreateTagDefinitionRequest,
        responses=operation_responses(
            {201: TagDefinitionResponse},
            {400: BAD_DEFINITION, 404: PROJECT_ERRORS[404], 409: "`TagNameAlreadyExists`"},
        ),
    ),
    retrieve=extend_schema(
        operation_id="get_tag_definition",
        tags=TAGS,
        summary="Get a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        responses=operation_responses({200: TagDefinitionResponse}, {400: PROJECT_ERRORS[400], 404: NO_DEFINITION}),
    ),
    update=extend_schema(
        operation_id="update_tag_definition",
        tags=TAGS,
        summary="Update a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        request=UpdateTagDefinitionRequest,
        responses=operation_responses(
            {200: TagDefinitionResponse},
            {400: f"{BAD_DEFINITION}, `TagScopeNarrowed`", 404: NO_DEFINITION, 409: "`TagNameAlreadyExists`"},
        ),
    ),
    destroy=extend_schema(
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
    ),
    attachments=extend_schema(
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
    ),
)

describe_all_column_tags = describe(
    all_columns=extend_schema(
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
    ),
)


def describe_tags(securable_type: Securable.Type, *, of_columns: bool = False) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on tags of a type of objects, or of the columns of a table."""
    kind = securable_type.value
    noun, thing = kind.replace("-", " "), kind.replace("-", "_")
    target, operation = (f"a column of a {noun}", f"{thing}_column") if of_columns else (f"a {noun}", thing)
    parameters, missing = [WAREHOUSE_ID, PROJECT_HEADER], [NO_WAREHOUSE, PROJECT_ERRORS[404]]
    if kind != "warehouse":
        object_id = OpenApiParameter(
            "object_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id"
        )
        parameters, missing = [*parameters, object_id], [MISSING_OBJECTS[securable_type], *missing]
    if of_columns:
        parameters, missing = [*parameters, COLUMN_NAME], [NO_COLUMN, *missing]
    bad = PROJECT_ERRORS[400]
    return {
        "list": extend_schema(
            operation_id=f"list_{operation}_tags",
            tags=TAGS,
            summary=f"List the tags of {target}",
            description="By name.",
            parameters=[*parameters, EFFECTIVE],
            responses=operation_responses({200: TagListResponse}, {400: bad, 404: ", ".join(missing)}),
        ),
        "update": extend_schema(
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
        "destroy": extend_schema(
            operation_id=f"delete_{operation}_tag",
            tags=TAGS,
            summary=f"Delete a tag of {target}",
            parameters=[*parameters, TAG_NAME],
            responses=operation_responses(
                empty_response("Deleted, or was not attached"), {400: bad, 404: ", ".join([NO_TAG, *missing])}
            ),
        ),
    }
