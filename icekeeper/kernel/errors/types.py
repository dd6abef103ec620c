"""Base classes of all errors that clients see, each with its HTTP status and its wire type.

Services, selectors and the metadata engine raise them; the exception handler of the APIs renders the envelope
`{"error": {"message", "type", "code", "stack"}}`. No other code sets a status.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CatalogError(Exception):
    """An error whose message is meant for the client; it must not contain a secret."""

    status: ClassVar[int] = 500
    wire_type: ClassVar[str] = "InternalServerError"
    """`error.type` of the envelope, by which clients distinguish errors."""
    retry_after: ClassVar[int | None] = None
    """Seconds of the `Retry-After` header; no header when None."""
    challenge: str | None = None
    """The `WWW-Authenticate` header; no header when None."""
    is_final: ClassVar[bool] = False
    """Whether a retry is pointless: the request and the stored state cause the error, not load or time."""
    is_expected: ClassVar[bool] = False
    """Whether a 5xx needs no log line of its own: the operator wants it, or its cause is logged once."""
    about: str | None = None
    """The missing object as the caller named it, with its type (`table sales.orders`); for messages."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        """`field` is the invalid member of the request, `hint` how to fix it: for forms, not part of the response."""
        super().__init__(message)
        self.message = message
        self.field, self.hint = field, hint

    def envelope(self, *, error_id: str) -> dict[str, Any]:
        """Return the error as it is sent; the log line of the request has the `error_id` as well."""
        return {
            "error": {
                "message": self.message,
                "type": self.wire_type,
                "code": self.status,
                "stack": [f"Error ID: {error_id}"],
            }
        }


# --- 400: the request itself is wrong ---------------------------------------------------------------------------


class BadRequest(CatalogError):
    status, wire_type, is_final = 400, "BadRequestException", True


class IllegalArgument(BadRequest):
    """For the few errors that Java clients map to `IllegalArgumentException`."""

    wire_type = "IllegalArgumentException"


class EmptyView(BadRequest):
    wire_type = "EmptyView"


class InvalidLocation(BadRequest):
    wire_type = "InvalidLocation"


class InvalidPageToken(BadRequest):
    wire_type = "InvalidPaginationToken"


class NoHostHeader(BadRequest):
    """Neither the request nor a setting has the host of this server."""

    wire_type = "NoHostHeader"


# --- 401, 403: authentication and authorization ------------------------------------------------------------------


class Unauthorized(CatalogError):
    """The caller is not authenticated; the response has a `WWW-Authenticate` header (RFC 6750 §3)."""

    status, wire_type = 401, "NotAuthorizedException"
    challenge = "Bearer"


class Forbidden(CatalogError):
    status, wire_type = 403, "ForbiddenException"


# --- 404: the object does not exist, or is hidden from the caller ------------------------------------------------


class NotFound(CatalogError):
    status, wire_type, is_final = 404, "NotFoundException", True


class NoSuchNamespace(NotFound):
    wire_type = "NoSuchNamespaceException"


class NoSuchTable(NotFound):
    wire_type = "NoSuchTableException"


class NoSuchView(NotFound):
    wire_type = "NoSuchViewException"


class NoSuchGenericTable(NotFound):
    wire_type = "NoSuchGenericTableException"


class NoSuchWarehouse(NotFound):
    wire_type, is_final = "NoSuchWarehouseException", False


# --- 409: the request conflicts with the stored state ------------------------------------------------------------


class Conflict(CatalogError):
    status, wire_type, is_final = 409, "ConflictException", True


class AlreadyExists(Conflict):
    wire_type = "AlreadyExistsException"


class CommitFailed(Conflict):
    """The commit did not happen; clients rebuild it on the current metadata and retry."""

    wire_type = "CommitFailedException"


class CommitContended(CommitFailed):
    """A commit that lost against concurrent commits or failed because of load: the same request can be retried."""

    is_final = False


class NamespaceNotEmpty(Conflict):
    wire_type = "NamespaceNotEmptyException"


# --- the rest: size, time, load ----------------------------------------------------------------------------------


class MethodNotAllowed(CatalogError):
    status, wire_type = 405, "MethodNotAllowedException"


class RequestTimeout(CatalogError):
    """The request exceeded its deadline before anything was written."""

    status, wire_type = 408, "RequestTimeoutException"


class BodyTooLarge(CatalogError):
    status, wire_type = 413, "PayloadTooLargeException"


class UriTooLong(CatalogError):
    status, wire_type = 414, "UriTooLongException"


class ExpectationFailed(CatalogError):
    """An `Expect` header other than 100-continue."""

    status, wire_type = 417, "ExpectationFailedException"


class HeadersTooLarge(CatalogError):
    status, wire_type = 431, "RequestHeaderFieldsTooLargeException"


class UnsupportedTransferCoding(CatalogError):
    """The request body has an unknown transfer coding (RFC 9112 §6.1)."""

    status, wire_type = 501, "UnsupportedTransferCodingException"


class UnprocessableEntity(CatalogError):
    status, wire_type, is_final = 422, "UnprocessableEntityException", True


class Busy(CatalogError):
    """The server is overloaded; nothing was changed, and the client should retry."""

    status, wire_type, retry_after = 503, "SlowDownException", 2


class CommitStateUnknown(CatalogError):
    """The database connection was lost during a commit, which may or may not have happened."""

    status, wire_type = 500, "CommitStateUnknownException"
