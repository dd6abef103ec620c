from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.api.operations.parameters import IDEMPOTENCY_KEY, IN_WAREHOUSE, LISTING_EXTRAS, OF_TABLE, REFERENCED_BY
from catalog.api.operations.refusals import (
    BAD_LOCATION,
    NO_METADATA_FILE,
    NO_TABLE,
    PROTECTED,
    STORE_FAILED,
    TAKEN,
    TOO_LARGE,
    TOO_MANY_VIEWS,
    UNKNOWN_STATE,
    answers_below_prefix,
)
from catalog.api.operations.tabulars import Kind, commit, creation, drop, existence, listing, registration, rename
from catalog.api.operations.tags import CATALOG
from catalog.api.shapes.tables import (
    CommitTableRequest,
    CommitTableResponse,
    CommitTransactionRequest,
    CreateTableRequest,
    LoadTableResult,
    RegisterTableRequest,
    ReportMetricsRequest,
)
from catalog.api.shapes.tabulars import ListTablesResponse
from icekeeper.kernel.http.serializers import empty_response

TABLE = Kind("table", CATALOG, OF_TABLE, missing=NO_TABLE, taken=TAKEN)

list_tables = listing("listTables", TABLE, ListTablesResponse, extras=LISTING_EXTRAS)
create_table = creation(
    "createTable",
    TABLE,
    CreateTableRequest,
    LoadTableResult,
    summary="Make a table, or work out what it would be",
    refusals={
        400: f"{BAD_LOCATION}; `InvalidLocation`: the chosen location is not empty",
        503: f"{STORE_FAILED}; `SlowDownException`: files of a dropped table are still being deleted at the location",
    },
)
register_table = registration(
    "registerTable",
    TABLE,
    RegisterTableRequest,
    LoadTableResult,
    conflicts=f"{TAKEN}; `LocationAlreadyTaken`; {PROTECTED}: the one to overwrite",
)
load_table = extend_schema(
    operation_id="loadTable",
    tags=CATALOG,
    summary="A table's metadata, the newest version",
    parameters=[
        *OF_TABLE,
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
        REFERENCED_BY,
    ],
    responses=answers_below_prefix(
        {200: LoadTableResult, **empty_response("It is what `If-None-Match` says", status=304)},
        {
            400: TOO_MANY_VIEWS,
            404: f"{NO_TABLE}, {NO_METADATA_FILE}",
            503: STORE_FAILED,
        },
    ),
)
table_exists = existence("tableExists", TABLE)
update_table = commit(
    "updateTable",
    TABLE,
    CommitTableRequest,
    CommitTableResponse,
    illegal=f"{BAD_LOCATION}; `TableIdentifierMismatch`: `identifier` is not the table of the path",
    conflicts="`CommitFailedException`: certainly not committed, rebuild it on the newest version and try again; "
    "`AlreadyExistsException`, `LocationAlreadyTaken`",
)
commit_transaction = extend_schema(
    operation_id="commitTransaction",
    tags=CATALOG,
    summary="Commit to several tables at once",
    description="All tables get their new version, or none does. Each may be there once; none is created.",
    parameters=[*IN_WAREHOUSE, IDEMPOTENCY_KEY],
    request=CommitTransactionRequest,
    responses=answers_below_prefix(
        empty_response("Committed"),
        {
            400: f"{BAD_LOCATION}; `TableIdentifierRequiredForCommitTransaction`, `TableIdentifiersNotUnique`",
            404: NO_TABLE,
            409: "`CommitFailedException`: certainly nothing committed",
            413: TOO_LARGE,
            503: STORE_FAILED,
            500: UNKNOWN_STATE,
        },
    ),
)
unregister_table = extend_schema(
    operation_id="unregisterTable",
    tags=CATALOG,
    summary="Forget a table and leave its files to whoever asks",
    parameters=[*OF_TABLE, IDEMPOTENCY_KEY],
    request=None,
    responses=answers_below_prefix({200: CommitTableResponse}, {404: NO_TABLE, 409: PROTECTED}),
)
drop_table = drop("dropTable", TABLE, summary="Forget a table", purges_unless_told=False)
rename_table = rename("renameTable", TABLE)
report_metrics = extend_schema(
    operation_id="reportMetrics",
    tags=CATALOG,
    summary="Report what a scan or a commit did",
    description="Kept for some days and added up for each table and UTC day. Fields and metrics that this server does "
    "not know are taken as they are.",
    parameters=OF_TABLE,
    request=ReportMetricsRequest,
    responses=answers_below_prefix(empty_response("Taken note of"), {404: NO_TABLE, 413: TOO_LARGE}),
)
