"""What the APIs of tables, views and generic tables have in common: list, drop, rename, credentials."""

from __future__ import annotations

from typing import Annotated, ClassVar, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api.base import CatalogViewSet, json_response, no_content
from catalog.api.parameters import (
    ACCESS_DELEGATION,
    FORCE,
    RETURN_PROTECTION,
    RETURN_UUIDS,
    QueryFlag,
    parse_referenced_by,
)
from catalog.api.render import (
    StorageCredential,
    TableAccessConfig,
    build_access_config,
    build_access_config_after_write,
)
from catalog.identifiers import Identifier, Levels, require_identifier
from catalog.models import Tabular
from catalog.selectors.access.files import (
    Access,
    ReadableTabular,
    Reader,
    access_for,
    access_to_written,
    find_files_for,
)
from catalog.selectors.access.view_chains import reader_through
from catalog.selectors.tables.load import list_tabulars_for
from catalog.services.tables.drop import drop_tabular
from catalog.services.tables.rename import rename_tabular
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.json.shapes import Uuid
from storage.vending.delegation import RequestedAccess, parse_requested_access


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

    def access_for(self, request: HttpRequest, reader: Reader, tabular: ReadableTabular) -> Access | None:
        """Return the access to the files that the client requests, as far as `reader` has it."""
        return access_for(reader=reader, kind=self.kind, tabular=tabular, requested=ACCESS_DELEGATION.read(request))

    def access_config(
        self, request: HttpRequest, reader: Reader, tabular: ReadableTabular, access: Access | None
    ) -> TableAccessConfig:
        """Build the config for a load, and vend credentials for `access`. Raises as `vend`."""
        return build_access_config(
            request,
            tabular.files,
            access,
            kind=self.kind,
            tabular_id=tabular.id,
            identifier=self.identifier,
            reader=reader,
        )

    def access_config_after_write(
        self, request: HttpRequest, written: ReadableTabular, identifier: Identifier
    ) -> TableAccessConfig:
        """As `access_config`, for the response to a committed write, which it never fails."""
        files, access = access_to_written(
            actor=self.actor,
            kind=self.kind,
            tabular_id=written.id,
            files=written.files,
            requested=ACCESS_DELEGATION.read(request),
            warehouse_id=self.warehouse_id,
        )
        return build_access_config_after_write(
            request, files, access, kind=self.kind, tabular_id=written.id, identifier=identifier
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
        reader = self.reader(request)
        found = find_files_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=self.kind
        )
        requested = ACCESS_DELEGATION.read(request)
        if parse_requested_access(requested) is RequestedAccess.CLIENT_MANAGED:
            requested = None  # a caller of this route wants credentials
        access = access_for(reader=reader, kind=self.kind, tabular=found, requested=requested)
        access_config = self.access_config(request, reader, found, access)
        response: LoadCredentialsResponse = {"storage-credentials": access_config.storage_credentials}
        return json_response(response)
