"""The last look at a request (`RESPONSE_HOOKS`): its audit rows are written before its response is sent.

Only denials behind a response that does not show them are written later: by the time of a response nobody can tell a
hidden object from a missing one.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.kernel.errors.responses import ErrorResponse
from icekeeper.kernel.errors.types import Forbidden, Unauthorized
from tenancy.actor import ANONYMOUS
from tenancy.audit.collector import collector
from tenancy.audit.entries import bounded
from tenancy.audit.occurrences import record_denial, record_sign_in
from tenancy.authentication_errors import GenuineTokenRejected

ENDPOINT: Final = "endpoint"
"""Type of the object of a denial that nobody told more of."""

MAX_ARGUMENT_LENGTH: Final = 255

SHOWN_DENIALS: Final = frozenset({Unauthorized.status, Forbidden.status})
"""Status codes of responses that tell the caller of a denial."""


def audit_response(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write the rows of the request. A 401 or 403 of which nobody has told anything is told of here."""
    if isinstance(response, ErrorResponse) and not collector.has_pending():
        _tell_of(request, response)
    if response.status_code not in SHOWN_DENIALS:
        collector.defer_denials()
    collector.write_pending()


def _tell_of(request: HttpRequest, answer: ErrorResponse) -> None:
    error, actor = answer.error, request.META.get("icekeeper.actor", ANONYMOUS)
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
    """`GET catalog/v1/<segment:prefix>/namespaces`: the route, as paths have no bound and may hold secrets."""
    match = request.resolver_match
    return f"{request.method} {match.route if match is not None else ''}"


def _arguments(request: HttpRequest) -> dict[str, str]:
    """What stood in the path for the variables of the route, each cut off at a length."""
    match = request.resolver_match
    found = match.kwargs if match is not None else {}
    return {name: bounded(str(value), MAX_ARGUMENT_LENGTH) for name, value in found.items()}
