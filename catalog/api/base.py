"""The one way into `/catalog`: decode the address, know the caller, read strict JSON, answer bytes."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.views import APIView

from catalog.api.fields import query_flag
from catalog.api.referenced_by import views_named
from catalog.api.table_config import build_access_config, requested_delegation
from catalog.identifiers import Identifier, Levels, path_key, require_identifier
from catalog.models import Tabular
from catalog.selectors.access.files import Reader, access_for, find_files_for
from catalog.selectors.access.view_chains import reader_through
from catalog.selectors.tables.load import list_tabulars_for
from catalog.selectors.warehouses import conceal_warehouse
from catalog.services.idempotency import IdempotencyKey, run_idempotent
from catalog.services.tables.drop import drop_tabular
from catalog.services.tables.rename import rename_tabular
from icekeeper.kernel.errors.responses import error_response
from icekeeper.kernel.errors.types import BadRequest, CatalogError, MethodNotAllowed
from icekeeper.kernel.http.paging import Page, listing_key, page_with_size
from icekeeper.kernel.http.raw_path import decode_id, decode_levels, decode_segment
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import read_json_object, write_json
from storage.vending.delegation import RequestedAccess
from tenancy.actor import Actor
from tenancy.authn.requests import authenticate_request

T = TypeVar("T")


class PrefixIsNotWarehouseId(BadRequest):
    wire_type = "PrefixIsNotWarehouseID"


METHODS = ("get", "head", "post", "delete")
READS = frozenset({"GET", "HEAD", "OPTIONS"})


class InvalidIdempotencyKey(BadRequest):
    wire_type = "InvalidIdempotencyKey"


class DuplicateIdempotencyKey(BadRequest):
    wire_type = "DuplicateIdempotencyKey"


class IcebergView(APIView):
    """A resource of the REST catalog. Subclasses read `self.actor`, `self.warehouse_id`, `self.levels`, `self.name`."""

    actor: Actor
    named_by: ClassVar = "table"
    """The argument of the route that names a tabular."""

    posts_read: ClassVar = False
    """Whether a POST changes nothing either."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """DRF's dispatch without what this API has no use for: wrapped requests, negotiation, versions, throttles."""
        try:
            self.actor = authenticate_request(request, is_reading=self.posts_read or request.method in READS)
            answer = self._method(request)(request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the one handler of all APIs turns it into an answer
            answer = error_response(self._as_told(error))
            if isinstance(error, MethodNotAllowed):
                answer.headers["Allow"] = ", ".join(name.upper() for name in METHODS if hasattr(self, name))
        return answer

    def _as_told(self, error: Exception) -> Exception:
        """`error`, less what the caller may not know of the warehouse in the path."""
        warehouse_id = decode_id(self.kwargs.get("prefix", ""))
        if warehouse_id is None or not isinstance(error, CatalogError) or not hasattr(self, "actor"):
            return error
        try:
            return conceal_warehouse(self.actor, warehouse_id, error)
        except Exception as another:  # noqa: BLE001 - rights could not be asked about
            return another

    def _method(self, request: HttpRequest) -> Callable[..., HttpResponse]:
        name = (request.method or "").lower()
        method: Callable[..., HttpResponse] | None = getattr(self, name, None) if name in METHODS else None
        if method is None:
            raise MethodNotAllowed(f"{request.method} is not allowed here")
        return method

    def admit_change(self, request: HttpRequest) -> None:
        """For a POST whose body decides whether it is a write. Raises what `authenticate_request` raises for writes."""
        authenticate_request(request, is_reading=False)

    @property
    def warehouse_id(self) -> UUID:
        warehouse_id = decode_id(self.kwargs["prefix"])
        if warehouse_id is None:
            raise PrefixIsNotWarehouseId("The prefix of the path must be the id of a warehouse")
        return warehouse_id

    @property
    def levels(self) -> Levels:
        return decode_levels(self.kwargs["namespace"])

    @property
    def identifier(self) -> Identifier:
        """Of the tabular in the path."""
        return Identifier(self.levels, decode_segment(self.kwargs[self.named_by]))

    def reader(self, request: HttpRequest, kind: Tabular.Kind) -> Reader:
        """Whose rights decide about the tabular of `kind` in the path. Raises as `views_named`, `reader_through`."""
        views = views_named(request)
        if not views:
            return Reader(self.actor)
        return reader_through(
            views, actor=self.actor, warehouse_id=self.warehouse_id, kind=kind, identifier=self.identifier
        )

    def body(self, request: HttpRequest) -> dict[str, Any]:
        return read_json_object(request.body)

    def page(self, request: HttpRequest, kind: str, levels: Levels = ()) -> Page:
        """Of the listing of `kind` in the namespace `levels`, to which its tokens are bound.

        Without `pageToken` everything is asked for; an empty one asks for the first page.
        """
        token = request.GET.get("pageToken")
        if token is None:
            return Page(kind, None, None)
        limits = settings.ICEKEEPER
        return page_with_size(
            listing_key(kind, str(self.warehouse_id), path_key(levels)),
            token,
            request.GET.get("pageSize"),
            "pageSize",
            default=limits.pagination_size_default,
            maximum=limits.pagination_size_max,
        )

    def listing(self, request: HttpRequest, kind: Tabular.Kind) -> HttpResponse:
        """ListTablesResponse of the namespace in the path; UUIDs and protection, in the same order, when asked for."""
        with_uuids = query_flag(request, "returnUuids")
        with_protection = query_flag(request, "returnProtectionStatus")
        levels, found, token = list_tabulars_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.levels,
            kind=kind,
            page=self.page(request, f"{kind.value}s", self.levels),
        )
        answer: dict[str, Any] = {"identifiers": [{"namespace": levels, "name": each.name} for each in found]}
        if with_uuids:
            answer["table-uuids"] = [str(each.uuid) for each in found]
        if with_protection:
            answer["protection-status"] = [each.is_protected for each in found]
        if token is not None:
            answer["next-page-token"] = token
        return json_answer(answer)

    def dropping(self, request: HttpRequest, kind: Tabular.Kind, *, purges_unless_told: bool = False) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        self.perform(
            idempotency_key,
            lambda: drop_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                identifier=self.identifier,
                kind=kind,
                purge=query_flag(request, "purgeRequested", default=purges_unless_told),
                force=query_flag(request, "force"),
                idempotency_key=idempotency_key,
            ),
        )
        return no_content()

    def renaming(self, request: HttpRequest, kind: Tabular.Kind) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        self.perform(
            idempotency_key,
            lambda: rename_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                source=require_identifier(body.get("source"), "source"),
                destination=require_identifier(body.get("destination"), "destination"),
                kind=kind,
                idempotency_key=idempotency_key,
            ),
        )
        return no_content()

    def credentials(self, request: HttpRequest, kind: Tabular.Kind) -> HttpResponse:
        """LoadCredentialsResponse of the tabular in the path, fresh ones. Local files need none."""
        reader, tabular = self.reader(request, kind), self.identifier
        tabular_id, files, rights = find_files_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=tabular, kind=kind
        )
        asked = requested_delegation(request) & ~RequestedAccess.CLIENT_MANAGED  # who asks here does not manage them
        access = access_for(reader=reader, rights=rights, kind=kind, files=files, asked=asked)
        refreshed_as = tabular if kind == Tabular.Kind.TABLE else None
        way = build_access_config(
            request, files, access, kind=kind, tabular_id=tabular_id, refreshed_as=refreshed_as, reader=reader
        )
        return json_answer({"storage-credentials": way.storage_credentials})

    def idempotency_key(self, request: HttpRequest) -> IdempotencyKey | None:
        """The request's Idempotency-Key with what it stands for; None when it has none, or the server takes none."""
        given = request.META.get("HTTP_IDEMPOTENCY_KEY")
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

    def perform(self, idempotency_key: IdempotencyKey | None, act: Callable[[], T]) -> T:
        """What `act` returns; with a key it is done at most once, and what it returned then is returned again."""
        if idempotency_key is None:
            return act()

        def told() -> T:
            try:
                return act()
            except CatalogError as error:  # what is kept of it is what is told of it
                raise conceal_warehouse(self.actor, idempotency_key.warehouse_id, error) from error

        return run_idempotent(self.actor, idempotency_key, told)


def json_answer(value: Any) -> HttpResponse:
    return HttpResponse(write_json(value), content_type="application/json")


def no_content() -> HttpResponse:
    answer = HttpResponse(status=204)
    del answer.headers["Content-Type"]
    return answer
