"""What the APIs of tables, views and generic tables have in common: list, drop, rename, credentials."""

from __future__ import annotations

from typing import Annotated, ClassVar, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api.base import CatalogViewSet, json_response, no_content
from catalog.api.parameters import FORCE, RETURN_PROTECTION, RETURN_UUIDS, QueryFlag
from catalog.api.referenced_by import parse_referenced_by
from catalog.api.table_config import StorageCredential, build_access_config, requested_delegation
from catalog.identifiers import Identifier, Levels, require_identifier
from catalog.models import Tabular
from catalog.selectors.access.files import Reader, access_for, find_files_for
from catalog.selectors.access.view_chains import reader_through
from catalog.selectors.tables.load import list_tabulars_for
from catalog.services.tables.drop import drop_tabular
from catalog.services.tables.rename import rename_tabular
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.json.shapes import Uuid
from storage.vending.delegation import RequestedAccess


class TableIdentifier(TypedDict):
    namespace: Annotated[Levels, "The levels of its namespace"]
    name: str


ListTablesResponse = TypedDict(
    "ListTablesResponse",
    {
        "identifiers": Annotated[list[TableIdentifier], "In order of creation"],
        "table-uuids": NotRequired[Annotated[list[Uuid], "With `returnUuids`, in the order of `identifiers`"]],
        "protection-status": NotRequired[Annotated[list[bool], "With `returnProtectionStatus`, in the same order"]],
        "next-page-token": NotRequired[Annotated[str, "Absent on the last page"]],
    },
)


class RenameTableRequest(TypedDict):
    source: TableIdentifier
    destination: Annotated[TableIdentifier, "In the same namespace or in another one, which must exist"]


StorageCredentials = Annotated[list[StorageCredential], "Empty on local files, which need none"]
LoadCredentialsResponse = TypedDict("LoadCredentialsResponse", {"storage-credentials": StorageCredentials})


class TabularViewSet(CatalogViewSet):
    kind: ClassVar[Tabular.Kind]
    name_segment: ClassVar = "table"
    """The segment of the path that has the name."""

    @property
    def identifier(self) -> Identifier:
        """The namespace and name of the path."""
        return Identifier(self.levels, decode_segment(self.kwargs[self.name_segment]))

    def reader(self, request: HttpRequest) -> Reader:
        """Return whose rights decide. Raises as `parse_referenced_by` and `reader_through`."""
        views = parse_referenced_by(request)
        if not views:
            return Reader(self.actor)
        return reader_through(
            views, actor=self.actor, warehouse_id=self.warehouse_id, kind=self.kind, identifier=self.identifier
        )

    def list_tabulars(self, request: HttpRequest) -> HttpResponse:
        with_uuids = RETURN_UUIDS.read(request)
        with_protection = RETURN_PROTECTION.read(request)
        levels, found, token = list_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            kind=self.kind,
            page=self.page(request, f"{self.kind.value}s", self.levels),
        )
        listing: ListTablesResponse = {"identifiers": [{"namespace": levels, "name": each.name} for each in found]}
        if with_uuids:
            listing["table-uuids"] = [str(each.uuid) for each in found]
        if with_protection:
            listing["protection-status"] = [each.is_protected for each in found]
        if token is not None:
            listing["next-page-token"] = token
        return json_response(listing)

    def drop_tabular(self, request: HttpRequest, purge: QueryFlag) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        self.run_idempotent(
            idempotency_key,
            lambda: drop_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                identifier=self.identifier,
                kind=self.kind,
                purge=purge.read(request),
                force=FORCE.read(request),
                idempotency_key=idempotency_key,
            ),
        )
        return no_content()

    def rename_tabular(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, RenameTableRequest), self.idempotency_key(request)
        self.run_idempotent(
            idempotency_key,
            lambda: rename_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                source=require_identifier(body.get("source"), "source"),
                destination=require_identifier(body.get("destination"), "destination"),
                kind=self.kind,
                idempotency_key=idempotency_key,
            ),
        )
        return no_content()

    def load_tabular_credentials(self, request: HttpRequest) -> HttpResponse:
        """Vend new credentials for the files."""
        reader, tabular, kind = self.reader(request), self.identifier, self.kind
        tabular_id, files, rights = find_files_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=tabular, kind=kind
        )
        requested = (
            requested_delegation(request) & ~RequestedAccess.CLIENT_MANAGED
        )  # a caller of this route wants credentials
        access = access_for(reader=reader, rights=rights, kind=kind, files=files, asked=requested)
        refreshed_as = tabular if kind == Tabular.Kind.TABLE else None
        access_config = build_access_config(
            request, files, access, kind=kind, tabular_id=tabular_id, refreshed_as=refreshed_as, reader=reader
        )
        response: LoadCredentialsResponse = {"storage-credentials": access_config.storage_credentials}
        return json_response(response)
