"""Error responses: the exception handler of all APIs, and their envelope."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from psycopg_pool import PoolTimeout
from rest_framework import exceptions

from icekeeper.kernel.db.transactions import is_overload
from icekeeper.kernel.errors.types import (
    BadRequest,
    BodyTooLarge,
    Busy,
    CatalogError,
    CommitStateUnknown,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.request_context import deadline_expired, has_written

logger = logging.getLogger("icekeeper.errors")

_NO_CONNECTION = "No database connection is available; nothing was changed, try again"
_AFTER_A_CHANGE = "The database failed after something was changed: check the result before you try again"


class ErrorResponse(HttpResponse):
    """The response for an error; the request's log line has its `error` and `error_id`."""

    def __init__(self, content: bytes | str, error: CatalogError, error_id: str, *, content_type: str) -> None:
        super().__init__(content, content_type=content_type, status=error.status)
        self.error, self.error_id = error, error_id


def error_response(error: Exception, context: dict[str, Any] | None = None) -> ErrorResponse:
    """Return the response for `error`; DRF's `EXCEPTION_HANDLER`.

    The envelope has an error id, which the log line of the request has as well. Only the log has the reason of a 5xx.
    """
    known = to_catalog_error(error)
    error_id = str(new_id())
    if known is None:
        logger.error("unexpected error", exc_info=error, extra={"error_id": error_id})
        known = CatalogError("Unexpected error of the server; its log has the details under this error id")
    elif known.status >= 500 and not known.is_expected:  # noqa: PLR2004
        logger.error("%s", known.message, exc_info=error, extra={"error_id": error_id, "error_type": known.wire_type})
    envelope = write_json(known.envelope(error_id=error_id))
    response = ErrorResponse(envelope, known, error_id, content_type="application/json")
    if known.retry_after is not None:
        response["Retry-After"] = str(known.retry_after)
    if known.challenge is not None:
        response["WWW-Authenticate"] = known.challenge
    return response


def to_catalog_error(error: BaseException) -> CatalogError | None:  # noqa: PLR0911, PLR0912, C901
    """Return the `CatalogError` for an error of Django, DRF or the database; None for an unexpected one (500)."""
    match error:
        case CatalogError():
            return error
        case Http404():
            return NotFound("No such resource")
        case exceptions.MethodNotAllowed():
            return MethodNotAllowed(str(error.detail))
        case exceptions.NotFound():
            return NotFound(str(error.detail))
        case exceptions.PermissionDenied():
            return Forbidden(str(error.detail))
        case exceptions.ValidationError():
            path, message = _first_error(error.detail)
            return BadRequest(f"{path}: {message}" if path else message, field=path or None)
        case exceptions.APIException():
            return BadRequest(str(error.detail))
        case RequestDataTooBig():
            return BodyTooLarge("The request body is too large")
        case SuspiciousOperation():
            return BadRequest("Malformed request")
        case PermissionDenied():
            return Forbidden("Forbidden")
        case PoolTimeout():
            return CommitStateUnknown(_AFTER_A_CHANGE) if has_written() else Busy(_NO_CONNECTION)
        case DatabaseError() | InterfaceError():
            return _database_error(error)
        case _:
            return None


def _database_error(error: DatabaseError | InterfaceError) -> CatalogError | None:
    """Return the error for overload and lost connections; None for bugs.

    `write_transaction` raises its own error for a commit with an unknown outcome. After a committed write the response
    must not claim that nothing was changed.
    """
    if isinstance(error, OperationalError | InterfaceError) and has_written():
        return CommitStateUnknown(_AFTER_A_CHANGE)
    if isinstance(error, OperationalError) and deadline_expired():
        return RequestTimeout("The request took longer than the server allows (LAKEKEEPER__MAX_REQUEST_TIME)")
    if isinstance(error.__cause__, PoolTimeout):
        return Busy(_NO_CONNECTION)
    if is_overload(error):
        return Busy("The database is busy; nothing was changed, try again")
    if isinstance(error, OperationalError | InterfaceError):
        return Busy("The database cannot be reached; nothing was changed, try again")
    return None


def _first_error(detail: Any, path: str = "") -> tuple[str, str]:
    """Return the path of the first invalid member in DRF's nested errors, and the message."""
    if isinstance(detail, dict):
        key, value = next(iter(detail.items()))
        return _first_error(value, path if key == "non_field_errors" else f"{path}.{key}" if path else str(key))
    if isinstance(detail, list):
        return _first_error(detail[0], path)
    return path, str(detail)
