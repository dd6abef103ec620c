"""One log line a request: who asked for what, and what came of it.

Never in it: the query (it may hold a secret), the Authorization header, bodies, the secret part of an access token
that somebody put into the path.
"""

from __future__ import annotations

import logging
import re
from time import monotonic
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.http.request_meter import count_answer
from icekeeper.kernel.errors.responses import ErrorResponse

logger = logging.getLogger("icekeeper.access")

MAX_PATH_LENGTH = 512
MAX_USER_AGENT_LENGTH = 256
"""Bytes of the User-Agent header that are kept."""

QUIET_ROUTES = frozenset({"health", "health/live", "health/ready"})
"""Routes that probes call every few seconds: their good answers are written at level debug."""


_TOKEN = re.compile(r"(ik[ps](?:_|%5F)[0-9A-Za-z]{22}|ika(?=(?:_|%5F)eyJ))(?:_|%5F)[0-9A-Za-z._%-]+", re.IGNORECASE)
"""A token of `tenancy.authn.own_tokens.token_format`, of which the beginning is no secret, or a short-lived one."""


def log_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write the line of a request that went through Django. Called when the answer has been sent."""
    meta = request.META
    match = request.resolver_match
    fields: dict[str, Any] = {
        "method": request.method,
        "route": match.route if match is not None else None,
        "path": redact_tokens(meta["icekeeper.path"])[:MAX_PATH_LENGTH],
        "status": response.status_code,
        "duration_ms": round((monotonic() - meta["icekeeper.arrived"]) * 1000, 3),
        "bytes": _body_bytes(request, response),
        "user": meta.get("icekeeper.user", "anonymous"),
        "user_agent": truncated_user_agent(meta.get("HTTP_USER_AGENT")),
    }
    if "icekeeper.access_token" in meta:
        fields["access_token"] = meta["icekeeper.access_token"]
    if isinstance(response, ErrorResponse):
        fields["error_type"] = response.error.wire_type
        fields["error_id"] = response.error_id
        fields["error"] = redact_tokens(response.error.message)[:MAX_PATH_LENGTH]
    quiet = response.status_code == 200 and fields["route"] in QUIET_ROUTES  # noqa: PLR2004
    write_line(fields, level=logging.DEBUG if quiet else logging.INFO)


def redact_tokens(text: str) -> str:
    return _TOKEN.sub(r"\1_***", text)


def write_line(fields: dict[str, Any], *, level: int = logging.INFO) -> None:
    """Write one line of the access log, if lines of this level are written, and count the request in any case."""
    count_answer(fields["status"], fields["duration_ms"])
    if logger.isEnabledFor(level):
        # Built by hand: Logger.info() would first walk the stack for a source line that nobody prints.
        logger.handle(logger.makeRecord(logger.name, level, "", 0, "request", (), None, extra=fields))


def truncated_user_agent(value: str | None) -> str | None:
    """The header as text, cut to 256 bytes of the client's; WSGI holds header bytes as latin-1."""
    if value is None:
        return None
    return value[:MAX_USER_AGENT_LENGTH].encode("latin-1", "replace").decode("utf-8", "replace")


def _body_bytes(request: HttpRequest, response: HttpResponseBase) -> int | None:
    if request.method == "HEAD" or response.status_code in (204, 304):
        return 0
    length = response.headers.get("Content-Length")
    return int(length) if length is not None else None
