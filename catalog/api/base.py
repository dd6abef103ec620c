"""Base classes of the views of the REST catalog, and what tables, views and generic tables share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict, TypeVar, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from catalog.api.operation import (
    ACCESS_DELEGATION,
    FORCE,
    IDEMPOTENCY_KEY,
    PAGE_SIZE,
    PAGE_TOKEN,
    RETURN_PROTECTION,
    RETURN_UUIDS,
    WAREHOUSE_PATH,
    QueryFlag,
    operation,
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
from catalog.selectors.tables.load import LoadedTabular, list_tabulars_for
from catalog.selectors.warehouses import conceal_warehouse
from catalog.services.idempotency import IdempotencyKey, run_idempotent
from catalog.services.tables.drop import drop_tabular
from catalog.services.tables.register import register_tabular
from catalog.services.tables.rename import rename_tabular
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, MethodNotAllowed
from icekeeper.kernel.http.openapi import empty_response
from icekeeper.kernel.http.paging import Page, listing_key, page_with_size
from icekeeper.kernel.http.raw_path import decode_id, decode_levels, decode_segment
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.shapes import Uuid
from icekeeper.kernel.json.strict import read_json_object, write_json
from icekeeper.kernel.names import path_key
from storage.vending.delegation import RequestedAccess, parse_requested_access
from tenancy.actor import Actor
from tenancy.authn.requests import authenticate_request

T = TypeVar("T")

METHODS = ("get", "head", "post", "delete")
READS = frozenset({"GET", "HEAD", "OPTIONS"})


class PrefixIsNotWarehouseId(BadRequest):
    wire_type = "PrefixIsNotWarehouseID"


class InvalidIdempotencyKey(BadRequest):
    wire_type = "InvalidIdempotencyKey"


class DuplicateIdempotencyKey(BadRequest):
    wire_type = "DuplicateIdempotencyKey"


class CatalogViewSet(ViewSetMixin, APIView):
    """A resource of the REST catalog; its routes name an action for each method. Actions read `self.actor`."""

    actor: Actor

    posts_read: ClassVar = False
    """Whether a POST only reads."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Authenticate and run the action, without the parts of DRF that this API does not use."""
        try:
            self.actor = authenticate_request(request, is_reading=self.posts_read or request.method in READS)
            response = self._action(request)(request)
        except Exception as error:  # noqa: BLE001 - the one handler of all APIs gives the response
            response = error_response(self._visible_error(error))
            if isinstance(error, MethodNotAllowed):
                response.headers["Allow"] = ", ".join(name.upper() for name in METHODS if hasattr(self, name))
        return response

    def _action(self, request: HttpRequest) -> Callable[[HttpRequest], HttpResponse]:
        name = (request.method or "").lower()
        action: Callable[[HttpRequest], HttpResponse] | None = getattr(self, name, None) if name in METHODS else None
        if action is None:
            raise MethodNotAllowed(f"{request.method} is not allowed here")
        return action

    def _visible_error(self, error: Exception) -> Exception:
        """Return `error`, or not found if the caller may not know the warehouse of the path."""
        warehouse_id = decode_id(self.kwargs.get("prefix", ""))
        if warehouse_id is None or not isinstance(error, CatalogError) or not hasattr(self, "actor"):
            return error
        try:
            return conceal_warehouse(self.actor, warehouse_id, error)
        except Exception as another:  # noqa: BLE001 - the permission check itself failed
            return another

    def require_write_access(self, request: HttpRequest) -> None:
        """For a POST that is a write with some bodies. Raises what `authenticate_request` raises for writes."""
        authenticate_request(request, is_reading=False)

    @property
    def warehouse_id(self) -> UUID:
        warehouse_id = decode_id(self.kwargs["prefix"])
        if warehouse_id is None:
            raise PrefixIsNotWarehouseId("The prefix of the path must be the id of a warehouse")
        return warehouse_id

    @property
    def levels(self) -> Levels:
        """The namespace of the path."""
        return decode_levels(self.kwargs["namespace"])

    def body(self, request: HttpRequest, shape: type[T]) -> T:
        """Return the JSON object of the request. `shape` says which members are read; services check their types."""
        return cast("T", read_json_object(request.body))

    def page(self, request: HttpRequest, kind: str, levels: Levels = ()) -> Page:
        """Return the page of the listing of `kind` in the namespace `levels`; page tokens are valid for that one only.

        Without `pageToken` it has all entries; an empty token means the first page.
        """
        token = PAGE_TOKEN.read(request)
        if token is None:
            return Page(kind, None, None)
        limits = settings.ICEKEEPER
        return page_with_size(
            listing_key(kind, str(self.warehouse_id), path_key(levels)),
            token,
            PAGE_SIZE.read(request),
            PAGE_SIZE.name,
            default=limits.pagination_size_default,
            maximum=limits.pagination_size_max,
        )

    def idempotency_key(self, request: HttpRequest) -> IdempotencyKey | None:
        """Return the Idempotency-Key with the request's fingerprint; None without one or if the server takes none."""
        given = IDEMPOTENCY_KEY.read(request)
        if given is None or not settings.ICEKEEPER.idempotency.enabled:
            return None
        if "," in given:  # the server joins fields of one name
            raise DuplicateIdempotencyKey("Idempotency-Key was given twice")
        key = parse_id(given.strip())
        if key is None:
            raise InvalidIdempotencyKey("Idempotency-Key must be a UUID")
        digest = sha256()
        meta = request.META
        for part in (self.actor.name, request.method, meta["PATH_INFO"], meta["QUERY_STRING"]):
            digest.update(f"{part}\n".encode(errors="surrogatepass"))
        digest.update(request.body)
        return IdempotencyKey(self.warehouse_id, key, digest.digest(), self.actor)

    def run_idempotent(self, key: IdempotencyKey | None, action: Callable[[], T]) -> T:
        """Return what `action` returns. With a key it runs at most once; a repeated request gets the stored result."""
        if key is None:
            return action()

        def run() -> T:
            try:
                return action()
            except CatalogError as error:  # stored as the caller may see it
                raise conceal_warehouse(self.actor, key.warehouse_id, error) from error

        return run_idempotent(self.actor, key, run)


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


rename_operation = partial(
    operation,
    path=WAREHOUSE_PATH,
    parameters=[IDEMPOTENCY_KEY],
    request=RenameTableRequest,
    response=empty_response("Renamed"),
)
RegisterRequest = TypedDict(
    "RegisterRequest", {"name": str, "metadata-location": Annotated[str, "A metadata file in the warehouse"]}
)
StorageCredentials = Annotated[list[StorageCredential], "Empty on local files, which need none"]
LoadCredentialsResponse = TypedDict("LoadCredentialsResponse", {"storage-credentials": StorageCredentials})


class TabularViewSet(CatalogViewSet):
    kind: ClassVar[Tabular.Kind]
    name_segment: ClassVar = "table"
    """The segment of the path that has the name."""

    @cached_property
    def identifier(self) -> Identifier:
        """The namespace and name of the path."""
        return Identifier(self.levels, decode_segment(self.kwargs[self.name_segment]))

    def reader(self, request: HttpRequest) -> Reader:
        """Return the reader whose permissions decide. Raises as `parse_referenced_by` and `reader_through`."""
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
        levels = self.levels
        stored_levels, found, token = list_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=levels,
            kind=self.kind,
            page=self.page(request, f"{self.kind.value}s", levels),
        )
        listing: ListTablesResponse = {
            "identifiers": [{"namespace": stored_levels, "name": each.name} for each in found]
        }
        if with_uuids:
            listing["table-uuids"] = [str(each.uuid) for each in found]
        if with_protection:
            listing["protection-status"] = [each.is_protected for each in found]
        if token is not None:
            listing["next-page-token"] = token
        return json_response(listing)

    def drop_requested(self, request: HttpRequest, purge: QueryFlag) -> HttpResponse:
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

    def rename_requested(self, request: HttpRequest) -> HttpResponse:
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

    def register_requested(
        self, request: HttpRequest, body: RegisterRequest, *, overwrite: object = None
    ) -> tuple[LoadedTabular, Identifier]:
        idempotency_key = self.idempotency_key(request)
        registered = self.run_idempotent(
            idempotency_key,
            lambda: register_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                metadata_location=body.get("metadata-location"),
                kind=self.kind,
                overwrite=optional_flag(overwrite, "overwrite"),
                idempotency_key=idempotency_key,
            ),
        )
        return registered, Identifier(self.levels, str(body.get("name")))

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


def require_list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequest(f"{what}: must be a list")
    return value


def optional_list(value: object, what: str) -> list[Any]:
    """Null and absent are empty."""
    return [] if value is None else require_list(value, what)


def optional_flag(value: object, what: str) -> bool:
    """Null and absent are false."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRequest(f"{what}: must be true or false")
    return value


def json_response(value: Any) -> HttpResponse:
    return HttpResponse(write_json(value), content_type="application/json")


def no_content() -> HttpResponse:
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response
