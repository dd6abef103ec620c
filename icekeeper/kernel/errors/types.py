"""The one error tree: every refusal that a caller may see knows its HTTP status and its wire type.

Services, selectors and the metadata engine raise these; the exception handlers of the APIs turn them into the
envelope `{"error": {"message", "type", "code", "stack"}}`. A status code is written nowhere else.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CatalogError(Exception):
    """A refusal with a message meant for the caller.

    `status` is the HTTP status, `wire_type` the `error.type` that clients switch on, `retry_after` the seconds of a
    `Retry-After` header and `challenge` the `WWW-Authenticate` header (none when None), `is_final` whether sending the
    same again is pointless: the request and the state it met decided, not load or time, `is_on_purpose` whether a 5xx
    is what the operator wants, or the log tells of its cause once, so that it need not explain each, `about` how the
    caller named what is missing, with its type (`table sales.orders`), where that is not what we call it. `message`
    must never hold a secret.
    """

    status: ClassVar[int] = 500
    wire_type: ClassVar[str] = "InternalServerError"
    retry_after: ClassVar[int | None] = None
    challenge: str | None = None
    is_final: ClassVar[bool] = False
    is_on_purpose: ClassVar[bool] = False
    about: str | None = None

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        """`field` is the wrong member of the request, `hint` how to fix it: for forms, not part of the response."""
        super().__init__(message)
        self.message = message
        self.field, self.hint = field, hint

    def envelope(self, *, error_id: str) -> dict[str, Any]:
        """The wire form; `error_id` also stands in the log line of the request."""
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
    """For the few refusals that Java clients expect as an exception of their own language."""

    wire_type = "IllegalArgumentException"


class EmptyView(BadRequest):
    wire_type = "EmptyView"


class InvalidLocation(BadRequest):
    wire_type = "InvalidLocation"


class InvalidPageToken(BadRequest):
    wire_type = "InvalidPaginationToken"


class NoHostHeader(BadRequest):
    """Nothing in the request or the settings says under which address clients reach this server."""

    wire_type = "NoHostHeader"


# --- 401, 403: who asks ------------------------------------------------------------------------------------------


class Unauthorized(CatalogError):
    """Nobody is known who asks; the answer says how to tell (`WWW-Authenticate`, RFC 6750 §3)."""

    status, wire_type = 401, "NotAuthorizedException"
    challenge = "Bearer"


class Forbidden(CatalogError):
    status, wire_type = 403, "ForbiddenException"


# --- 404: there is no such thing, or the caller may not know that there is ---------------------------------------


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


# --- 409: the request is right, the state is not -----------------------------------------------------------------


class Conflict(CatalogError):
    status, wire_type, is_final = 409, "ConflictException", True


class AlreadyExists(Conflict):
    wire_type = "AlreadyExistsException"


class CommitFailed(Conflict):
    """The commit certainly did not happen; clients rebuild it on the newest metadata and try again."""

    wire_type = "CommitFailedException"


class CommitContended(CommitFailed):
    """As `CommitFailed`, but nothing in the request is wrong: others were faster, or the database was busy."""

    is_final = False


class NamespaceNotEmpty(Conflict):
    wire_type = "NamespaceNotEmptyException"


# --- the rest: size, time, load ----------------------------------------------------------------------------------


class MethodNotAllowed(CatalogError):
    status, wire_type = 405, "MethodNotAllowedException"


class RequestTimeout(CatalogError):
    """Time ran out before anything was written."""

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
    """RFC 9112 §6.1 asks for 501 when a request body comes in a transfer coding that the server does not know."""

    status, wire_type = 501, "UnsupportedTransferCodingException"


class UnprocessableEntity(CatalogError):
    status, wire_type, is_final = 422, "UnprocessableEntityException", True


class Busy(CatalogError):
    """Too much at once: the caller should come back. Nothing was changed."""

    status, wire_type, retry_after = 503, "SlowDownException", 2


class CommitStateUnknown(CatalogError):
    """The connection was lost while the database was asked to commit: it may or may not have happened."""

    status, wire_type = 500, "CommitStateUnknownException"
