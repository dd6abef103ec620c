"""Parameters of the catalog's operations: each is read and described by one object."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE


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
ACCESS_DELEGATION: Final = Header(
    "X-Iceberg-Access-Delegation",
    "How the client can access files, separated by commas: `vended-credentials`, `remote-signing`, or `client-managed` "
    "for neither. Default: what the warehouse offers, credentials first",
)
