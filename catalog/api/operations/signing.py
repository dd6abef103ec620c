from __future__ import annotations

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.api.operations.parameters import IN_WAREHOUSE, OF_TABLE
from catalog.api.operations.refusals import NO_TABLE, NO_WAREHOUSE, STORE_FAILED, TOO_LARGE, answers_below_prefix
from catalog.api.operations.tabulars import Decorator
from catalog.api.operations.tags import CATALOG
from catalog.api.shapes.signing import RemoteSignRequest, RemoteSignResult
from icekeeper.kernel.http.serializers import operation_responses

_CACHE_CONTROL: Final = OpenApiParameter(
    "Cache-Control",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`private`: the signature serves for the same read again; `no-cache`: for this request alone",
    response=[200],
)
_DESCRIPTION: Final = (
    "For warehouses on S3 and what speaks like it. Signed are the requests that clients of tables send: to read, "
    "write, "
    "upload in parts and delete objects of the table, to list those in its folder, and to delete many at once."
)
_NOT_SIGNED: Final = (
    "`UnsupportedStorageType`; `UriSchemeNotSupported`, `UriNoHost`, `UriNotS3`, `UriNotBucket`, "
    "`FailedToDecodeURISegment`, `InvalidObjectKey`, `UnsupportedQueryParameter`, `UnsupportedHeader`, "
    "`InvalidCopySource`; `ListWithoutPrefix`, `InvalidListPrefix`, `UnsupportedListParameter`, "
    "`RepeatedListParameter`; `DeleteWithoutBody`, `InvalidDeleteBody`; `RegionMismatch`; "
    "`RequestUriMismatch`: about files that are not the table's"
)
_NO_PLACE: Final = "`NoSuchTableLocationException`: no table is there, or none that the caller may know of"
_REFUSALS: Final = {
    403: "`RemoteSigningDisabled`: the warehouse does not have it",
    405: "`MethodNotAllowed`: requests with this method are not signed",
    412: "`ShortTermCredentialError`: the server has no keys to sign with",
    413: TOO_LARGE,
    503: f"{STORE_FAILED}; `MaintenanceModeError`: signatures for changes wait",
}


def _signing(
    operation_id: str, summary: str, parameters: list[OpenApiParameter], refusals: dict[int, str]
) -> Decorator:
    return extend_schema(
        operation_id=operation_id,
        tags=CATALOG,
        summary=summary,
        description=_DESCRIPTION,
        parameters=[*parameters, _CACHE_CONTROL],
        request=RemoteSignRequest,
        responses=answers_below_prefix({200: RemoteSignResult}, {**_REFUSALS, **refusals}),
    )


_TABULAR: Final = OpenApiParameter(
    "tabular_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="As `signer.endpoint` of the table has it"
)
_TICKET: Final = OpenApiParameter(
    "ticket", OpenApiTypes.STR, OpenApiParameter.PATH, description="As `signer.endpoint` of the staged table has it"
)

sign_for_table = _signing(
    "signRequest", "Sign a request to files of a table", OF_TABLE, {400: _NOT_SIGNED, 404: NO_TABLE}
)
sign_for_tabular = _signing(
    "signRequestOfTabular",
    "Sign a request to files of a table or generic table",
    [*IN_WAREHOUSE, _TABULAR],
    {400: f"{_NO_PLACE}; {_NOT_SIGNED}", 404: NO_TABLE},
)
sign_for_staged = _signing(
    "signRequestOfStagedTable",
    "Sign a request to files of a table that is staged",
    [*IN_WAREHOUSE, _TICKET],
    {400: f"`InvalidStagingTicket`; {_NO_PLACE}; {_NOT_SIGNED}", 404: NO_WAREHOUSE},
)
sign_in_warehouse = _signing(
    "signRequestInWarehouse",
    "Sign a request to files of whatever table lies there",
    IN_WAREHOUSE,
    {400: f"{_NO_PLACE}; {_NOT_SIGNED}", 404: NO_WAREHOUSE},
)
sign_anywhere = extend_schema(
    operation_id="signRequestWithoutWarehouse",
    tags=CATALOG,
    summary="Always refused: requests are signed for one warehouse",
    request=RemoteSignRequest,
    responses=operation_responses({}, {400: "`NoPrefixProvided`"}),
)
