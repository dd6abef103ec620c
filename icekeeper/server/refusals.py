"""Answers to what never becomes a request: too many at once, too slow, or not HTTP. The envelope is everybody's."""

from __future__ import annotations

import re
from http import HTTPStatus
from time import monotonic
from typing import Final

from gunicorn.http import errors as http_errors
from gunicorn.util import http_date

from icekeeper.http.access_log import LONGEST_PATH, without_tokens, write_line
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
from icekeeper.kernel.request.context import choose_request_id

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_REQUEST_ID: Final = re.compile(rb"\r\nx-request-id:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)


def as_refusal(error: Exception) -> CatalogError:
    """What a head that gunicorn could not parse is answered with."""
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


def refusal_bytes(refusal: CatalogError, head: bytes, arrived: float) -> bytes:
    """The whole answer, after which the connection is closed; writes the request's log line as well.

    `head` is what came of the request, `arrived` when (monotonic seconds).
    """
    request_id, error_id = choose_request_id(_request_id_header(head)), str(new_id())
    body = write_json(refusal.envelope(error_id=error_id))
    method, path = _first_line(head)
    write_line(
        {
            **request_id.log_fields(),
            "method": method,
            "route": None,
            "path": path,
            "status": refusal.status,
            "duration_ms": round((monotonic() - arrived) * 1000, 3),
            "bytes": len(body),
            "user": "anonymous",
            "user_agent": None,
            "error_type": refusal.wire_type,
            "error_id": error_id,
            "error": refusal.message[:LONGEST_PATH],
        }
    )
    lines = [
        f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}",
        f"Date: {http_date()}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id.text}",
        "Cache-Control: no-store",
    ]
    if refusal.retry_after is not None:
        lines.append(f"Retry-After: {refusal.retry_after}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body)


def _first_line(head: bytes) -> tuple[str | None, str | None]:
    """Method and path for the log, as far as they can be told; the query is left out, and secrets of tokens."""
    words = head[:8192].lstrip(b"\r\n").split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2:  # noqa: PLR2004
        return None, None
    method, target = words[0][:20].decode("latin-1"), words[1].split(b"?", 1)[0].decode("latin-1")
    return method, without_tokens(target)[:LONGEST_PATH]


def _request_id_header(head: bytes) -> str | None:
    """The value of `X-Request-ID`, if its whole line is there."""
    fields, end, _ = head.partition(b"\r\n\r\n")
    found = _REQUEST_ID.search(fields + end[:2])
    return found[1].decode("latin-1") if found else None
