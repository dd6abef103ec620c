"""Remote signing of requests to object stores: one route for each form in which clients name the table."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, NotRequired, TypedDict, get_args

from django.http import HttpRequest, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from catalog.api.base import CatalogViewSet, json_response
from catalog.api.operation import (
    NO_TABLE,
    NO_WAREHOUSE,
    STORE_FAILED,
    TABLE_PATH,
    TOO_LARGE,
    WAREHOUSE_PATH,
    Decorator,
    operation,
)
from catalog.errors import no_such_object
from catalog.iceberg.json_fields import (
    as_string_map,
    optional_string,
    read_object,
    read_string,
    read_string_list,
    wrong_type,
)
from catalog.identifiers import Identifier
from catalog.services.signing import (
    Signed,
    sign_by_id,
    sign_by_location,
    sign_by_name,
    sign_staged,
    warehouse_required,
)
from catalog.services.tables.staging import StagingTicket
from icekeeper.kernel.http.raw_path import decode_id, decode_segment
from storage.signing.request import READING_METHODS, RequestToSign

Method = Literal["PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS"]
METHODS: Final = get_args(Method)


class RemoteSignRequest(TypedDict):
    region: str
    uri: str
    method: Annotated[Method, "GET, HEAD, PUT, POST and DELETE are signed"]
    headers: dict[str, list[str]]
    properties: NotRequired[dict[str, str] | None]
    body: NotRequired[Annotated[str | None, "Of DeleteObjects"]]
    provider: NotRequired[Literal["s3"] | None]


class RemoteSignResult(TypedDict):
    uri: Annotated[str, "As in the request"]
    headers: Annotated[dict[str, list[str]], "Those of the request, and those of the signature"]


_TABULAR_ID: Final = OpenApiParameter(
    "tabular_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="As in `signer.endpoint` of the table"
)
_TICKET: Final = OpenApiParameter(
    "ticket", OpenApiTypes.STR, OpenApiParameter.PATH, description="As in `signer.endpoint` of the staged table"
)
_CACHE_CONTROL: Final = OpenApiParameter(
    "Cache-Control",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`private`: the signature is valid for the same read again; `no-cache`: for this request alone",
    response=[200],
)
_DESCRIPTION: Final = (
    "For warehouses on S3 and compatible stores. Requests that clients of tables send are signed: read, write, upload "
    "in parts and delete objects of the table, list those in its folder, and delete many at once."
)
_NOT_SIGNED: Final = (
    "`UnsupportedStorageType`; `UriSchemeNotSupported`, `UriNoHost`, `UriNotS3`, `UriNotBucket`, "
    "`FailedToDecodeURISegment`, `InvalidObjectKey`, `UnsupportedQueryParameter`, `UnsupportedHeader`, "
    "`InvalidCopySource`; `ListWithoutPrefix`, `InvalidListPrefix`, `UnsupportedListParameter`, "
    "`RepeatedListParameter`; `DeleteWithoutBody`, `InvalidDeleteBody`; `RegionMismatch`; "
    "`RequestUriMismatch`: the files are not of the table"
)
_NO_LOCATION: Final = "`NoSuchTableLocationException`: no table with this location is visible to the caller"
_ERRORS: Final = {
    403: "`RemoteSigningDisabled`: disabled for the warehouse",
    405: "`MethodNotAllowed`: requests with this method are not signed",
    412: "`ShortTermCredentialError`: the server has no keys to sign with",
    413: TOO_LARGE,
    503: f"{STORE_FAILED}; `MaintenanceModeError`: no signatures for writes at the moment",
}


def _signing(operation_id: str, summary: str, path: list[OpenApiParameter], errors: dict[int, str]) -> Decorator:
    return operation(
        operation_id,
        summary,
        path=path,
        parameters=[_CACHE_CONTROL],
        request=RemoteSignRequest,
        response=RemoteSignResult,
        description=_DESCRIPTION,
        errors={**_ERRORS, **errors},
    )


class SigningViewSet(CatalogViewSet):
    """Signing reads; but a signature for a write needs the permission to write."""

    posts_read: ClassVar = True

    @_signing("signRequest", "Sign a request to files of a table", TABLE_PATH, {400: _NOT_SIGNED, 404: NO_TABLE})
    def sign_for_table(self, request: HttpRequest) -> HttpResponse:
        given = self._request_to_sign(request)
        identifier = Identifier(self.levels, decode_segment(self.kwargs["table"]))
        signed = sign_by_name(actor=self.actor, warehouse_id=self.warehouse_id, identifier=identifier, given=given)
        return _result(given, signed)

    @_signing(
        "signRequestOfTabular",
        "Sign a request to files of a table or generic table",
        [*WAREHOUSE_PATH, _TABULAR_ID],
        {400: f"{_NO_LOCATION}; {_NOT_SIGNED}", 404: NO_TABLE},
    )
    def sign_for_tabular(self, request: HttpRequest) -> HttpResponse:
        given = self._request_to_sign(request)
        tabular_id = decode_id(self.kwargs["tabular_id"])
        if tabular_id is None:
            raise no_such_object("table", self.kwargs["tabular_id"][:100])
        signed = sign_by_id(actor=self.actor, warehouse_id=self.warehouse_id, tabular_id=tabular_id, given=given)
        return _result(given, signed)

    @_signing(
        "signRequestOfStagedTable",
        "Sign a request to files of a staged table",
        [*WAREHOUSE_PATH, _TICKET],
        {400: f"`InvalidStagingTicket`; {_NO_LOCATION}; {_NOT_SIGNED}", 404: NO_WAREHOUSE},
    )
    def sign_for_staged(self, request: HttpRequest) -> HttpResponse:
        given = self._request_to_sign(request)
        ticket = StagingTicket.decode(decode_segment(self.kwargs["ticket"]))
        signed = sign_staged(actor=self.actor, warehouse_id=self.warehouse_id, ticket=ticket, given=given)
        return _result(given, signed)

    @_signing(
        "signRequestInWarehouse",
        "Sign a request by the location of its files",
        WAREHOUSE_PATH,
        {400: f"{_NO_LOCATION}; {_NOT_SIGNED}", 404: NO_WAREHOUSE},
    )
    def sign_in_warehouse(self, request: HttpRequest) -> HttpResponse:
        given = self._request_to_sign(request)
        signed = sign_by_location(actor=self.actor, warehouse_id=self.warehouse_id, given=given)
        return _result(given, signed)

    @operation(
        "signRequestWithoutWarehouse",
        "Deny a request to sign that names no warehouse",
        request=RemoteSignRequest,
        response={},
        description="Always 400: requests are signed for one warehouse.",
        errors={400: "`NoPrefixProvided`"},
    )
    def sign_without_warehouse(self, request: HttpRequest) -> HttpResponse:
        raise warehouse_required()

    def _request_to_sign(self, request: HttpRequest) -> RequestToSign:
        """Read the body. Raises `BadRequest`, and what `authenticate_request` raises for writes."""
        given = _read_request(self.body(request, RemoteSignRequest))
        if given.method not in READING_METHODS:
            self.require_write_access(request)
        return given


def _read_request(body: RemoteSignRequest) -> RequestToSign:
    headers = read_object(body, "headers", "")
    for name in headers:
        read_string_list(headers, name, "headers")
    if body.get("properties") is not None:
        as_string_map(body["properties"], "properties")
    provider = optional_string(body, "provider", "")
    if provider not in {None, "s3"}:
        raise wrong_type("provider", '"s3"', provider)
    method = read_string(body, "method", "")
    if method not in METHODS:
        raise wrong_type("method", f"one of {', '.join(METHODS)}", method)
    return RequestToSign(
        region=read_string(body, "region", ""),
        method=method,
        uri=read_string(body, "uri", ""),
        headers=headers,
        body=optional_string(body, "body", ""),
    )


def _result(given: RequestToSign, signed: Signed) -> HttpResponse:
    """Java's clients cache a signature if the header is exactly `private`."""
    result: RemoteSignResult = {"uri": given.uri, "headers": signed.headers}
    response = json_response(result)
    response.headers["Cache-Control"] = "private" if signed.is_reusable else "no-cache"
    return response
