"""Routes of `/lakekeeper`: generic tables. Segments arrive as they were sent, as below `/catalog`."""

from __future__ import annotations

from django.urls import path

from catalog.api import segments
from catalog.api.generic_tables import (
    GenericTableCredentialsView,
    GenericTablesView,
    GenericTableView,
    RenameGenericTableView,
)

_TABLES = f"{segments.NAMESPACE}/generic-tables"

urlpatterns = [
    path(f"{_TABLES}/<segment:table>", GenericTableView.as_view(), name="generic-table"),
    path(_TABLES, GenericTablesView.as_view(), name="generic-tables"),
    path(f"{_TABLES}/<segment:table>/credentials", GenericTableCredentialsView.as_view(), name="generic-credentials"),
    path("v1/<segment:prefix>/generic-tables/rename", RenameGenericTableView.as_view(), name="rename-generic-table"),
]
