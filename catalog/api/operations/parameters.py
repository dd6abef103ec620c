"""Parameters that several operations have, as the OpenAPI documents describe them."""

from __future__ import annotations

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.paging import MAX_PAGE_SIZE

_PREFIX: Final = OpenApiParameter(
    "prefix", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The warehouse's id: the `prefix` that config gives"
)
_NAMESPACE: Final = OpenApiParameter(
    "namespace",
    OpenApiTypes.STR,
    OpenApiParameter.PATH,
    description="The levels of the namespace, joined by U+001F (`%1F`), percent-encoded as one segment",
)
_TABLE: Final = OpenApiParameter(
    "table", OpenApiTypes.STR, OpenApiParameter.PATH, description="The table's name, percent-encoded"
)
_VIEW: Final = OpenApiParameter(
    "view", OpenApiTypes.STR, OpenApiParameter.PATH, description="The view's name, percent-encoded"
)
IN_WAREHOUSE: Final = [_PREFIX]
IN_NAMESPACE: Final = [_PREFIX, _NAMESPACE]
OF_TABLE: Final = [_PREFIX, _NAMESPACE, _TABLE]
OF_VIEW: Final = [_PREFIX, _NAMESPACE, _VIEW]

PAGE: Final = [
    OpenApiParameter(
        "pageToken",
        OpenApiTypes.STR,
        description="Without it everything is listed at once. Empty: the first page. Else `next-page-token` of a page",
    ),
    OpenApiParameter(
        "pageSize",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
        description="Entries of a page, if there are pages; the server has a default and a largest size",
    ),
]
LISTING_EXTRAS: Final = [
    OpenApiParameter("returnUuids", OpenApiTypes.BOOL, default=False, description="Also list their UUIDs"),
    OpenApiParameter(
        "returnProtectionStatus", OpenApiTypes.BOOL, default=False, description="Also list which are protected"
    ),
]
IDEMPOTENCY_KEY: Final = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.UUID,
    OpenApiParameter.HEADER,
    description="Sent again with the same key, the same request is not done again and gets the same answer. "
    "400 `InvalidIdempotencyKey`, `DuplicateIdempotencyKey`; `IdempotencyKeyReused`: it was given with another request",
)
REFERENCED_BY: Final = OpenApiParameter(
    "referenced-by",
    OpenApiTypes.STR,
    description="The views that it is read through, outermost first, separated by commas; of each the levels and the "
    "name, joined by U+001F (`%1F`) and percent-encoded. At most 10 (`LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH`). "
    "It counts for engines that are trusted with it, which read with the rights of the views' owners; 404 as for "
    "something missing where a view may not be used, 403 `AuthzBadRequest` where a view does not say who owns it",
)
