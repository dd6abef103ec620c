"""OpenAPI descriptions of the operations on namespaces, tables, views and generic tables of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
from management.api.schema import (
    BAD_PAGE,
    MISSING_OBJECTS,
    NO_NAMESPACE,
    NO_TABULAR,
    NO_WAREHOUSE,
    OVERRIDE_HEADER,
    PAGE,
    REJECTED_BY_RULE,
    TOO_LARGE,
    WAREHOUSE_ID,
    Operation,
    describe,
    operation,
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

_operation = partial(operation, tag="warehouse")

describe_tabulars = describe(
    list_deleted=_operation(
        "list_deleted_tabulars",
        "List dropped tables and views that can be restored",
        description="In order of creation.",
        parameters=[
            WAREHOUSE_ID,
            OpenApiParameter("namespaceId", OpenApiTypes.UUID, description="Only directly in this namespace"),
            *PAGE,
        ],
        success={200: ListDeletedTabularsResponse},
        errors={400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {NO_NAMESPACE}"},
    ),
    undrop=_operation(
        "undrop_tabulars",
        "Restore dropped tables and views",
        description="All of them are restored, or none; each with its name, id, location, data and protection.",
        parameters=[WAREHOUSE_ID, OVERRIDE_HEADER],
        request=UndropTabularsRequest,
        success=empty_response("Restored"),
        errors={
            404: f"{NO_WAREHOUSE}, {NO_TABULAR}",
            409: "`AlreadyExistsException`: one of the names is in use; "
            f"`TabularHasRunningExpiration`: one of them is being deleted; {REJECTED_BY_RULE}",
            413: TOO_LARGE,
        },
    ),
    search=_operation(
        "search_tabular",
        "List tables and views by similarity of name",
        description="Tables, views and generic tables; the best match first. Names without similarity are omitted.",
        parameters=[WAREHOUSE_ID],
        request=SearchTabularRequest,
        success={200: SearchTabularResponse},
        errors={400: BAD_PAGE, 404: f"{NO_WAREHOUSE}, {NO_NAMESPACE}", 413: TOO_LARGE},
    ),
)

describe_namespaces = describe(
    move=_operation(
        "move_namespace",
        "Update the name or parent of a namespace",
        description="Its tables, views, generic tables and child namespaces move with it. Ids, properties, locations "
        "and files do not change. A move to the current path changes nothing.",
        parameters=[WAREHOUSE_ID, path_parameter("namespace_id", "The namespace's id"), OVERRIDE_HEADER],
        request=MoveNamespaceRequest,
        success={200: MoveNamespaceResponse},
        errors={
            400: "`NamespaceEmpty`, `NamespaceDepthExceeded`, `ReservedNamespace`, `NamespaceCannotMoveIntoSelf`; "
            "`StorageLayoutForbidsNamespaceMove`: the folders of the warehouse contain the paths of namespaces",
            404: f"{NO_WAREHOUSE}; {NO_NAMESPACE}: the namespace or its new parent",
            409: "`AlreadyExistsException`; `NamespaceProtected`, `ChildNamespaceProtected`: without `force`; "
            f"{REJECTED_BY_RULE}",
            413: "`PayloadTooLargeException`",
        },
    )
)


def describe_protection(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the protection of objects of a type, by action."""
    word, noun = securable_type.value.replace("-", "_"), securable_type.value.replace("-", " ")
    describe_either = partial(
        _operation,
        parameters=[WAREHOUSE_ID, path_parameter("object_id", f"The {noun}'s id")],
        success={200: ProtectionResponse},
        errors={404: f"{MISSING_OBJECTS[securable_type]}, {NO_WAREHOUSE}"},
    )
    return {
        "retrieve": describe_either(f"get_{word}_protection", f"Get the drop protection of a {noun}"),
        "update": describe_either(
            f"set_{word}_protection", f"Update the drop protection of a {noun}", request=SetProtectionRequest
        ),
    }
