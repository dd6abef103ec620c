"""Tables: list, create, register, load, commit, drop, rename, and what engines need of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api.base import (
    ListTablesResponse,
    LoadCredentialsResponse,
    RegisterRequest,
    StorageCredentials,
    TableIdentifier,
    TabularViewSet,
    no_content,
    optional_flag,
    optional_list,
    rename_operation,
    require_list,
)
from catalog.api.operation import (
    ACCESS_DELEGATION,
    BAD_LOCATION,
    BAD_PAGE,
    COMMIT_DESCRIPTION,
    FORCE,
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    LISTING,
    NAME_TAKEN,
    NAMESPACE_PATH,
    NO_METADATA_FILE,
    NO_NAMESPACE,
    NO_TABLE,
    PROTECTED,
    PURGE_REQUESTED,
    REFERENCED_BY,
    REQUIREMENTS_DESCRIPTION,
    SNAPSHOTS,
    STORE_DENIED,
    STORE_FAILED,
    TABLE_PATH,
    TOO_LARGE,
    TOO_MANY_VIEWS,
    UNKNOWN_STATE,
    UPDATES_DESCRIPTION,
    WAREHOUSE_PATH,
    WRITE_ERRORS,
    exists_operation,
    operation,
)
from catalog.api.render import (
    TableAccessConfig,
    build_access_config,
    commit_table_response,
    load_table_result,
    matching_etag,
    not_modified,
    table_etag,
)
from catalog.iceberg import shapes
from catalog.iceberg.metrics_reports import REPORTS
from catalog.iceberg.requirements import TABLE_REQUIREMENTS
from catalog.iceberg.updates import TABLE_UPDATES
from catalog.identifiers import Identifier, require_identifier
from catalog.models import Tabular
from catalog.selectors.access.files import access_of_creator
from catalog.selectors.tables.load import (
    LoadedTabular,
    StagedTable,
    load_tabular_for,
    require_tabular_exists,
    with_referenced_snapshots,
)
from catalog.services.commit.service import TableChanges, commit_table, commit_transaction
from catalog.services.metrics_reports import report_metrics
from catalog.services.tables.create import create_table, files_to_write
from catalog.services.tables.drop import unregister_table
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.openapi import empty_response
from icekeeper.kernel.json.shapes import Body, TaggedUnion
from icekeeper.kernel.names import lookup_key, path_key

TABLE = Tabular.Kind.TABLE

TableRequirement = Annotated[
    dict[str, Any],
    TaggedUnion("TableRequirement", "type", {name: kind.members for name, kind in TABLE_REQUIREMENTS.items()}),
]
TableUpdate = Annotated[
    dict[str, Any],
    TaggedUnion("TableUpdate", "action", {name: kind.members for name, kind in TABLE_UPDATES.items()}, suffix="Update"),
]

CreateTableRequest = TypedDict(
    "CreateTableRequest",
    {
        "name": str,
        "location": NotRequired[
            Annotated[
                str | None,
                "An empty folder in the warehouse that neither lies in another table's folder nor contains one. "
                "Default: `<location of the namespace>/<table uuid>`",
            ]
        ],
        "schema": Annotated[shapes.SchemaDocument, "New field ids are assigned, from 1"],
        "partition-spec": NotRequired[shapes.PartitionSpecDocument | None],
        "write-order": NotRequired[shapes.SortOrderDocument | None],
        "stage-create": NotRequired[
            Annotated[bool | None, "Only return the metadata; a commit that asserts `assert-create` creates the table"]
        ],
        "properties": NotRequired[
            Annotated[
                dict[str, str] | None,
                "`format-version` sets the version of the table, 1 to 4, of those that the warehouse allows",
            ]
        ],
    },
)
LoadTableResult = TypedDict(
    "LoadTableResult",
    {
        "metadata-location": Annotated[str | None, "Null for a staged table"],
        "metadata": Annotated[shapes.TableMetadataDocument, "Exactly the content of the file at `metadata-location`"],
        "config": Annotated[dict[str, str], "Settings for this table; empty on local files"],
        "storage-credentials": NotRequired[StorageCredentials],
    },
)


class RegisterTableRequest(RegisterRequest):
    overwrite: NotRequired[
        Annotated[bool | None, "Replace the table that has the name; the files of that one are kept"]
    ]


class CommitTableRequest(TypedDict):
    identifier: NotRequired[Annotated[TableIdentifier | None, "If given, that of the path"]]
    requirements: NotRequired[Annotated[list[TableRequirement] | None, REQUIREMENTS_DESCRIPTION]]
    updates: NotRequired[Annotated[list[TableUpdate] | None, UPDATES_DESCRIPTION]]


CommitTableResponse = TypedDict(
    "CommitTableResponse", {"metadata-location": str, "metadata": shapes.TableMetadataDocument}
)


class TableChangesDocument(TypedDict):
    identifier: TableIdentifier
    requirements: NotRequired[Annotated[list[TableRequirement] | None, REQUIREMENTS_DESCRIPTION]]
    updates: NotRequired[Annotated[list[TableUpdate] | None, UPDATES_DESCRIPTION]]


CommitTransactionRequest = TypedDict("CommitTransactionRequest", {"table-changes": list[TableChangesDocument]})
ReportMetricsRequest: Final = TaggedUnion("ReportMetricsRequest", "report-type", REPORTS)


class TableIdentifierRequired(BadRequest):
    wire_type = "TableIdentifierRequiredForCommitTransaction"


class TableIdentifierMismatch(BadRequest):
    wire_type = "TableIdentifierMismatch"


class TableViewSet(TabularViewSet):
    kind = TABLE

    @operation(
        "listTables",
        "List the tables of a namespace",
        path=NAMESPACE_PATH,
        parameters=LISTING,
        response=ListTablesResponse,
        errors={400: BAD_PAGE, 404: NO_NAMESPACE},
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        return self.list_tabulars(request)

    @operation(
        "createTable",
        "Create a table, or stage its creation",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=CreateTableRequest,
        response=LoadTableResult,
        errors={
            400: f"{BAD_LOCATION}; `InvalidLocation`: the chosen location is not empty",
            404: NO_NAMESPACE,
            409: f"{NAME_TAKEN}; `LocationAlreadyTaken`",
            412: STORE_DENIED,
            413: TOO_LARGE,
            503: f"{STORE_FAILED}; `SlowDownException`: files at the location are still being deleted",
        },
    )
    def create(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CreateTableRequest), self.idempotency_key(request)
        created = self.run_idempotent(
            idempotency_key,
            lambda: create_table(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                schema=body.get("schema"),
                partition_spec=body.get("partition-spec"),
                write_order=body.get("write-order"),
                location=body.get("location"),
                properties=body.get("properties"),
                stage=optional_flag(body.get("stage-create"), "stage-create"),
                idempotency_key=idempotency_key,
            ),
        )
        identifier = Identifier(self.levels, str(body.get("name")))
        if isinstance(created, StagedTable):
            return self._staged_table(request, created, identifier)
        return self._new_table(request, created, identifier)

    @operation(
        "registerTable",
        "Register a table by its metadata file",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=RegisterTableRequest,
        response=LoadTableResult,
        errors={
            **WRITE_ERRORS,
            400: BAD_LOCATION,
            404: f"{NO_NAMESPACE}, `NotFoundException`: no such file",
            409: f"{NAME_TAKEN}; `LocationAlreadyTaken`; {PROTECTED}: the one to overwrite",
        },
    )
    def register(self, request: HttpRequest) -> HttpResponse:
        body = self.body(request, RegisterTableRequest)
        registered, identifier = self.register_requested(request, body, overwrite=body.get("overwrite"))
        return self._new_table(request, registered, identifier)

    @operation(
        "loadTable",
        "Load a table",
        path=TABLE_PATH,
        parameters=[SNAPSHOTS, IF_NONE_MATCH, ACCESS_DELEGATION, REFERENCED_BY],
        response={
            200: Body.of(LoadTableResult),
            **empty_response("The table is as `If-None-Match` says", status=304),
        },
        errors={400: TOO_MANY_VIEWS, 404: f"{NO_TABLE}, {NO_METADATA_FILE}", 503: STORE_FAILED},
    )
    def load(self, request: HttpRequest) -> HttpResponse:
        reader = self.reader(request)
        loaded = load_tabular_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=TABLE
        )
        access = self.access_for(request, reader, loaded)
        has_query = bool(request.META["QUERY_STRING"])
        snapshots = "refs" if has_query and (SNAPSHOTS.read(request) or "").lower() == "refs" else "all"
        etag = table_etag(loaded.metadata_location, snapshots, access=access, reader=reader)
        given = IF_NONE_MATCH.read(request)
        if given is not None:
            known = matching_etag(given, etag, expires=access is not None and access.delegation.vended)
            if known is not None:
                return not_modified(known)
        access_config = self.access_config(request, reader, loaded, access)
        if snapshots == "refs":
            loaded = with_referenced_snapshots(loaded)
        return load_table_result(loaded, access_config, etag=etag)

    @exists_operation("tableExists", "Check whether a table exists", path=TABLE_PATH)
    def exists(self, request: HttpRequest) -> HttpResponse:
        require_tabular_exists(actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=TABLE)
        return no_content()

    @operation(
        "updateTable",
        "Commit updates to a table",
        path=TABLE_PATH,
        parameters=[IDEMPOTENCY_KEY],
        request=CommitTableRequest,
        response=CommitTableResponse,
        description=COMMIT_DESCRIPTION,
        errors={
            **WRITE_ERRORS,
            400: f"{BAD_LOCATION}; `TableIdentifierMismatch`: `identifier` is not the table of the path",
            404: NO_TABLE,
            409: "`CommitFailedException`: not committed, rebuild the commit on the newest version and retry; "
            "`AlreadyExistsException`, `LocationAlreadyTaken`",
            500: UNKNOWN_STATE,
        },
    )
    def commit(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CommitTableRequest), self.idempotency_key(request)
        changes = _changes(_committed_table(self.identifier, body.get("identifier")), body)
        committed = self.run_idempotent(
            idempotency_key,
            lambda: commit_table(
                actor=self.actor, warehouse_id=self.warehouse_id, changes=changes, idempotency_key=idempotency_key
            ),
        )
        return commit_table_response(committed)

    @operation(
        "commitTransaction",
        "Commit updates to several tables at once",
        path=WAREHOUSE_PATH,
        parameters=[IDEMPOTENCY_KEY],
        request=CommitTransactionRequest,
        response=empty_response("Committed"),
        description="All tables get a new version, or none does. Each table may occur once; none is created.",
        errors={
            400: f"{BAD_LOCATION}; `TableIdentifierRequiredForCommitTransaction`, `TableIdentifiersNotUnique`",
            404: NO_TABLE,
            409: "`CommitFailedException`: nothing is committed",
            413: TOO_LARGE,
            500: UNKNOWN_STATE,
            503: STORE_FAILED,
        },
    )
    def commit_transaction(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CommitTransactionRequest), self.idempotency_key(request)
        changes = [
            _changes(_required_identifier(entry, f"table-changes[{index}]"), entry, f"table-changes[{index}].")
            for index, entry in enumerate(require_list(body.get("table-changes"), "table-changes"))
        ]
        self.run_idempotent(
            idempotency_key,
            lambda: commit_transaction(
                actor=self.actor, warehouse_id=self.warehouse_id, changes=changes, idempotency_key=idempotency_key
            ),
        )
        return no_content()

    @operation(
        "unregisterTable",
        "Unregister a table and keep its files",
        path=TABLE_PATH,
        parameters=[IDEMPOTENCY_KEY],
        response=CommitTableResponse,
        errors={404: NO_TABLE, 409: PROTECTED},
    )
    def unregister(self, request: HttpRequest) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        last = self.run_idempotent(
            idempotency_key,
            lambda: unregister_table(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                table=self.identifier,
                idempotency_key=idempotency_key,
            ),
        )
        return commit_table_response(last)

    @operation(
        "dropTable",
        "Drop a table",
        path=TABLE_PATH,
        parameters=[PURGE_REQUESTED, FORCE, IDEMPOTENCY_KEY],
        response=empty_response("Dropped"),
        errors={404: NO_TABLE, 409: PROTECTED},
    )
    def drop(self, request: HttpRequest) -> HttpResponse:
        return self.drop_requested(request, PURGE_REQUESTED)

    @rename_operation(
        "renameTable",
        "Rename a table; its files stay where they are",
        errors={
            404: f"{NO_TABLE}, `NoSuchNamespaceException`: that of the destination",
            409: NAME_TAKEN,
            413: TOO_LARGE,
        },
    )
    def rename(self, request: HttpRequest) -> HttpResponse:
        return self.rename_requested(request)

    @operation(
        "loadCredentials",
        "Load vended credentials for the files of a table",
        path=TABLE_PATH,
        parameters=[ACCESS_DELEGATION, REFERENCED_BY],
        response=LoadCredentialsResponse,
        errors={400: TOO_MANY_VIEWS, 404: NO_TABLE},
    )
    def load_credentials(self, request: HttpRequest) -> HttpResponse:
        return self.load_tabular_credentials(request)

    @operation(
        "reportMetrics",
        "Report the metrics of a scan or a commit",
        path=TABLE_PATH,
        request=ReportMetricsRequest,
        response=empty_response("Stored"),
        description="Kept for some days and added up for each table and UTC day. Members and metrics that this server "
        "does not know are stored as they are.",
        errors={404: NO_TABLE, 413: TOO_LARGE},
    )
    def report_metrics(self, request: HttpRequest) -> HttpResponse:
        report_metrics(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            table=self.identifier,
            document=self.body(request, dict[str, Any]),
        )
        return no_content()

    def _new_table(self, request: HttpRequest, table: LoadedTabular, identifier: Identifier) -> HttpResponse:
        """Return LoadTableResult of a table that the caller has created or registered."""
        access_config = self.access_config_after_write(request, table, identifier)
        etag = table_etag(table.metadata_location, access=access_config.access)
        return load_table_result(table, access_config, etag=etag)

    def _staged_table(self, request: HttpRequest, table: StagedTable, identifier: Identifier) -> HttpResponse:
        """Return LoadTableResult without an ETag, as a staged table has no version yet."""
        files = files_to_write(actor=self.actor, warehouse_id=self.warehouse_id, identifier=identifier, staged=table)
        if files is None:
            return load_table_result(table, TableAccessConfig(), etag=None)
        ticket = StagingTicket.of(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=identifier.levels,
            location=files.locations[0],
        )
        access = access_of_creator(files, ACCESS_DELEGATION.read(request))
        access_config = build_access_config(
            request, files, access, kind=TABLE, tabular_id=None, identifier=identifier, ticket=ticket
        )
        return load_table_result(table, access_config, etag=None)


def _required_identifier(entry: object, where: str) -> Identifier:
    if not isinstance(entry, dict):
        raise BadRequest(f"{where}: must be an object")
    if entry.get("identifier") is None:
        raise TableIdentifierRequired(f"{where}: identifier is required")
    return require_identifier(entry["identifier"], f"{where}.identifier")


def _changes(table: Identifier, entry: Mapping[str, Any], where: str = "") -> TableChanges:
    return TableChanges(
        table=table,
        requirements=optional_list(entry.get("requirements"), f"{where}requirements"),
        updates=optional_list(entry.get("updates"), f"{where}updates"),
    )


def _committed_table(path: Identifier, identifier: object) -> Identifier:
    """Return the table that a commit is for. The body may name it again; then it must be the one of the path.

    A client that took a branch for a table below the table (`ns.t.branch_b`) names the table itself.
    """
    if identifier is None:
        return path
    named = require_identifier(identifier, "identifier")
    if (path_key(named.levels), lookup_key(named.name)) == (path_key(path.levels), lookup_key(path.name)):
        return path
    is_branch = path.name.startswith("branch_") and path_key(path.levels) == path_key((*named.levels, named.name))
    if not is_branch:
        raise TableIdentifierMismatch(f"identifier: {named} is not the table of the path, {path}")
    return named
