"""The access log: one line for each request, with its user, route, status and duration.

It never contains the query (it may hold a secret), the Authorization header, bodies, or the secret part of an access
token in the path.
"""

from __future__ import annotations

import logging
import re
from time import monotonic
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.kernel.errors.responses import ErrorResponse
from icekeeper.kernel.metrics import request_ended
from icekeeper.kernel.request_context import current_context

logger = logging.getLogger("icekeeper.access")

MAX_PATH_LENGTH = 512
MAX_USER_AGENT_LENGTH = 256
"""Bytes of the User-Agent header that are logged."""

QUIET_ROUTES = frozenset({"health", "health/live", "health/ready"})
"""Routes of probes, which are called every few seconds: a 200 is logged at level debug."""


_TOKEN = re.compile(r"(ik[ps](?:_|%5F)[0-9A-Za-z]{22}|ika(?=(?:_|%5F)eyJ))(?:_|%5F)[0-9A-Za-z._%-]+", re.IGNORECASE)
"""A token of `tenancy.authn.own_tokens.stored_tokens`, whose prefix is no secret, or a short-lived one."""


def log_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Count and log a request that Django has handled, after its response was sent."""
    meta = request.META
    match, seconds = request.resolver_match, monotonic() - meta["icekeeper.arrived"]
    route = None if match is None else match.route
    request_ended(request.method, route, response.status_code, seconds, current_context())
    fields: dict[str, Any] = {
        "method": request.method,
        "route": route,
        "path": redact_tokens(meta["icekeeper.path"])[:MAX_PATH_LENGTH],
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 3),
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
    quiet = response.status_code == 200 and route in QUIET_ROUTES  # noqa: PLR2004
    write_line(fields, level=logging.DEBUG if quiet else logging.INFO)


def redact_tokens(text: str) -> str:
    """Replace the secret part of access tokens in `text`."""
    return _TOKEN.sub(_without_secret, text)


def _without_secret(token: re.Match[str]) -> str:
    return f"{token[1]}_***"


def write_line(fields: dict[str, Any], *, level: int = logging.INFO) -> None:
    """Write a line if `level` is enabled."""
    if logger.isEnabledFor(level):
        # Logger.info() would walk the stack to find a source line that is not logged.
        logger.handle(logger.makeRecord(logger.name, level, "", 0, "request", (), None, extra=fields))


def truncated_user_agent(value: str | None) -> str | None:
    """Return the first 256 bytes of the header as text; WSGI decodes header bytes as latin-1."""
    if value is None:
        return None
    return value[:MAX_USER_AGENT_LENGTH].encode("latin-1", "replace").decode("utf-8", "replace")


def _body_bytes(request: HttpRequest, response: HttpResponseBase) -> int | None:
    if request.method == "HEAD" or response.status_code in (204, 304):
        return 0
    length = response.headers.get("Content-Length")
    return int(length) if length is not None else None
