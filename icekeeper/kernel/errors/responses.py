"""How an error leaves the house: the one exception handler of all APIs and the one envelope."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from psycopg_pool import PoolTimeout
from rest_framework import exceptions

from icekeeper.kernel.errors.database import is_overload
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
from icekeeper.kernel.request.deadline import expired, has_written

logger = logging.getLogger("icekeeper.errors")

_NO_CONNECTION = "No database connection was free in time, or the database is away; nothing was changed, try again"
_AFTER_A_CHANGE = "The database failed after something was changed: look before trying again"


class ErrorResponse(HttpResponse):
    """The envelope on the wire; the request's log line reads `error` and `error_id` from it."""

    def __init__(self, error: CatalogError, error_id: str) -> None:
        envelope = write_json(error.envelope(error_id=error_id))
        super().__init__(envelope, content_type="application/json", status=error.status)
        self.error, self.error_id = error, error_id


def error_response(error: Exception, context: dict[str, Any] | None = None) -> HttpResponse:
    """The answer to `error` for DRF's `EXCEPTION_HANDLER` and for whoever catches at the edge.

    The envelope carries an error id that also stands in the log; the reason of a 5xx stands only there. What a 4xx
    says is part of the request's own log line.
    """
    known = to_catalog_error(error)
    error_id = str(new_id())
    if known is None:
        logger.error("unexpected error", exc_info=error, extra={"error_id": error_id})
        known = CatalogError("The server met an unexpected error; its log says more under this error id")
    elif known.status >= 500 and not known.is_on_purpose:  # noqa: PLR2004
        logger.error("%s", known.message, exc_info=error, extra={"error_id": error_id, "error_type": known.wire_type})
    answer = ErrorResponse(known, error_id)
    if known.retry_after is not None:
        answer["Retry-After"] = str(known.retry_after)
    if known.challenge is not None:
        answer["WWW-Authenticate"] = known.challenge
    return answer


def to_catalog_error(error: BaseException) -> CatalogError | None:  # noqa: PLR0911, PLR0912, C901
    """The member of our tree that `error` amounts to; None when it is unexpected (a 500)."""
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
            path, complaint = _first_complaint(error.detail)
            return BadRequest(f"{path}: {complaint}" if path else complaint, field=path or None)
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
    """Lock waits, deadlocks, lost connections and timeouts are load, not bugs.

    A write whose outcome is in doubt says so itself (`write_transaction`); what fails behind it must not say that
    nothing was changed.
    """
    if isinstance(error, OperationalError | InterfaceError) and has_written():
        return CommitStateUnknown(_AFTER_A_CHANGE)
    if isinstance(error, OperationalError) and expired():
        return RequestTimeout("The request took longer than the server allows (LAKEKEEPER__MAX_REQUEST_TIME)")
    if isinstance(error.__cause__, PoolTimeout):
        return Busy(_NO_CONNECTION)
    if is_overload(error):
        return Busy("The database is busy; nothing was changed, try again")
    if isinstance(error, OperationalError | InterfaceError):
        return Busy("The database cannot be reached; nothing was changed, try again")
    return None


def _first_complaint(detail: Any, path: str = "") -> tuple[str, str]:
    """Return the path of the member that the first of DRF's nested complaints is about, and its text."""
    if isinstance(detail, dict):
        key, value = next(iter(detail.items()))
        return _first_complaint(value, path if key == "non_field_errors" else f"{path}.{key}" if path else str(key))
    if isinstance(detail, list):
        return _first_complaint(detail[0], path)
    return path, str(detail)
