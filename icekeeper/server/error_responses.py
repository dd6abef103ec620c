"""Error responses of the worker itself: overload, slow clients and malformed HTTP, in the envelope of the APIs."""

from __future__ import annotations

import re
from http import HTTPStatus
from time import monotonic
from typing import Final

from gunicorn.http import errors as http_errors
from gunicorn.util import http_date

from icekeeper.http.access_log import MAX_PATH_LENGTH, redact_tokens, write_line
from icekeeper.kernel.errors.types import (
    BadRequest,
    CatalogError,
    ExpectationFailed,
    HeadersTooLarge,
    UnsupportedTransferCoding,
    UriTooLong,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.metrics import request_ended
from icekeeper.kernel.request_context import RequestContext, choose_request_id

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_REQUEST_ID: Final = re.compile(rb"\r\nx-request-id:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)


def catalog_error_of(error: Exception) -> CatalogError:
    """Return the error response for a request head that gunicorn could not parse."""
    match error:
        case http_errors.LimitRequestLine():
            return UriTooLong("The request line is too long")
        case http_errors.LimitRequestHeaders():
            return HeadersTooLarge("The request's header fields are too large or too many")
        case http_errors.ExpectationFailed():
            return ExpectationFailed("Only Expect: 100-continue is understood")
        case http_errors.UnsupportedTransferCoding():
            return UnsupportedTransferCoding("The request's transfer coding is not supported")
        case _:
            return BadRequest(f"Malformed request: {error}"[:200])


def render_error(error: CatalogError, head: bytes, arrived: float) -> bytes:
    """Render the complete response, which closes the connection, and write the log line of the request.

    `head` is the received part of the request, `arrived` its time of arrival (monotonic seconds).
    """
    request_id, error_id = choose_request_id(_request_id_header(head)), str(new_id())
    body = write_json(error.envelope(error_id=error_id))
    method, path = _first_line(head)
    seconds = monotonic() - arrived
    request_ended(method, None, error.status, seconds, RequestContext())
    write_line(
        {
            **request_id.log_fields(),
            "method": method,
            "route": None,
            "path": path,
            "status": error.status,
            "duration_ms": round(seconds * 1000, 3),
            "bytes": len(body),
            "user": "anonymous",
            "user_agent": None,
            "error_type": error.wire_type,
            "error_id": error_id,
            "error": error.message[:MAX_PATH_LENGTH],
        }
    )
    lines = [
        f"HTTP/1.1 {error.status} {_REASONS[error.status]}",
        f"Date: {http_date()}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id.text}",
        "Cache-Control: no-store",
    ]
    if error.retry_after is not None:
        lines.append(f"Retry-After: {error.retry_after}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body)


def _first_line(head: bytes) -> tuple[str | None, str | None]:
    """Method and path for the log, None when unreadable; without the query and without secrets of tokens."""
    words = head[:8192].lstrip(b"\r\n").split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2:  # noqa: PLR2004
        return None, None
    method, target = words[0][:20].decode("latin-1"), words[1].split(b"?", 1)[0].decode("latin-1")
    return method, redact_tokens(target)[:MAX_PATH_LENGTH]


def _request_id_header(head: bytes) -> str | None:
    """The value of `X-Request-ID`, if its line is complete."""
    fields, end, _ = head.partition(b"\r\n\r\n")
    found = _REQUEST_ID.search(fields + end[:2])
    return found[1].decode("latin-1") if found else None
