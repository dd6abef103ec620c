from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from catalog.api.base import IcebergView, no_content
from catalog.api.fields import flag, listed, optional_list
from catalog.api.operations import tables as operations
from catalog.api.render import commit_table_response, etag_of, known_etag, load_table_result, not_modified
from catalog.api.table_config import (
    TableAccessConfig,
    build_access_config,
    build_access_config_after_write,
    requested_delegation,
)
from catalog.identifiers import Identifier, path_key, require_identifier
from catalog.models import Tabular
from catalog.selectors.access.files import access_for, access_of_maker, access_to_written
from catalog.selectors.tables.load import (
    Loaded,
    StagedTable,
    load_tabular_for,
    require_tabular_exists,
    with_referenced_snapshots,
)
from catalog.services.commit.service import TableChanges, commit_table, commit_transaction
from catalog.services.metrics import report_metrics
from catalog.services.tables.create import create_table, files_to_write
from catalog.services.tables.drop import unregister_table
from catalog.services.tables.register import register_tabular
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor

TABLE = Tabular.Kind.TABLE


class TablesView(IcebergView):
    @operations.list_tables
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.listing(request, TABLE)

    @operations.create_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        created = self.perform(
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
                stage=flag(body.get("stage-create"), "stage-create"),
                idempotency_key=idempotency_key,
            ),
        )
        return _made(request, self.actor, self.warehouse_id, created, Identifier(self.levels, str(body.get("name"))))


class TableView(IcebergView):
    @operations.load_table
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        reader, table = self.reader(request, TABLE), self.identifier
        loaded = load_tabular_for(actor=reader.actor, warehouse_id=self.warehouse_id, identifier=table, kind=TABLE)
        files = loaded.files
        access = access_for(
            reader=reader, rights=loaded.rights, kind=TABLE, files=files, asked=requested_delegation(request)
        )
        has_query = bool(request.META["QUERY_STRING"])
        snapshots = "refs" if has_query and request.GET.get("snapshots", "").lower() == "refs" else "all"
        storage = files.storage if files else None
        etag = etag_of(loaded.metadata_location, snapshots, storage=storage, access=access, reader=reader)
        given = request.META.get("HTTP_IF_NONE_MATCH")
        if given is not None:
            known = known_etag(given, etag, ends=access is not None and access.delegation.vended)
            if known is not None:
                return not_modified(known)
        way = build_access_config(
            request, files, access, kind=TABLE, tabular_id=loaded.id, refreshed_as=table, reader=reader
        )
        if snapshots == "refs":
            loaded = with_referenced_snapshots(loaded)
        return load_table_result(loaded, way, etag=etag)

    @operations.table_exists
    def head(self, request: HttpRequest, **_: Any) -> HttpResponse:
        require_tabular_exists(actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=TABLE)
        return no_content()

    @operations.update_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        changes = _changes(_addressed(self.identifier, body.get("identifier")), body)
        committed = self.perform(
            idempotency_key,
            lambda: commit_table(
                actor=self.actor, warehouse_id=self.warehouse_id, changes=changes, idempotency_key=idempotency_key
            ),
        )
        return commit_table_response(committed)

    @operations.drop_table
    def delete(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.dropping(request, TABLE)


class RegisterTableView(IcebergView):
    @operations.register_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        registered = self.perform(
            idempotency_key,
            lambda: register_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                metadata_location=body.get("metadata-location"),
                kind=TABLE,
                overwrite=flag(body.get("overwrite"), "overwrite"),
                idempotency_key=idempotency_key,
            ),
        )
        return _made(request, self.actor, self.warehouse_id, registered, Identifier(self.levels, str(body.get("name"))))


class UnregisterTableView(IcebergView):
    @operations.unregister_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        last = self.perform(
            idempotency_key,
            lambda: unregister_table(
                actor=self.actor, warehouse_id=self.warehouse_id, table=self.identifier, idempotency_key=idempotency_key
            ),
        )
        return commit_table_response(last)


class RenameTableView(IcebergView):
    @operations.rename_table
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.renaming(request, TABLE)


class TransactionView(IcebergView):
    @operations.commit_transaction
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        changes = [
            _changes(_named(entry, f"table-changes[{index}]"), entry, f"table-changes[{index}].")
            for index, entry in enumerate(listed(body.get("table-changes"), "table-changes"))
        ]
        self.perform(
            idempotency_key,
            lambda: commit_transaction(
                actor=self.actor, warehouse_id=self.warehouse_id, changes=changes, idempotency_key=idempotency_key
            ),
        )
        return no_content()


class TableMetricsView(IcebergView):
    @operations.report_metrics
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        report_metrics(
            actor=self.actor, warehouse_id=self.warehouse_id, table=self.identifier, document=self.body(request)
        )
        return no_content()


class TableIdentifierRequired(BadRequest):
    wire_type = "TableIdentifierRequiredForCommitTransaction"


class TableIdentifierMismatch(BadRequest):
    wire_type = "TableIdentifierMismatch"


def _made(
    request: HttpRequest, actor: Actor, warehouse_id: UUID, table: Loaded | StagedTable, identifier: Identifier
) -> HttpResponse:
    """LoadTableResult of a table for whoever made it; a staged one has no ETag, as it has no version yet."""
    asked = requested_delegation(request)
    if isinstance(table, StagedTable):
        files = files_to_write(actor=actor, warehouse_id=warehouse_id, identifier=identifier, staged=table)
        if files is None:
            return load_table_result(table, TableAccessConfig(), etag=None)
        ticket = StagingTicket.of(
            actor=actor, warehouse_id=warehouse_id, levels=identifier.levels, location=files.locations[0]
        )
        access = access_of_maker(files, asked)
        way = build_access_config(
            request, files, access, kind=TABLE, tabular_id=None, refreshed_as=identifier, staged_as=ticket
        )
        return load_table_result(table, way, etag=None)
    files, access = access_to_written(
        actor=actor, kind=TABLE, tabular_id=table.id, files=table.files, asked=asked, warehouse_id=warehouse_id
    )
    etag = etag_of(table.metadata_location, storage=files.storage if files else None, access=access)
    way = build_access_config_after_write(
        request, files, access, kind=TABLE, tabular_id=table.id, refreshed_as=identifier
    )
    return load_table_result(table, way, etag=etag)


def _named(entry: object, place: str) -> Identifier:
    if not isinstance(entry, dict):
        raise BadRequest(f"{place}: must be an object")
    if entry.get("identifier") is None:
        raise TableIdentifierRequired(f"{place}: identifier is required")
    return require_identifier(entry["identifier"], f"{place}.identifier")


def _changes(table: Identifier, entry: dict[str, Any], place: str = "") -> TableChanges:
    return TableChanges(
        table=table,
        requirements=optional_list(entry.get("requirements"), f"{place}requirements"),
        updates=optional_list(entry.get("updates"), f"{place}updates"),
    )


def _addressed(path: Identifier, identifier: object) -> Identifier:
    """The table that a commit is for. The body may name it again; then it must be the one of the path.

    A client that took a branch for a table below the table (`ns.t.branch_b`) names the table itself.
    """
    if identifier is None:
        return path
    named = require_identifier(identifier, "identifier")
    if (named.path_key, named.name_key) == (path.path_key, path.name_key):
        return path
    is_branch = path.name.startswith("branch_") and path.path_key == path_key((*named.levels, named.name))
    if not is_branch:
        raise TableIdentifierMismatch(f"identifier: {named} is not the table of the path, {path}")
    return named
