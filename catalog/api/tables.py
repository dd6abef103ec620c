from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from catalog.api import operations
from catalog.api.base import IcebergView, json_answer, no_content
from catalog.api.render import commit_table_response, load_table_result
from catalog.identifiers import Identifier, require_identifier
from catalog.selectors.tables import list_tables_for, load_table_for, require_table_exists
from catalog.services.commits import commit_table
from catalog.services.creation import create_table, register_table
from catalog.services.metrics import report_metrics
from catalog.services.tables import drop_table, rename_table
from icekeeper.kernel.errors import BadRequest


class TablesView(IcebergView):
    @operations.list_tables
    def get(self, request: Request, **_: Any) -> HttpResponse:
        tables, token = list_tables_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            page=self.page(request, "tables"),
        )
        answer: dict[str, Any] = {"identifiers": [table.as_json() for table in tables]}
        if token is not None:
            answer["next-page-token"] = token
        return json_answer(answer)

    @operations.create_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body = self.body(request)
        created = create_table(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            name=body.get("name"),
            schema=body.get("schema"),
            partition_spec=body.get("partition-spec"),
            write_order=body.get("write-order"),
            location=body.get("location"),
            properties=body.get("properties"),
            stage=_flag(body.get("stage-create"), "stage-create"),
        )
        return load_table_result(created)


class TableView(IcebergView):
    @operations.load_table
    def get(self, request: Request, **_: Any) -> HttpResponse:
        return load_table_result(load_table_for(actor=self.actor, warehouse_id=self.warehouse_id, table=self.table))

    @operations.table_exists
    def head(self, request: Request, **_: Any) -> HttpResponse:
        require_table_exists(actor=self.actor, warehouse_id=self.warehouse_id, table=self.table)
        return no_content()

    @operations.update_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body = self.body(request)
        table = self.table
        _require_same(table, body.get("identifier"))
        committed = commit_table(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            table=table,
            requirements=_list(body.get("requirements"), "requirements"),
            updates=_list(body.get("updates"), "updates"),
        )
        return commit_table_response(committed)

    @operations.drop_table
    def delete(self, request: Request, **_: Any) -> HttpResponse:
        drop_table(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            table=self.table,
            purge=_query_flag(request, "purgeRequested"),
            force=_query_flag(request, "force"),
        )
        return no_content()


class RegisterTableView(IcebergView):
    @operations.register_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body = self.body(request)
        registered = register_table(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            name=body.get("name"),
            metadata_location=body.get("metadata-location"),
            overwrite=_flag(body.get("overwrite"), "overwrite"),
        )
        return load_table_result(registered)


class RenameTableView(IcebergView):
    @operations.rename_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body = self.body(request)
        rename_table(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            source=require_identifier(body.get("source"), "source"),
            destination=require_identifier(body.get("destination"), "destination"),
        )
        return no_content()


class TableMetricsView(IcebergView):
    @operations.report_metrics
    def post(self, request: Request, **_: Any) -> HttpResponse:
        report_metrics(actor=self.actor, warehouse_id=self.warehouse_id, table=self.table, document=self.body(request))
        return no_content()


def _require_same(table: Identifier, identifier: object) -> None:
    """A commit may repeat the table's name; then it must be the one of the path."""
    if identifier is None:
        return
    named = require_identifier(identifier, "identifier")
    if (named.path_key, named.name_key) != (table.path_key, table.name_key):
        raise BadRequest(f"identifier: {named} is not the table of the path, {table}")


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequest(f"{what}: must be a list")
    return value


def _flag(value: object, what: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRequest(f"{what}: must be true or false")
    return value


def _query_flag(request: Request, name: str) -> bool:
    """`true` in any case: PyIceberg writes `True`."""
    given = request.GET.get(name, "false").lower()
    if given not in {"true", "false"}:
        raise BadRequest(f"{name}: must be true or false")
    return given == "true"
