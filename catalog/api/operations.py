"""What the OpenAPI documents say about each operation of the catalog and of generic tables.

Ids are those of the Iceberg REST specification, and for generic tables those of the peer.

A view's method wears the decorator of its operation; at run time the method is what it was.
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.api.shapes.config import CatalogConfig
from catalog.api.shapes.generic_tables import (
    CreateGenericTableRequest,
    ListGenericTablesResponse,
    LoadGenericTableResponse,
)
from catalog.api.shapes.namespaces import (
    CreateNamespaceRequest,
    ListNamespacesResponse,
    LoadNamespaceResponse,
    NamespaceResponse,
    UpdateNamespacePropertiesRequest,
    UpdateNamespacePropertiesResponse,
)
from catalog.api.shapes.table_access import LoadCredentialsResponse, RemoteSignRequest
from catalog.api.shapes.tables import (
    CommitTableRequest,
    CommitTableResponse,
    CommitTransactionRequest,
    CreateTableRequest,
    LoadTableResult,
    RegisterTableRequest,
    ReportMetricsRequest,
)
from catalog.api.shapes.tabulars import ListTablesResponse, RenameTableRequest
from catalog.api.shapes.views import CommitViewRequest, CreateViewRequest, LoadViewResult, RegisterViewRequest
from icekeeper.kernel.api_shapes import answers, done

CONFIGURATION: Final = ["Configuration API"]
CATALOG: Final = ["Catalog API"]

_PREFIX: Final = OpenApiParameter(
    "prefix", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The warehouse's id: the `prefix` that config gives"
)
_NAMESPACE: Final = OpenApiParameter(
    "namespace",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="The levels of the namespace, joined by U+001F (`%1F`), percent-encoded as one segment",
)
_TABLE: Final = OpenApiParameter(
    "table", OpenApiTypes.STR, OpenApiParameter.PATH, description="The table's name, percent-encoded"
)
_PAGE: Final = [
    OpenApiParameter(
        "pageToken",
        OpenApiTypes.STR,
        description="Without it everything is listed at once. Empty: the first page. Else `next-page-token` of a page",
    ),
    OpenApiParameter(
        "pageSize",
        {"type": "integer", "minimum": 1, "maximum": 999_999_999},
        description="Entries of a page, if there are pages; the server has a default and a largest size",
    ),
]
_VIEW: Final = OpenApiParameter(
    "view", OpenApiTypes.STR, OpenApiParameter.PATH, description="The view's name, percent-encoded"
)
_LISTING_EXTRAS: Final = [
    OpenApiParameter("returnUuids", OpenApiTypes.BOOL, default=False, description="Also list their UUIDs"),
    OpenApiParameter(
        "returnProtectionStatus", OpenApiTypes.BOOL, default=False, description="Also list which are protected"
    ),
]
_IDEMPOTENCY_KEY: Final = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.UUID,
    OpenApiParameter.HEADER,
    description="Sent again with the same key, the same request is not done again and gets the same answer. "
    "400 `InvalidIdempotencyKey`, `DuplicateIdempotencyKey`; `IdempotencyKeyReused`: it was given with another request",
)
_FORCE: Final = OpenApiParameter(
    "force",
    OpenApiTypes.BOOL,
    default=False,
    description="Also when it is protected; and for good, also in a soft-delete warehouse",
)
_REFERENCED_BY: Final = OpenApiParameter(
    "referenced-by",
    OpenApiTypes.STR,
    description="The views that the table is read through, outermost first, separated by commas; at most 10",
)
_IN_WAREHOUSE: Final = [_PREFIX]
_IN_NAMESPACE: Final = [_PREFIX, _NAMESPACE]
_OF_TABLE: Final = [_PREFIX, _NAMESPACE, _TABLE]
_OF_VIEW: Final = [_PREFIX, _NAMESPACE, _VIEW]

_NO_WAREHOUSE: Final = "`NoSuchWarehouseException`"
_NO_NAMESPACE: Final = f"`NoSuchNamespaceException`, {_NO_WAREHOUSE}"
_NO_GENERIC_TABLE: Final = f"`NoSuchGenericTableException`, {_NO_WAREHOUSE}"
_NO_TABLE: Final = f"`NoSuchTableException`, {_NO_WAREHOUSE}"
_NO_VIEW: Final = f"`NoSuchViewException`, {_NO_WAREHOUSE}"
_LOCATION: Final = "`InvalidLocation`: not in the warehouse; `FormatVersionNotAllowed`"
_TAKEN: Final = "`AlreadyExistsException`: the name is taken, by a table or a view"
_TOO_LARGE: Final = "`PayloadTooLargeException`"
_TOO_MANY_VIEWS: Final = "`ReferencedByDepthExceeded`"
_STORE: Final = "`StorageUnavailableException`: the object store failed"


def _purge_requested(*, default: bool) -> OpenApiParameter:
    return OpenApiParameter(
        "purgeRequested",
        OpenApiTypes.BOOL,
        default=default,
        description="Also delete its files, by a task that is queued",
    )


def _answers(success: dict[int, Any], refusals: dict[int, str], *, has_body: bool = True) -> dict[int | str, Any]:
    """Those of an operation below `{prefix}`."""
    wrong_prefix = "`PrefixIsNotWarehouseID`"
    more = f"{wrong_prefix}, {refusals[400]}" if 400 in refusals else wrong_prefix  # noqa: PLR2004
    return answers(success, {**refusals, 400: more}, has_body=has_body)


get_config = extend_schema(
    operation_id="getConfig",
    tags=CONFIGURATION,
    summary="What a client needs to know to use a warehouse",
    parameters=[
        OpenApiParameter("warehouse", OpenApiTypes.STR, required=True, description="`<name>` or `<project id>/<name>`"),
        OpenApiParameter(
            "x-project-id",
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="The project, unless `warehouse` names it; default: the default project",
        ),
    ],
    responses=answers(
        {200: CatalogConfig},
        {400: "`GetConfigNoWarehouseProvided`, `MalformedProjectID`", 404: _NO_WAREHOUSE},
    ),
)

list_namespaces = extend_schema(
    operation_id="listNamespaces",
    tags=CATALOG,
    summary="The namespaces directly below another one, or of the first level",
    parameters=[
        *_IN_WAREHOUSE,
        *_PAGE,
        *_LISTING_EXTRAS,
        OpenApiParameter("parent", OpenApiTypes.STR, description="The levels of the namespace above, joined by U+001F"),
    ],
    responses=_answers({200: ListNamespacesResponse}, {400: "`InvalidPaginationToken`", 404: _NO_NAMESPACE}),
)
create_namespace = extend_schema(
    operation_id="createNamespace",
    tags=CATALOG,
    summary="Make a namespace",
    parameters=[*_IN_WAREHOUSE, _IDEMPOTENCY_KEY],
    request=CreateNamespaceRequest,
    responses=_answers(
        {200: NamespaceResponse},
        {
            400: "`NamespaceDepthExceeded`, `ReservedNamespace`; `InvalidLocation`: not in the warehouse",
            404: f"{_NO_WAREHOUSE}, `NoSuchNamespaceException`: the one above it",
            409: "`AlreadyExistsException`; `LocationAlreadyTaken`: it is in a table's folder",
            413: _TOO_LARGE,
        },
    ),
)
load_namespace = extend_schema(
    operation_id="loadNamespaceMetadata",
    tags=CATALOG,
    summary="A namespace and its properties",
    parameters=[
        *_IN_NAMESPACE,
        OpenApiParameter("returnUuid", OpenApiTypes.BOOL, default=False, description="Also tell its `namespace-uuid`"),
    ],
    responses=_answers({200: LoadNamespaceResponse}, {404: _NO_NAMESPACE}),
)
namespace_exists = extend_schema(
    operation_id="namespaceExists",
    tags=CATALOG,
    summary="Whether a namespace exists",
    parameters=_IN_NAMESPACE,
    responses=_answers(done("It exists"), {404: "It does not exist"}, has_body=False),
)
drop_namespace = extend_schema(
    operation_id="dropNamespace",
    tags=CATALOG,
    summary="Forget an empty namespace, or one with everything in it",
    parameters=[
        *_IN_NAMESPACE,
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
        _IDEMPOTENCY_KEY,
    ],
    responses=_answers(
        done("Dropped"),
        {
            400: "`NamespaceDeleteNotAllowed`: recursive, in a soft-delete warehouse, without `force`",
            404: _NO_NAMESPACE,
            409: "`NamespaceNotEmptyException`, `NamespaceProtected`, `ChildNamespaceProtected`, "
            "`ChildTabularProtected`, `NamespaceHasRunningTabularExpirations`",
        },
    ),
)
update_namespace_properties = extend_schema(
    operation_id="updateProperties",
    tags=CATALOG,
    summary="Set and remove properties of a namespace",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=UpdateNamespacePropertiesRequest,
    responses=_answers(
        {200: UpdateNamespacePropertiesResponse},
        {
            400: "`LocationCannotBeUpdated`, `LocationCannotBeRemoved`",
            404: _NO_NAMESPACE,
            413: _TOO_LARGE,
            422: "`UnprocessableEntityException`: a key is in both updates and removals",
        },
    ),
)

list_tables = extend_schema(
    operation_id="listTables",
    tags=CATALOG,
    summary="The tables of a namespace",
    parameters=[*_IN_NAMESPACE, *_PAGE, *_LISTING_EXTRAS],
    responses=_answers({200: ListTablesResponse}, {400: "`InvalidPaginationToken`", 404: _NO_NAMESPACE}),
)
create_table = extend_schema(
    operation_id="createTable",
    tags=CATALOG,
    summary="Make a table, or work out what it would be",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=CreateTableRequest,
    responses=_answers(
        {200: LoadTableResult},
        {
            400: f"{_LOCATION}; `InvalidLocation`: the chosen location is not empty",
            404: _NO_NAMESPACE,
            409: f"{_TAKEN}; `LocationAlreadyTaken`",
            413: _TOO_LARGE,
            503: f"{_STORE}; `SlowDownException`: files of a dropped table are still being deleted at the location",
        },
    ),
)
register_table = extend_schema(
    operation_id="registerTable",
    tags=CATALOG,
    summary="Make a table of a metadata file that lies in the warehouse already",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=RegisterTableRequest,
    responses=_answers(
        {200: LoadTableResult},
        {
            400: _LOCATION,
            404: f"{_NO_NAMESPACE}, `NotFoundException`: no such file",
            409: f"{_TAKEN}; `LocationAlreadyTaken`; `ProtectedTabularDeletionWithoutForce`: the one to overwrite",
            413: _TOO_LARGE,
            503: _STORE,
        },
    ),
)
load_table = extend_schema(
    operation_id="loadTable",
    tags=CATALOG,
    summary="A table's metadata, the newest version",
    parameters=[
        *_OF_TABLE,
        OpenApiParameter(
            "snapshots",
            OpenApiTypes.STR,
            enum=["all", "refs"],
            default="all",
            description="Show all snapshots, or only those that a branch or tag names",
        ),
        OpenApiParameter(
            "If-None-Match",
            OpenApiTypes.STR,
            OpenApiParameter.HEADER,
            description="The `ETag` of an earlier answer: if the table is still the same, 304 without a body",
        ),
        _REFERENCED_BY,
    ],
    responses=_answers(
        {200: LoadTableResult, **done("It is what `If-None-Match` says", status=304)},
        {
            400: _TOO_MANY_VIEWS,
            404: f"{_NO_TABLE}, `NotFoundException`: its metadata file is gone",
            503: _STORE,
        },
    ),
)
table_exists = extend_schema(
    operation_id="tableExists",
    tags=CATALOG,
    summary="Whether a table exists",
    parameters=_OF_TABLE,
    responses=_answers(done("It exists"), {404: "It does not exist"}, has_body=False),
)
update_table = extend_schema(
    operation_id="updateTable",
    tags=CATALOG,
    summary="Commit to a table: apply updates if all requirements hold",
    description="All or nothing, judged on the newest version. The new version is durable when the answer is sent.",
    parameters=[*_OF_TABLE, _IDEMPOTENCY_KEY],
    request=CommitTableRequest,
    responses=_answers(
        {200: CommitTableResponse},
        {
            400: f"{_LOCATION}; `TableIdentifierMismatch`: `identifier` is not the table of the path",
            404: _NO_TABLE,
            409: "`CommitFailedException`: certainly not committed, rebuild it on the newest version and try again; "
            "`AlreadyExistsException`, `LocationAlreadyTaken`",
            413: _TOO_LARGE,
            503: _STORE,
            500: "`CommitStateUnknownException`: it may have been committed, look before trying again",
        },
    ),
)
commit_transaction = extend_schema(
    operation_id="commitTransaction",
    tags=CATALOG,
    summary="Commit to several tables at once",
    description="All tables get their new version, or none does. Each may be there once; none is created.",
    parameters=[*_IN_WAREHOUSE, _IDEMPOTENCY_KEY],
    request=CommitTransactionRequest,
    responses=_answers(
        done("Committed"),
        {
            400: f"{_LOCATION}; `TableIdentifierRequiredForCommitTransaction`, `TableIdentifiersNotUnique`",
            404: _NO_TABLE,
            409: "`CommitFailedException`: certainly nothing committed",
            413: _TOO_LARGE,
            503: _STORE,
            500: "`CommitStateUnknownException`: it may have been committed, look before trying again",
        },
    ),
)
unregister_table = extend_schema(
    operation_id="unregisterTable",
    tags=CATALOG,
    summary="Forget a table and leave its files to whoever asks",
    parameters=[*_OF_TABLE, _IDEMPOTENCY_KEY],
    request=None,
    responses=_answers({200: CommitTableResponse}, {404: _NO_TABLE, 409: "`ProtectedTabularDeletionWithoutForce`"}),
)
drop_table = extend_schema(
    operation_id="dropTable",
    tags=CATALOG,
    summary="Forget a table",
    parameters=[*_OF_TABLE, _purge_requested(default=False), _FORCE, _IDEMPOTENCY_KEY],
    responses=_answers(done("Dropped"), {404: _NO_TABLE, 409: "`ProtectedTabularDeletionWithoutForce`"}),
)
rename_table = extend_schema(
    operation_id="renameTable",
    tags=CATALOG,
    summary="Give a table another name; its files stay where they are",
    parameters=[*_IN_WAREHOUSE, _IDEMPOTENCY_KEY],
    request=RenameTableRequest,
    responses=_answers(
        done("Renamed"),
        {404: f"{_NO_TABLE}, `NoSuchNamespaceException`: the destination's", 409: _TAKEN, 413: _TOO_LARGE},
    ),
)
report_metrics = extend_schema(
    operation_id="reportMetrics",
    tags=CATALOG,
    summary="Report what a scan or a commit did",
    description="Kept for some days and added up for each table and UTC day. Fields and metrics that this server does "
    "not know are taken as they are.",
    parameters=_OF_TABLE,
    request=ReportMetricsRequest,
    responses=_answers(done("Taken note of"), {404: _NO_TABLE, 413: _TOO_LARGE}),
)

list_views = extend_schema(
    operation_id="listViews",
    tags=CATALOG,
    summary="The views of a namespace",
    parameters=[*_IN_NAMESPACE, *_PAGE, *_LISTING_EXTRAS],
    responses=_answers({200: ListTablesResponse}, {400: "`InvalidPaginationToken`", 404: _NO_NAMESPACE}),
)
create_view = extend_schema(
    operation_id="createView",
    tags=CATALOG,
    summary="Make a view",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=CreateViewRequest,
    responses=_answers(
        {200: LoadViewResult},
        {
            400: f"{_LOCATION}; `EmptyView`; `IllegalArgumentException`: two texts of one dialect",
            404: _NO_NAMESPACE,
            409: f"{_TAKEN}; `LocationAlreadyTaken`",
            413: _TOO_LARGE,
            503: _STORE,
        },
    ),
)
register_view = extend_schema(
    operation_id="registerView",
    tags=CATALOG,
    summary="Make a view of a metadata file that lies in the warehouse already",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=RegisterViewRequest,
    responses=_answers(
        {200: LoadViewResult},
        {
            400: _LOCATION,
            404: f"{_NO_NAMESPACE}, `NotFoundException`: no such file",
            409: f"{_TAKEN}; `LocationAlreadyTaken`",
            413: _TOO_LARGE,
            503: _STORE,
        },
    ),
)
load_view = extend_schema(
    operation_id="loadView",
    tags=CATALOG,
    summary="A view's metadata, the newest version",
    parameters=_OF_VIEW,
    responses=_answers(
        {200: LoadViewResult}, {404: f"{_NO_VIEW}, `NotFoundException`: its metadata file is gone", 503: _STORE}
    ),
)
view_exists = extend_schema(
    operation_id="viewExists",
    tags=CATALOG,
    summary="Whether a view exists",
    parameters=_OF_VIEW,
    responses=_answers(done("It exists"), {404: "It does not exist"}, has_body=False),
)
replace_view = extend_schema(
    operation_id="replaceView",
    tags=CATALOG,
    summary="Commit to a view: apply updates if all requirements hold",
    description="All or nothing, judged on the newest version. The new version is durable when the answer is sent.",
    parameters=[*_OF_VIEW, _IDEMPOTENCY_KEY],
    request=CommitViewRequest,
    responses=_answers(
        {200: LoadViewResult},
        {
            400: f"{_LOCATION}; `EmptyView`; `IllegalArgumentException`: two texts of one dialect",
            404: _NO_VIEW,
            409: "`CommitFailedException`: certainly not committed; `LocationAlreadyTaken`",
            413: _TOO_LARGE,
            503: _STORE,
            500: "`CommitStateUnknownException`: it may have been committed, look before trying again",
        },
    ),
)
drop_view = extend_schema(
    operation_id="dropView",
    tags=CATALOG,
    summary="Forget a view",
    parameters=[*_OF_VIEW, _purge_requested(default=False), _FORCE, _IDEMPOTENCY_KEY],
    responses=_answers(done("Dropped"), {404: _NO_VIEW, 409: "`ProtectedTabularDeletionWithoutForce`"}),
)
rename_view = extend_schema(
    operation_id="renameView",
    tags=CATALOG,
    summary="Give a view another name; its files stay where they are",
    parameters=[*_IN_WAREHOUSE, _IDEMPOTENCY_KEY],
    request=RenameTableRequest,
    responses=_answers(
        done("Renamed"),
        {404: f"{_NO_VIEW}, `NoSuchNamespaceException`: the destination's", 409: _TAKEN, 413: _TOO_LARGE},
    ),
)
load_credentials = extend_schema(
    operation_id="loadCredentials",
    tags=CATALOG,
    summary="Credentials for a table's files",
    parameters=[*_OF_TABLE, _REFERENCED_BY],
    responses=_answers({200: LoadCredentialsResponse}, {400: _TOO_MANY_VIEWS, 404: _NO_TABLE}),
)
sign_request = extend_schema(
    operation_id="signRequest",
    tags=CATALOG,
    summary="Sign a request to the object store",
    description="No storage type of this version has it, so it is always refused and `/v1/config` leaves it out.",
    parameters=_OF_TABLE,
    request=RemoteSignRequest,
    responses=_answers({}, {400: "`UnsupportedStorageType`", 404: _NO_TABLE, 413: _TOO_LARGE}),
)

GENERIC_TABLE: Final = ["generic-table"]

list_generic_tables = extend_schema(
    operation_id="list_generic_tables",
    tags=GENERIC_TABLE,
    summary="The generic tables of a namespace",
    parameters=[*_IN_NAMESPACE, *_PAGE],
    responses=_answers({200: ListGenericTablesResponse}, {400: "`InvalidPaginationToken`", 404: _NO_NAMESPACE}),
)
create_generic_table = extend_schema(
    operation_id="create_generic_table",
    tags=GENERIC_TABLE,
    summary="Make a generic table",
    parameters=[*_IN_NAMESPACE, _IDEMPOTENCY_KEY],
    request=CreateGenericTableRequest,
    responses=_answers(
        {200: LoadGenericTableResponse},
        {
            400: "`InvalidName`, `InvalidFormat`, `PayloadTooLarge`: a part of the description is larger than 1 MiB; "
            "`InvalidLocation`: not in the warehouse",
            404: _NO_NAMESPACE,
            409: "`GenericTableAlreadyExists`; `AlreadyExistsException`: a table or view has the name; "
            "`LocationAlreadyTaken`",
            413: _TOO_LARGE,
        },
    ),
)
load_generic_table = extend_schema(
    operation_id="load_generic_table",
    tags=GENERIC_TABLE,
    summary="A generic table, as it was described",
    parameters=_OF_TABLE,
    responses=_answers({200: LoadGenericTableResponse}, {404: _NO_GENERIC_TABLE}),
)
drop_generic_table = extend_schema(
    operation_id="drop_generic_table",
    tags=GENERIC_TABLE,
    summary="Forget a generic table and, unless told otherwise, delete its files",
    parameters=[*_OF_TABLE, _purge_requested(default=True), _FORCE, _IDEMPOTENCY_KEY],
    responses=_answers(done("Dropped"), {404: _NO_GENERIC_TABLE, 409: "`ProtectedTabularDeletionWithoutForce`"}),
)
load_generic_table_credentials = extend_schema(
    operation_id="load_generic_table_credentials",
    tags=GENERIC_TABLE,
    summary="Credentials for a generic table's files",
    parameters=[*_OF_TABLE, _REFERENCED_BY],
    responses=_answers({200: LoadCredentialsResponse}, {400: _TOO_MANY_VIEWS, 404: _NO_GENERIC_TABLE}),
)
rename_generic_table = extend_schema(
    operation_id="rename_generic_table",
    tags=GENERIC_TABLE,
    summary="Give a generic table another name; its files stay where they are",
    parameters=[*_IN_WAREHOUSE, _IDEMPOTENCY_KEY],
    request=RenameTableRequest,
    responses=_answers(
        done("Renamed"),
        {
            404: f"{_NO_GENERIC_TABLE}, `NoSuchNamespaceException`: the destination's",
            409: "`GenericTableAlreadyExists`; `AlreadyExistsException`: a table or view has the name",
            413: _TOO_LARGE,
        },
    ),
)
