"""Routes of `/lakekeeper`: generic tables. Path segments are raw, as below `/catalog`."""

from __future__ import annotations

from django.urls import path

from catalog.api.generic_tables import GenericTableViewSet
from catalog.api.urls import NAMESPACE

_TABLES = f"{NAMESPACE}/generic-tables"
_TABLE = f"{_TABLES}/<segment:table>"
_generic_table = GenericTableViewSet.as_view

urlpatterns = [
    path(_TABLE, _generic_table({"get": "load", "delete": "drop"}), name="generic-table"),
    path(_TABLES, _generic_table({"get": "list", "post": "create"}), name="generic-tables"),
    path(f"{_TABLE}/credentials", _generic_table({"get": "load_credentials"}), name="generic-credentials"),
    path("v1/<segment:prefix>/generic-tables/rename", _generic_table({"post": "rename"}), name="rename-generic-table"),
]
