"""OpenAPI descriptions of the operations on namespaces, tables, views and generic tables of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.schema import (
    BAD_PAGE,
    MISSING_OBJECTS,
    NO_NAMESPACE,
    NO_TABULAR,
    NO_WAREHOUSE,
    PAGE,
    TOO_LARGE,
    WAREHOUSE_ID,
    Operation,
    describe,
    path_parameter,
)
from management.api.warehouse_objects.serializers import (
    ListDeletedTabularsResponse,
    MoveNamespaceRequest,
    MoveNamespaceResponse,
    ProtectionResponse,
    SearchTabularRequest,
    SearchTabularResponse,
    SetProtectionRequest,
    UndropTabularsRequest,
)
from tenancy.models import Securable

TAGS = ["warehouse"]

describe_tabulars = describe(
    list_deleted=extend_schema(
        operation_id="list_deleted_tabulars",
        tags=TAGS,
        summary="List dropped tables and views that can be restored",
        description="In order of creation.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter("namespaceId", OpenApiTypes.UUID, description="Only directly in this namespace"),
            *PAGE,
        ],
        responses=operation_responses(
            {200: ListDeletedTabularsResponse}, {400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {NO_NAMESPACE}"}
        ),
    ),
    undrop=extend_schema(
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
                409: "`AlreadyExistsException`: one of the names is in use; "
                "`TabularHasRunningExpiration`: one of them is being deleted",
                413: TOO_LARGE,
            },
        ),
    ),
    search=extend_schema(
        operation_id="search_tabular",
        tags=TAGS,
        summary="List tables and views by similarity of name",
        description="Tables, views and generic tables; the best match first. Names without similarity are omitted.",
        parameters=[WAREHOUSE_ID],
        request=SearchTabularRequest,
        responses=operation_responses(
            {200: SearchTabularResponse}, {400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {NO_NAMESPACE}", 413: TOO_LARGE}
        ),
    ),
)

describe_namespaces = describe(
    move=extend_schema(
        operation_id="move_namespace",
        tags=TAGS,
        summary="Update the name or parent of a namespace",
        description="Its tables, views, generic tables and child namespaces move with it. Ids, properties, locations "
        "and files do not change. A move to the current path changes nothing.",
        parameters=[
            WAREHOUSE_ID,
            path_parameter("namespace_id", "The namespace's id"),
        ],
        request=MoveNamespaceRequest,
        responses=operation_responses(
            {200: MoveNamespaceResponse},
            {
                400: "`NamespaceEmpty`, `NamespaceDepthExceeded`, `ReservedNamespace`, `NamespaceCannotMoveIntoSelf`; "
                "`StorageLayoutForbidsNamespaceMove`: the folders of the warehouse contain the paths of namespaces",
                404: f"{NO_WAREHOUSE}; {NO_NAMESPACE}: the namespace or its new parent",
                409: "`AlreadyExistsException`; `NamespaceProtected`, `ChildNamespaceProtected`: without `force`",
                413: "`PayloadTooLargeException`",
            },
        ),
    ),
)


def describe_protection(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the protection of objects of a type, by action."""
    word, noun = securable_type.value.replace("-", "_"), securable_type.value.replace("-", " ")
    parameters = [WAREHOUSE_ID, path_parameter("object_id", f"The {noun}'s id")]
    responses = operation_responses(
        {200: ProtectionResponse}, {404: f"{MISSING_OBJECTS[securable_type]}, {NO_WAREHOUSE}"}
    )
    return {
        "retrieve": extend_schema(
            operation_id=f"get_{word}_protection",
            tags=TAGS,
            summary=f"Get the drop protection of a {noun}",
            parameters=parameters,
            responses=responses,
        ),
        "update": extend_schema(
            operation_id=f"set_{word}_protection",
            tags=TAGS,
            summary=f"Update the drop protection of a {noun}",
            parameters=parameters,
            request=SetProtectionRequest,
            responses=responses,
        ),
    }
