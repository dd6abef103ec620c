from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.api.operations.parameters import IDEMPOTENCY_KEY, IN_NAMESPACE, IN_WAREHOUSE, LISTING_EXTRAS, PAGE
from catalog.api.operations.refusals import BAD_PAGE, NO_NAMESPACE, NO_WAREHOUSE, TOO_LARGE, answers_below_prefix
from catalog.api.operations.tags import CATALOG
from catalog.api.shapes.namespaces import (
    CreateNamespaceRequest,
    ListNamespacesResponse,
    LoadNamespaceResponse,
    NamespaceResponse,
    UpdateNamespacePropertiesRequest,
    UpdateNamespacePropertiesResponse,
)
from icekeeper.kernel.http.serializers import empty_response

list_namespaces = extend_schema(
    operation_id="listNamespaces",
    tags=CATALOG,
    summary="The namespaces directly below another one, or of the first level",
    parameters=[
        *IN_WAREHOUSE,
        *PAGE,
        *LISTING_EXTRAS,
        OpenApiParameter("parent", OpenApiTypes.STR, description="The levels of the namespace above, joined by U+001F"),
    ],
    responses=answers_below_prefix({200: ListNamespacesResponse}, {400: BAD_PAGE, 404: NO_NAMESPACE}),
)
create_namespace = extend_schema(
    operation_id="createNamespace",
    tags=CATALOG,
    summary="Make a namespace",
    parameters=[*IN_WAREHOUSE, IDEMPOTENCY_KEY],
    request=CreateNamespaceRequest,
    responses=answers_below_prefix(
        {200: NamespaceResponse},
        {
            400: "`NamespaceDepthExceeded`, `ReservedNamespace`; `InvalidLocation`: not in the warehouse",
            404: f"{NO_WAREHOUSE}, `NoSuchNamespaceException`: the one above it",
            409: "`AlreadyExistsException`; `LocationAlreadyTaken`: it is in a table's folder",
            413: TOO_LARGE,
        },
    ),
)
load_namespace = extend_schema(
    operation_id="loadNamespaceMetadata",
    tags=CATALOG,
    summary="A namespace and its properties",
    parameters=[
        *IN_NAMESPACE,
        OpenApiParameter("returnUuid", OpenApiTypes.BOOL, default=False, description="Also tell its `namespace-uuid`"),
    ],
    responses=answers_below_prefix({200: LoadNamespaceResponse}, {404: NO_NAMESPACE}),
)
namespace_exists = extend_schema(
    operation_id="namespaceExists",
    tags=CATALOG,
    summary="Whether a namespace exists",
    parameters=IN_NAMESPACE,
    responses=answers_below_prefix(empty_response("It exists"), {404: "It does not exist"}, has_body=False),
)
drop_namespace = extend_schema(
    operation_id="dropNamespace",
    tags=CATALOG,
    summary="Forget an empty namespace, or one with everything in it",
    parameters=[
        *IN_NAMESPACE,
        OpenApiParameter(
            "recursive",
            OpenApiTypes.BOOL,
            default=False,
            description="Also when it is not empty: what lies in it goes for good. In a soft-delete warehouse only "
            "with `force`",
        ),
        OpenApiParameter(
            "purge",
            OpenApiTypes.BOOL,
            default=False,
            description="With `recursive`: also delete the files of what goes, by tasks that are queued",
        ),
        OpenApiParameter(
            "force", OpenApiTypes.BOOL, default=False, description="Also when it, or something in it, is protected"
        ),
        IDEMPOTENCY_KEY,
    ],
    responses=answers_below_prefix(
        empty_response("Dropped"),
        {
            400: "`NamespaceDeleteNotAllowed`: recursive, in a soft-delete warehouse, without `force`",
            404: NO_NAMESPACE,
            409: "`NamespaceNotEmptyException`, `NamespaceProtected`, `ChildNamespaceProtected`, "
            "`ChildTabularProtected`, `NamespaceHasRunningTabularExpirations`",
        },
    ),
)
update_namespace_properties = extend_schema(
    operation_id="updateProperties",
    tags=CATALOG,
    summary="Set and remove properties of a namespace",
    parameters=[*IN_NAMESPACE, IDEMPOTENCY_KEY],
    request=UpdateNamespacePropertiesRequest,
    responses=answers_below_prefix(
        {200: UpdateNamespacePropertiesResponse},
        {
            400: "`LocationCannotBeUpdated`, `LocationCannotBeRemoved`",
            404: NO_NAMESPACE,
            413: TOO_LARGE,
            422: "`UnprocessableEntityException`: a key is in both updates and removals",
        },
    ),
)
