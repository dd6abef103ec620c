"""The OpenAPI description of one operation of the catalog, from the shapes and parameters that its action uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import operation_responses
from icekeeper.kernel.json.shapes import Body

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
