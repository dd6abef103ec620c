"""The page SQL: an editor, the result as table, chart and CSV, and the last queries of the user."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.iceberg.display.sql_quoting import join_identifiers
from catalog.models import Tabular
from catalog.selectors.browse import locate_tabular_for
from catalog.services.row_access import ReadFailed
from catalog.services.sql_query import INSTALL, SqlResult, missing_packages, require_sql, run_sql
from icekeeper.kernel.errors.responses import ErrorResponse, error_response
from icekeeper.kernel.errors.types import CatalogError, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.form_pages import Action, FormPage, message_of
from management.admin.sql.result_chart import chart_context
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_of_all_projects
from management.csv_files import Number, csv_response
from management.models import SqlQuery
from management.sql_history import (
    delete_queries,
    delete_query,
    get_query_for,
    list_queries_for,
    recorded_query,
)
from storage.models import Warehouse

MAX_CELLS: Final = 20_000
"""Of the table on the page; a result with many columns has fewer rows there."""
MAX_TEXT: Final = 200
MAX_CSV_ROWS: Final = 100_000
MAX_CSV_TEXT: Final = 1_000_000
_SHOWN_SQL: Final = 300
"""Characters of a query in the history."""


class SqlPage(FormPage):
    """Runs one SELECT statement over tables of a warehouse, with the permissions of the user."""

    template_name = "console/sql.html"
    section = "sql"
    title = gettext_lazy("SQL")
    actions: ClassVar[Mapping[str, Action]] = {
        "run": Action("run"),
        "csv": Action("download"),
        "delete": Action("delete"),
        "delete-all": Action("delete_all"),
    }

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.result: dict[str, Any] = {}
        return super().dispatch(request, *args, **kwargs)

    @cached_property
    def warehouses(self) -> list[Warehouse]:
        return [each for each in list_warehouses_of_all_projects(self.actor) if each.status == Warehouse.Status.ACTIVE]

    def context(self) -> dict[str, Any]:
        """Users see and delete their queries also when none can be run."""
        is_on, missing = settings.ICEKEEPER.console.sql.enabled, missing_packages()
        can_run = is_on and bool(self.warehouses) and not missing
        return {
            "is_on": is_on,
            "missing": missing,
            "install": INSTALL,
            "can_run": can_run,
            "history": [_listed(each, can_run=can_run) for each in list_queries_for(actor=self.actor)],
            **(self._editor() if is_on else {}),
        }

    def _editor(self) -> dict[str, Any]:
        given = self._given()
        warehouse = choose_warehouse(self.actor, self.warehouses, given["warehouse"])
        return {
            "warehouses": [
                (str(each.pk), each.name, warehouse is not None and each.pk == warehouse.pk) for each in self.warehouses
            ],
            "sql": given["sql"],
            **self.result,
        }

    def _given(self) -> dict[str, str]:
        """Return warehouse and text: of the form, of a query in the history, or a first one for a table."""
        if self.request.method == "POST":
            return {"warehouse": self.text("warehouse"), "sql": self.text("sql")}
        if wanted := self.query("query"):
            found = get_query_for(actor=self.actor, query_id=_id(wanted))
            is_there = any(each.pk == found.warehouse_id for each in self.warehouses)
            return {"warehouse": str(found.warehouse_id) if is_there else "", "sql": found.sql}
        warehouse = self.query("warehouse")
        if wanted := self.query("table"):
            located = locate_tabular_for(
                actor=self.actor, warehouse_id=_id(warehouse), kind=Tabular.Kind.TABLE, uuid=_id(wanted)
            )
            name = join_identifiers((*located.identifier.levels, located.identifier.name))
            return {"warehouse": warehouse, "sql": f"SELECT *\nFROM {name}\nLIMIT 100"}
        return {"warehouse": warehouse, "sql": ""}

    def run(self) -> HttpResponse:
        began = time.monotonic()
        max_rows = settings.ICEKEEPER.console.sql.rows
        try:
            result = self._run(max_rows=max_rows, max_text=MAX_TEXT)
        except (ReadFailed, CatalogError) as error:
            return self._show_error(error)
        shown = max(1, min(max_rows, MAX_CELLS // max(1, len(result.columns))))
        are_numbers = [each.is_number for each in result.columns]
        self.result = {
            "result": result,
            "rows": [list(zip(row, are_numbers, strict=True)) for row in result.rows[:shown]],
            "is_cut": result.has_more or len(result.rows) > shown,
            "seconds": time.monotonic() - began,
            **chart_context(result, self.text("chart"), self.text("label"), self.text("value")),
        }
        return self.render(self.context())

    def download(self) -> HttpResponseBase:
        """Run the statement again, and return all its rows as CSV."""
        try:
            result = self._run(max_rows=MAX_CSV_ROWS, max_text=MAX_CSV_TEXT)
        except (ReadFailed, CatalogError) as error:
            return self._show_error(error)
        if result.has_more:
            too_many = _("The result has more than %(rows)s rows: add LIMIT") % {"rows": MAX_CSV_ROWS}
            return self._show_error(ReadFailed(too_many))
        rows = (
            [
                Number(value) if column.is_number and value is not None else value
                for value, column in zip(row, result.columns, strict=True)
            ]
            for row in result.rows
        )
        return csv_response("result", [each.name for each in result.columns], [rows])

    def _run(self, *, max_rows: int, max_text: int) -> SqlResult:
        warehouse_id, sql = _id(self.text("warehouse")), self.text("sql")
        require_sql(actor=self.actor, warehouse_id=warehouse_id, sql=sql)  # before anything is recorded
        with recorded_query(actor=self.actor, warehouse_id=warehouse_id, sql=sql) as query:
            result = run_sql(actor=self.actor, warehouse_id=warehouse_id, sql=sql, max_rows=max_rows, max_text=max_text)
            query.row_count = len(result.rows)
        return result

    def _show_error(self, error: ReadFailed | CatalogError) -> HttpResponse:
        """Return the page with the statement and the error; denials are audited as those of the APIs are."""
        if isinstance(error, ReadFailed):
            self.result = {"error": str(error)}
            return self.render(self.context(), status=400)
        found = error_response(error)
        self.result = {"error": message_of(found.error)}
        page = self.render(self.context()).content
        response = ErrorResponse(page, found.error, found.error_id, content_type="text/html; charset=utf-8")
        if "Retry-After" in found.headers:
            response.headers["Retry-After"] = found.headers["Retry-After"]
        return response

    def delete(self) -> HttpResponse:
        delete_query(actor=self.actor, query_id=_id(self.text("query")))
        return self.done(reverse("admin:sql"), _("The query was deleted."))

    def delete_all(self) -> HttpResponse:
        delete_queries(actor=self.actor)
        return self.done(reverse("admin:sql"), _("Your queries were deleted."))


def _listed(query: SqlQuery, *, can_run: bool) -> dict[str, Any]:
    """Return what the history shows of a query: a link to the editor where there is one, otherwise its whole text."""
    return {
        "id": str(query.pk),
        "url": f"{reverse('admin:sql')}?query={query.pk}" if can_run else "",
        "sql": query.sql[:_SHOWN_SQL] if can_run else query.sql,
        "status": query.status,
        "row_count": query.row_count,
        "at": query.started_at,
    }


def _id(text: str) -> UUID:
    found = parse_id(text)
    if found is None:
        raise NotFound("No such object")
    return found
