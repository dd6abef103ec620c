"""Operations of the catalog: their parameters, each read and described by one object, and their OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, unquote_to_bytes

from django.conf import settings
from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from catalog.identifiers import Identifier
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.openapi import empty_response, operation_responses
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from icekeeper.kernel.json.shapes import Body
from icekeeper.kernel.names import LEVEL_SEPARATOR

F = TypeVar("F", bound=Callable[..., Any])

CATALOG: Final = "Catalog API"

_PREFIX: Final = OpenApiParameter(
    "prefix",
    OpenApiTypes.UUID,
    OpenApiParameter.PATH,
    description="The id of the warehouse: the `prefix` of its configuration",
)
_NAMESPACE: Final = OpenApiParameter(
    "namespace",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="The levels of the namespace, joined by U+001F (`%1F`), percent-encoded as one segment",
)
_TABLE: Final = OpenApiParameter(
    "table", OpenApiTypes.STR, OpenApiParameter.PATH, description="The name of the table, percent-encoded"
)
_VIEW: Final = OpenApiParameter(
    "view", OpenApiTypes.STR, OpenApiParameter.PATH, description="The name of the view, percent-encoded"
)
WAREHOUSE_PATH: Final = [_PREFIX]
NAMESPACE_PATH: Final = [_PREFIX, _NAMESPACE]
TABLE_PATH: Final = [_PREFIX, _NAMESPACE, _TABLE]
VIEW_PATH: Final = [_PREFIX, _NAMESPACE, _VIEW]

NO_WAREHOUSE: Final = "`NoSuchWarehouseException`"
NO_NAMESPACE: Final = f"`NoSuchNamespaceException`, {NO_WAREHOUSE}"
NO_TABLE: Final = f"`NoSuchTableException`, {NO_WAREHOUSE}"
NO_VIEW: Final = f"`NoSuchViewException`, {NO_WAREHOUSE}"
NO_GENERIC_TABLE: Final = f"`NoSuchGenericTableException`, {NO_WAREHOUSE}"
NO_METADATA_FILE: Final = "`NotFoundException`: its metadata file does not exist"
BAD_PAGE: Final = "`InvalidPaginationToken`"
BAD_LOCATION: Final = "`InvalidLocation`: not in the warehouse; `FormatVersionNotAllowed`"
NAME_TAKEN: Final = "`AlreadyExistsException`: a table or view has the name"
PROTECTED: Final = "`ProtectedTabularDeletionWithoutForce`"
TOO_LARGE: Final = "`PayloadTooLargeException`"
TOO_MANY_VIEWS: Final = "`ReferencedByDepthExceeded`"
STORE_FAILED: Final = "`StorageUnavailableException`: the object store failed"
STORE_DENIED: Final = "`StorageRefusedException`, `PermissionDenied`, `ShortTermCredentialError`: the store denied it"
UNKNOWN_STATE: Final = "`CommitStateUnknownException`: the commit may have succeeded, check before a retry"


REQUIREMENTS_DESCRIPTION: Final = "Conditions on the current metadata; if one is not met, nothing is changed (409)"
UPDATES_DESCRIPTION: Final = "Applied in their order"
COMMIT_DESCRIPTION: Final = (
    "All or nothing, checked against the newest version. The new version is durable when the response is sent."
)
REJECTED_BY_RULE: Final = "`ContractViolation`: a rule rejected the change, and the message has its name and reason"
WRITE_ERRORS: Final = {412: STORE_DENIED, 413: TOO_LARGE, 503: STORE_FAILED}
"""Of operations that write a metadata file or register one."""


class Decorator(Protocol):
    """Of an action, which it returns as it is."""

    def __call__(self, action: F, /) -> F: ...


def operation(
    operation_id: str,
    summary: str,
    *,
    path: Sequence[OpenApiParameter] = (),
    parameters: Sequence[OpenApiParameter] = (),
    request: Any = None,
    response: Any,
    errors: Mapping[int, str],
    description: str | None = None,
    tag: str = CATALOG,
    has_body: bool = True,
) -> Decorator:
    """Describe an action.

    `request` and `response` (200) are shapes; `response` may also be a mapping by status, as `empty_response` gives.
    `errors` are the wire types that are the operation's own, by status. `has_body` is False for HEAD.
    """
    own_errors = dict(errors)
    if _PREFIX in path:
        own_errors[400] = ", ".join(["`PrefixIsNotWarehouseID`", *([errors[400]] if 400 in errors else [])])  # noqa: PLR2004
    if IDEMPOTENCY_KEY in parameters:  # a write, which rules may reject
        parameters = [*parameters, OVERRIDE_RULES]
        own_errors[409] = "; ".join(filter(None, [own_errors.get(409), REJECTED_BY_RULE]))
    success = response if isinstance(response, dict) else {200: Body.of(response)}
    return extend_schema(
        operation_id=operation_id,
        tags=[tag],
        summary=summary,
        description=description,
        parameters=[*path, *parameters],
        request=None if request is None else Body.of(request),
        responses=operation_responses(success, own_errors, has_body=has_body),
    )


exists_operation = partial(
    operation, response=empty_response("It exists"), errors={404: "It does not exist"}, has_body=False
)


class QueryFlag(OpenApiParameter):
    """A parameter of the query that is true or false."""

    def __init__(self, name: str, description: str, *, default: bool = False) -> None:
        super().__init__(name, OpenApiTypes.BOOL, default=default, description=description)
        self._default = "true" if default else "false"

    def read(self, request: HttpRequest) -> bool:
        """`true` in any case of letters: PyIceberg sends `True`."""
        given = request.GET.get(self.name, self._default).lower()
        if given not in {"true", "false"}:
            raise BadRequest(f"{self.name}: must be true or false")
        return given == "true"


class QueryText(OpenApiParameter):
    """A parameter of the query."""

    def __init__(self, name: str, description: str, kind: Any = OpenApiTypes.STR, **options: Any) -> None:
        super().__init__(name, kind, description=description, **options)

    def read(self, request: HttpRequest) -> str | None:
        return request.GET.get(self.name)


class Header(OpenApiParameter):
    """A header of the request."""

    def __init__(self, name: str, description: str, kind: Any = OpenApiTypes.STR) -> None:
        super().__init__(name, kind, OpenApiParameter.HEADER, description=description)
        self._key = f"HTTP_{name.upper().replace('-', '_')}"

    def read(self, request: HttpRequest) -> str | None:
        value: str | None = request.META.get(self._key)
        return value


PAGE_TOKEN: Final = QueryText(
    "pageToken",
    "Without it everything is listed at once. Empty: the first page. Else `next-page-token` of a page",
)
PAGE_SIZE: Final = QueryText(
    "pageSize",
    "Maximum number of entries of a page, if there are pages; the server has a default and a maximum",
    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
)
RETURN_UUIDS: Final = QueryFlag("returnUuids", "Also list UUIDs")
RETURN_PROTECTION: Final = QueryFlag("returnProtectionStatus", "Also list which are protected")
PAGE: Final = [PAGE_TOKEN, PAGE_SIZE]
LISTING: Final = [PAGE_TOKEN, PAGE_SIZE, RETURN_UUIDS, RETURN_PROTECTION]

_PURGE: Final = "Also delete its files, by a task that is queued"
PURGE_REQUESTED: Final = QueryFlag("purgeRequested", _PURGE)
PURGE_UNLESS_FALSE: Final = QueryFlag("purgeRequested", _PURGE, default=True)
FORCE: Final = QueryFlag("force", "Also when it is protected; and for good, also in a soft-delete warehouse")

SNAPSHOTS: Final = QueryText(
    "snapshots",
    "Return all snapshots, or only those that a branch or tag references",
    enum=["all", "refs"],
    default="all",
)
REFERENCED_BY: Final = QueryText(
    "referenced-by",
    "The views that it is read through, outermost first, separated by commas; of each the levels and the "
    "name, joined by U+001F (`%1F`) and percent-encoded. At most 10 (`LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH`). "
    "Trusted engines alone may use it, to read with the rights of the views' owners; 404 as for something missing "
    "where a view may not be used, 403 `AuthzBadRequest` where a view has no owner",
)
IF_NONE_MATCH: Final = Header(
    "If-None-Match", "The `ETag` of an earlier response: 304 without a body if the table has not changed"
)
IDEMPOTENCY_KEY: Final = Header(
    "Idempotency-Key",
    "A request that is repeated with the same key is not executed again and gets the stored response. "
    "400 `InvalidIdempotencyKey`, `DuplicateIdempotencyKey`; `IdempotencyKeyReused`: used with another request before",
    OpenApiTypes.UUID,
)
OVERRIDE_RULES: Final = Header(
    "x-icekeeper-override-rules",
    "Override rules that reject the change: the reason, 1 to 200 characters, which is audited. Needs the permission to "
    "override rules where they are attached. 400 `InvalidRuleOverride`",
)
ACCESS_DELEGATION: Final = Header(
    "X-Iceberg-Access-Delegation",
    "How the client can access files, separated by commas: `vended-credentials`, `remote-signing`, or `client-managed` "
    "for neither. Default: what the warehouse offers, credentials first",
)


class ReferencedByDepthExceeded(BadRequest):
    wire_type = "ReferencedByDepthExceeded"


def parse_referenced_by(request: HttpRequest) -> tuple[Identifier, ...]:
    """Return the views of `referenced-by`, outermost first; none if it is absent, given twice, or malformed.

    It is split before it is decoded, as names may contain commas (`%2C`). Raises `ReferencedByDepthExceeded` (400).
    """
    query = request.META["QUERY_STRING"]
    if not query:  # most have none, and then there is nothing to parse
        return ()
    chains = list(_raw_values(query))
    limit = settings.ICEKEEPER.referenced_by.max_nesting_depth
    if any(chain.count(",") >= limit for chain in chains):
        raise ReferencedByDepthExceeded(f"{REFERENCED_BY.name}: more than {limit} views")
    if len(chains) != 1:
        return ()
    views = [_parse_view(text) for text in chains[0].split(",")]
    return () if None in views else tuple(view for view in views if view is not None)


def format_referenced_by(views: Sequence[Identifier]) -> str:
    """Return the query that `parse_referenced_by` reads `views` from."""
    named = ("%1F".join(quote(part, safe="") for part in (*view.levels, view.name)) for view in views)
    return f"{REFERENCED_BY.name}={','.join(named)}"


def _raw_values(query: str) -> Iterator[str]:
    """Yield the raw values of the parameter."""
    for field in query.split("&"):
        name, _, value = field.partition("=")
        if _decode(name) == REFERENCED_BY.name:
            yield value


def _parse_view(text: str) -> Identifier | None:
    """Parse levels and a name joined by U+001F."""
    decoded = _decode(text)
    *levels, name = (decoded or "").split(LEVEL_SEPARATOR)
    if not levels or not name or not all(levels):
        return None
    return Identifier(tuple(levels), name)


def _decode(text: str) -> str | None:
    """Return None if it is not UTF-8. The server passes bytes as characters of Latin-1."""
    try:
        return unquote_to_bytes(text.replace("+", " ").encode("latin-1")).decode()
    except UnicodeError:
        return None
