"""Why operations are refused, as the OpenAPI documents say it: wire types and what they mean."""

from __future__ import annotations

from typing import Any, Final

from icekeeper.kernel.http.serializers import operation_responses

NO_WAREHOUSE: Final = "`NoSuchWarehouseException`"
NO_NAMESPACE: Final = f"`NoSuchNamespaceException`, {NO_WAREHOUSE}"
NO_TABLE: Final = f"`NoSuchTableException`, {NO_WAREHOUSE}"
NO_VIEW: Final = f"`NoSuchViewException`, {NO_WAREHOUSE}"
NO_GENERIC_TABLE: Final = f"`NoSuchGenericTableException`, {NO_WAREHOUSE}"
NO_METADATA_FILE: Final = "`NotFoundException`: its metadata file is gone"
BAD_PAGE: Final = "`InvalidPaginationToken`"
BAD_LOCATION: Final = "`InvalidLocation`: not in the warehouse; `FormatVersionNotAllowed`"
TAKEN: Final = "`AlreadyExistsException`: the name is taken, by a table or a view"
PROTECTED: Final = "`ProtectedTabularDeletionWithoutForce`"
TOO_LARGE: Final = "`PayloadTooLargeException`"
OF_ITS_ENGINE: Final = "`ProtectedPropertyModification`, `DefinerViewModification`: that is left to a trusted engine"
TOO_MANY_VIEWS: Final = "`ReferencedByDepthExceeded`"
STORE_FAILED: Final = "`StorageUnavailableException`: the object store failed"
STORE_REFUSED: Final = "`StorageRefusedException`, `PermissionDenied`, `ShortTermCredentialError`: the store said no"
UNKNOWN_STATE: Final = "`CommitStateUnknownException`: it may have been committed, look before trying again"


def answers_below_prefix(
    success: dict[int, Any], refusals: dict[int, str], *, has_body: bool = True
) -> dict[int | str, Any]:
    """As `operation_responses`, of an operation whose path begins with a warehouse."""
    wrong_prefix = "`PrefixIsNotWarehouseID`"
    more = f"{wrong_prefix}, {refusals[400]}" if 400 in refusals else wrong_prefix  # noqa: PLR2004
    return operation_responses(success, {**refusals, 400: more}, has_body=has_body)
