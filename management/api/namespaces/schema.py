"""OpenAPI descriptions of the operations on namespaces."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from icekeeper.kernel.http.serializers import operation_responses
from management.api.namespaces.serializers import MoveNamespaceRequest, MoveNamespaceResponse
from management.api.schema import NO_NAMESPACE, NO_WAREHOUSE, WAREHOUSE_ID, describe, path_parameter

TAGS = ["warehouse"]

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
