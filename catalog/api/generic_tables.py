from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request

from catalog.api.base import IcebergView, json_answer
from catalog.api.operations import generic_tables as operations
from catalog.api.render import load_generic_table_response
from catalog.api.table_config import build_access_config, build_access_config_after_write, requested_delegation
from catalog.models import Tabular
from catalog.selectors.access.files import access_for, access_to_written
from catalog.selectors.tables.generic_tables import list_generic_tables_for, load_generic_table_for
from catalog.services.tables.create_generic_table import create_generic_table

GENERIC_TABLE = Tabular.Kind.GENERIC_TABLE


class GenericTablesView(IcebergView):
    @operations.list_generic_tables
    def get(self, request: Request, **_: Any) -> HttpResponse:
        found, token = list_generic_tables_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            page=self.page(request, "generic-tables", self.levels),
        )
        answer: dict[str, Any] = {"identifiers": [each.as_json() for each in found]}
        if token is not None:
            answer["next-page-token"] = token
        return json_answer(answer)

    @operations.create_generic_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        created = self.perform(
            idempotency_key,
            lambda: create_generic_table(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                table_format=body.get("format"),
                base_location=body.get("base-location"),
                doc=body.get("doc"),
                properties=body.get("properties"),
                schema=body.get("schema"),
                statistics=body.get("statistics"),
                idempotency_key=idempotency_key,
            ),
        )
        files, access = access_to_written(
            actor=self.actor,
            kind=GENERIC_TABLE,
            tabular_id=created.id,
            files=created.files,
            asked=requested_delegation(request),
            warehouse_id=self.warehouse_id,
        )
        way = build_access_config_after_write(
            request, files, access, kind=GENERIC_TABLE, tabular_id=created.id, refreshed_as=None
        )
        return load_generic_table_response(created, way)


class GenericTableView(IcebergView):
    @operations.load_generic_table
    def get(self, request: Request, **_: Any) -> HttpResponse:
        reader = self.reader(request, GENERIC_TABLE)
        loaded = load_generic_table_for(actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier)
        files = loaded.files
        asked = requested_delegation(request)
        access = access_for(reader=reader, rights=loaded.rights, kind=GENERIC_TABLE, files=files, asked=asked)
        way = build_access_config(
            request, files, access, kind=GENERIC_TABLE, tabular_id=loaded.id, refreshed_as=None, reader=reader
        )
        return load_generic_table_response(loaded, way)

    @operations.drop_generic_table
    def delete(self, request: Request, **_: Any) -> HttpResponse:
        return self.dropping(request, GENERIC_TABLE, purges_unless_told=True)


class GenericTableCredentialsView(IcebergView):
    @operations.load_generic_table_credentials
    def get(self, request: Request, **_: Any) -> HttpResponse:
        return self.credentials(request, GENERIC_TABLE)


class RenameGenericTableView(IcebergView):
    @operations.rename_generic_table
    def post(self, request: Request, **_: Any) -> HttpResponse:
        return self.renaming(request, GENERIC_TABLE)
