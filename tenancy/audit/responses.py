"""Response hook (`RESPONSE_HOOKS`) that writes the audit records of a request before its response is sent.

Denials that the response hides are written later, so that its timing does not distinguish a hidden object from one that
does not exist.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.kernel.errors.responses import ErrorResponse
from icekeeper.kernel.errors.types import Forbidden, Unauthorized
from tenancy.actor import ANONYMOUS
from tenancy.audit.collector import collector
from tenancy.audit.occurrences import record_denial, record_sign_in
from tenancy.audit.records import truncate_text
from tenancy.authentication_errors import GenuineTokenRejected

ENDPOINT: Final = "endpoint"
"""Object type of a denial that was not recorded where it was raised."""

MAX_ARGUMENT_LENGTH: Final = 255

SHOWN_DENIALS: Final = frozenset({Unauthorized.status, Forbidden.status})
"""Status codes of responses that show a denial to the caller."""


def audit_response(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write the records of the request; a 401 or 403 without any record gets one here."""
    if isinstance(response, ErrorResponse) and not collector.has_pending():
        _record_denied_response(request, response)
    if response.status_code not in SHOWN_DENIALS:
        collector.defer_denials()
    collector.write_pending()


def _record_denied_response(request: HttpRequest, response: ErrorResponse) -> None:
    error, actor = response.error, request.META.get("icekeeper.actor", ANONYMOUS)
    if isinstance(error, GenuineTokenRejected):
        record_sign_in(actor=error.claimant, is_accepted=False, reason=error.reason)
    elif isinstance(error, Unauthorized):
        record_sign_in(actor=actor, is_accepted=False, reason=error.wire_type)
    elif isinstance(error, Forbidden):
        record_denial(
            actor=actor,
            action=_operation(request),
            object_type=ENDPOINT,
            object_id="",
            reason=error.wire_type,
            details=_arguments(request),
        )


def _operation(request: HttpRequest) -> str:
    """Return method and route: `GET catalog/v1/<segment:prefix>/namespaces`; paths may be long and secret."""
    match = request.resolver_match
    return f"{request.method} {match.route if match is not None else ''}"


def _arguments(request: HttpRequest) -> dict[str, str]:
    """Return the path arguments of the route, each truncated."""
    match = request.resolver_match
    found = match.kwargs if match is not None else {}
    return {name: truncate_text(str(value), MAX_ARGUMENT_LENGTH) for name, value in found.items()}
