"""Generic tables: list, create, load, drop, rename, credentials. Operation ids are Lakekeeper's."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api import operation as described
from catalog.api.base import (
    LoadCredentialsResponse,
    StorageCredentials,
    TabularViewSet,
    json_response,
    rename_operation,
)
from catalog.api.operation import (
    ACCESS_DELEGATION,
    BAD_PAGE,
    FORCE,
    IDEMPOTENCY_KEY,
    NAMESPACE_PATH,
    NO_GENERIC_TABLE,
    NO_NAMESPACE,
    PAGE,
    PROTECTED,
    PURGE_UNLESS_FALSE,
    REFERENCED_BY,
    STORE_DENIED,
    TABLE_PATH,
    TOO_LARGE,
    TOO_MANY_VIEWS,
)
from catalog.api.render import load_generic_table_response
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.tables.generic_tables import list_generic_tables_for, load_generic_table_for
from catalog.services.tables.create_generic_table import create_generic_table
from icekeeper.kernel.http.openapi import empty_response
from icekeeper.kernel.json.shapes import Keywords, Uuid

GENERIC_TABLE = Tabular.Kind.GENERIC_TABLE

_ANY_JSON: Final = "Any JSON, stored as it is, order of keys included; at most 1 MiB"

CreateGenericTableRequest = TypedDict(
    "CreateGenericTableRequest",
    {
        "name": str,
        "format": Annotated[str, Keywords(pattern=r"^[a-z][a-z0-9_-]{0,63}$"), "Such as lance or delta"],
        "base-location": NotRequired[
            Annotated[
                str | None,
                "A folder in the warehouse that neither lies in another table's folder nor contains one; it may have "
                "files already. Default: a folder of its own",
            ]
        ],
        "doc": NotRequired[str | None],
        "properties": NotRequired[dict[str, str] | None],
        "schema": NotRequired[Annotated[Any, Keywords(nullable=True), _ANY_JSON]],
        "statistics": NotRequired[Annotated[Any, Keywords(nullable=True), _ANY_JSON]],
    },
)
GenericTableDocument = TypedDict(
    "GenericTableDocument",
    {
        "name": str,
        "format": str,
        "base-location": str,
        "protected": Annotated[bool, "Whether a drop must be forced"],
        "doc": str | None,
        "properties": dict[str, str],
        "schema": Annotated[Any, Keywords(nullable=True)],
        "statistics": Annotated[Any, Keywords(nullable=True)],
    },
)
LoadGenericTableResponse = TypedDict(
    "LoadGenericTableResponse",
    {
        "table": GenericTableDocument,
        "config": Annotated[dict[str, str], "Settings for this table; empty on local files"],
        "storage-credentials": NotRequired[StorageCredentials],
    },
)


class GenericTableIdentifier(TypedDict):
    namespace: Annotated[Levels, "The levels of its namespace"]
    name: str
    format: str
    id: Uuid


ListGenericTablesResponse = TypedDict(
    "ListGenericTablesResponse",
    {
        "identifiers": Annotated[list[GenericTableIdentifier], "In order of creation"],
        "next-page-token": NotRequired[Annotated[str, "Absent on the last page"]],
    },
)

operation = partial(described.operation, tag="generic-table")
_NAME_TAKEN: Final = "`GenericTableAlreadyExists`; `AlreadyExistsException`: a table or view has the name"


class GenericTableViewSet(TabularViewSet):
    kind = GENERIC_TABLE

    @operation(
        "list_generic_tables",
        "List the generic tables of a namespace",
        path=NAMESPACE_PATH,
        parameters=PAGE,
        response=ListGenericTablesResponse,
        errors={400: BAD_PAGE, 404: NO_NAMESPACE},
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        found, token = list_generic_tables_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            page=self.page(request, "generic-tables", self.levels),
        )
        listing: dict[str, Any] = {"identifiers": [each.as_json() for each in found]}
        if token is not None:
            listing["next-page-token"] = token
        return json_response(listing)

    @operation(
        "create_generic_table",
        "Create a generic table",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=CreateGenericTableRequest,
        response=LoadGenericTableResponse,
        errors={
            400: "`InvalidName`, `InvalidFormat`, `PayloadTooLarge`: a part of the description is larger than 1 MiB; "
            "`InvalidLocation`: not in the warehouse",
            404: NO_NAMESPACE,
            409: f"{_NAME_TAKEN}; `LocationAlreadyTaken`",
            412: STORE_DENIED,
            413: TOO_LARGE,
        },
    )
    def create(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CreateGenericTableRequest), self.idempotency_key(request)
        created = self.run_idempotent(
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
        identifier = Identifier(self.levels, created.name)
        return load_generic_table_response(created, self.access_config_after_write(request, created, identifier))

    @operation(
        "load_generic_table",
        "Load a generic table",
        path=TABLE_PATH,
        parameters=[ACCESS_DELEGATION, REFERENCED_BY],
        response=LoadGenericTableResponse,
        errors={400: TOO_MANY_VIEWS, 404: NO_GENERIC_TABLE},
    )
    def load(self, request: HttpRequest) -> HttpResponse:
        reader = self.reader(request)
        loaded = load_generic_table_for(actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier)
        access = self.access_for(request, reader, loaded)
        return load_generic_table_response(loaded, self.access_config(request, reader, loaded, access))

    @operation(
        "drop_generic_table",
        "Drop a generic table and, by default, delete its files",
        path=TABLE_PATH,
        parameters=[PURGE_UNLESS_FALSE, FORCE, IDEMPOTENCY_KEY],
        response=empty_response("Dropped"),
        errors={404: NO_GENERIC_TABLE, 409: PROTECTED},
    )
    def drop(self, request: HttpRequest) -> HttpResponse:
        return self.drop_requested(request, PURGE_UNLESS_FALSE)

    @operation(
        "load_generic_table_credentials",
        "Load vended credentials for the files of a generic table",
        path=TABLE_PATH,
        parameters=[ACCESS_DELEGATION, REFERENCED_BY],
        response=LoadCredentialsResponse,
        errors={400: TOO_MANY_VIEWS, 404: NO_GENERIC_TABLE},
    )
    def load_credentials(self, request: HttpRequest) -> HttpResponse:
        return self.load_tabular_credentials(request)

    @rename_operation(
        "rename_generic_table",
        "Rename a generic table; its files stay where they are",
        tag="generic-table",
        errors={
            404: f"{NO_GENERIC_TABLE}, `NoSuchNamespaceException`: that of the destination",
            409: _NAME_TAKEN,
            413: TOO_LARGE,
        },
    )
    def rename(self, request: HttpRequest) -> HttpResponse:
        return self.rename_requested(request)
