"""OpenAPI descriptions of the operations on tag definitions and tags."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
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
    operation,
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

_operation = partial(operation, tag="tag")
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
    list=_operation(
        "list_tag_definitions",
        "List the tag definitions that are visible to the caller",
        description="In order of creation.",
        parameters=[
            PROJECT_HEADER,
            *PAGE,
            OpenApiParameter(
                "name", OpenApiTypes.STR, description="Only the definition of this name, case-insensitive"
            ),
        ],
        success={200: TagDefinitionListResponse},
        errors=PROJECT_ERRORS | {400: f"{PROJECT_ERRORS[400]}, {BAD_PAGE}"},
    ),
    create=_operation(
        "create_tag_definition",
        "Create a tag definition",
        parameters=[PROJECT_HEADER],
        request=CreateTagDefinitionRequest,
        success={201: TagDefinitionResponse},
        errors={400: BAD_DEFINITION, 404: PROJECT_ERRORS[404], 409: "`TagNameAlreadyExists`"},
    ),
    retrieve=_operation(
        "get_tag_definition",
        "Get a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        success={200: TagDefinitionResponse},
        errors={400: PROJECT_ERRORS[400], 404: NO_DEFINITION},
    ),
    update=_operation(
        "update_tag_definition",
        "Update a tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        request=UpdateTagDefinitionRequest,
        success={200: TagDefinitionResponse},
        errors={400: f"{BAD_DEFINITION}, `TagScopeNarrowed`", 404: NO_DEFINITION, 409: "`TagNameAlreadyExists`"},
    ),
    destroy=_operation(
        "delete_tag_definition",
        "Delete an unused tag definition",
        parameters=[TAG_ID, PROJECT_HEADER],
        success=empty_response("Deleted"),
        errors={
            400: f"{PROJECT_ERRORS[400]}, `ReservedTagNamespace`",
            404: NO_DEFINITION,
            409: "`TagDefinitionInUse`: the tag is attached to an object, possibly to a dropped one that "
            "can be restored",
        },
    ),
    attachments=_operation(
        "list_tag_attachments",
        "List the objects that a tag is attached to",
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
        success={200: TagAttachmentListResponse},
        errors={400: f"{PROJECT_ERRORS[400]}, {BAD_PAGE}", 404: NO_DEFINITION},
    ),
)

describe_all_column_tags = describe(
    all_columns=_operation(
        "list_column_tags",
        "List the tags of all columns of a table",
        description="In order of field ids. Columns without tags are omitted; dropped columns with tags are included.",
        parameters=[
            WAREHOUSE_ID,
            PROJECT_HEADER,
            OpenApiParameter("object_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The table's id"),
        ],
        success={200: ColumnTagListResponse},
        errors={
            400: PROJECT_ERRORS[400],
            404: f"{MISSING_OBJECTS[Securable.Type.TABLE]}, {NO_WAREHOUSE}, {PROJECT_ERRORS[404]}",
        },
    )
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
        "list": _operation(
            f"list_{operation}_tags",
            f"List the tags of {target}",
            description="By name.",
            parameters=[*parameters, EFFECTIVE],
            success={200: TagListResponse},
            errors={400: bad, 404: ", ".join(missing)},
        ),
        "update": _operation(
            f"set_{operation}_tag",
            f"Create or update a tag of {target}",
            parameters=[*parameters, TAG_NAME],
            request=SetTagRequest,
            success={200: AppliedTagResponse},
            errors={400: f"{bad}, `TagScopeNotAllowed`, `InvalidTagValue`", 404: ", ".join([NO_TAG, *missing])},
        ),
        "destroy": _operation(
            f"delete_{operation}_tag",
            f"Delete a tag of {target}",
            parameters=[*parameters, TAG_NAME],
            success=empty_response("Deleted, or was not attached"),
            errors={400: bad, 404: ", ".join([NO_TAG, *missing])},
        ),
    }
