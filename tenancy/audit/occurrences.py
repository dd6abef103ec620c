"""Records occurrences other than changes: denials, sign-ins and sign-outs, token uses, reads.

None of these functions raises or takes part in the caller's transaction; disabled, they cost almost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from icekeeper.kernel.errors.responses import ErrorResponse
from icekeeper.kernel.errors.types import Forbidden, Unauthorized
from icekeeper.kernel.request_context import current_context
from tenancy.actor import ANONYMOUS, Actor, GenuineTokenRejected
from tenancy.audit.collector import collector
from tenancy.audit.recording import (
    Event,
    Outcome,
    PrivilegeSource,
    build_record,
    is_audit_enabled,
    log_event,
    truncate_text,
)
from tenancy.models import AuditRecord

EVENT_READ_INTERVAL: Final = 3600.0
"""Seconds within which equal reads of events are aggregated."""


def record_denial(
    *,
    actor: Actor,
    action: str,
    object_type: str,
    object_id: object,
    reason: str = "ActionForbidden",
    privilege_source: str | None = None,
    project: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record that `actor` was denied `action` on an object, before or after the current transaction is rolled back.

    `reason` is the actual one, whatever the response shows: `ActionForbidden`, `CannotSeeResource`,
    `ResourceNotFound`, `InternalAuthorizationError`, or the type of the error. In a request the record is written
    before the response is sent; elsewhere immediately, or after the current transaction. Equal denials of one minute
    are aggregated (`tenancy.audit.collector`).
    """
    audit = settings.ICEKEEPER.audit
    if not audit.enabled and not audit.tracing.enabled:
        return
    _record(
        Event.ACCESS_DENIED,
        actor,
        object_type,
        object_id,
        outcome=Outcome.DENIED,
        action=str(action),
        reason=reason,
        privilege_source=privilege_source,
        project=project,
        details=details,
    )


def record_sign_in(
    *, actor: Actor, is_accepted: bool, reason: str = "", details: Mapping[str, Any] | None = None
) -> None:
    """Record a sign-in; of a rejected one, `actor` is the claimed user if it is known."""
    _record(
        Event.SIGN_IN_ACCEPTED if is_accepted else Event.SIGN_IN_REFUSED,
        actor,
        "user" if actor.user_id else "",
        actor.user_id or "",
        outcome=Outcome.ALLOWED if is_accepted else Outcome.FAILED,
        reason=reason,
        privilege_source="",
        details=details,
    )


def record_sign_out(*, actor: Actor, details: Mapping[str, Any]) -> None:
    """Record that a user signed out of the console."""
    _record(Event.SIGN_OUT_COMPLETED, actor, "user", actor.user_id or "", privilege_source="", details=details)


def record_token_use(actor: Actor) -> None:
    """Record the use of an accepted token.

    The first use from an address is written within seconds; further uses in the interval are one record.
    """
    audit = settings.ICEKEEPER.audit
    if not audit.enabled:
        return
    identity, origin = actor.identity, current_context().origin
    token_id = identity.access_token_id if identity is not None else None
    key = ("used", actor.user_id, actor.assumed_role, token_id, origin.address, origin.forwarded_for)
    collector.aggregate(key, partial(_token_use, actor, token_id), interval=audit.token_use_interval)


def record_read(
    *,
    actor: Actor,
    event: Event,
    action: str,
    object_type: str,
    object_id: object,
) -> None:
    """Record access to the files of a table if `ICEKEEPER__AUDIT__READS` is set; one record a minute.

    `event` is `DATA_CREDENTIALS_VENDED` or `DATA_REQUEST_SIGNED`.
    """
    audit = settings.ICEKEEPER.audit
    if not (audit.reads and audit.enabled):
        return
    origin = current_context().origin
    key = (event, actor, action, object_type, object_id, origin.address, origin.forwarded_for)
    collector.aggregate(
        key,
        lambda: build_record(event.value, actor=actor, object_type=object_type, object_id=object_id, action=action),
    )


def record_override(*, actor: Actor, action: str, object_type: str, object_id: object) -> None:
    """Record that `actor` may do `action` on an object only as an instance admin; one record a minute."""
    if not is_audit_enabled():
        return
    origin = current_context().origin
    key = (Event.ACCESS_OVERRIDDEN, actor.user_id, action, object_type, str(object_id), origin.address)
    collector.aggregate(
        key,
        lambda: build_record(
            Event.ACCESS_OVERRIDDEN.value,
            actor=actor,
            object_type=object_type,
            object_id=object_id,
            action=action,
            privilege_source=PrivilegeSource.INSTANCE_ADMIN,
        ),
    )


def record_audit_read(
    *,
    actor: Actor,
    is_export: bool,
    object_type: str,
    object_id: object,
    project: str | None,
    filters: Mapping[str, Any],
) -> None:
    """Record a read of the audit trail with its filters."""
    event = Event.AUDIT_EXPORTED if is_export else Event.AUDIT_LISTED
    _record(event, actor, object_type, object_id, action="read_audit", project=project, details=filters)


def record_event_read(
    *,
    actor: Actor,
    object_type: str,
    object_id: object,
    project: str | None,
    filters: Mapping[str, Any],
) -> None:
    """Record a read of the events of an object; reads with the same filters are one record an hour.

    Readers send a request every few seconds, so there is no log line for each.
    """
    if not is_audit_enabled():
        return
    origin = current_context().origin
    key = (Event.EVENTS_READ, actor, object_type, str(object_id), repr(filters), origin.address, origin.forwarded_for)
    collector.aggregate(
        key,
        lambda: build_record(
            Event.EVENTS_READ.value,
            actor=actor,
            object_type=object_type,
            object_id=object_id,
            action="read_events",
            project=project,
            details=filters,
        ),
        interval=EVENT_READ_INTERVAL,
    )


def record_access_review(
    *, actor: Actor, ref: tuple[str, object], project: str | None, details: Mapping[str, Any]
) -> None:
    """Record a review or explanation of rights on the object `ref`; `details` name the reviewed principal if any."""
    _record(Event.ACCESS_REVIEWED, actor, *ref, action="read_grants", project=project, details=details)


def _record(event: Event, actor: Actor, object_type: str, object_id: object, **more: Any) -> None:
    if is_audit_enabled():
        record = build_record(event.value, actor=actor, object_type=object_type, object_id=object_id, **more)
        collector.add(record)
    fields = {"type": object_type, "id": str(object_id)} | {
        name: str(more[name]) for name in ("action", "reason", "project") if more.get(name)
    }
    log_event(event, actor, fields)


def _token_use(actor: Actor, token_id: UUID | None) -> AuditRecord:
    """The object is the token if this server issued it, else the user."""
    is_own = token_id is not None
    return build_record(
        Event.TOKEN_USED.value,
        actor=actor,
        object_type="access-token" if is_own else "user",
        object_id=token_id if is_own else actor.user_id,
        privilege_source="",
    )


ENDPOINT: Final = "endpoint"
"""Object type of a denial that was not recorded where it was raised."""

MAX_ARGUMENT_LENGTH: Final = 255

SHOWN_DENIALS: Final = frozenset({Unauthorized.status, Forbidden.status})
"""Status codes of responses that show a denial to the caller."""


def audit_response(request: HttpRequest, response: HttpResponseBase) -> None:
    """Write the records of the request; a 401 or 403 without any record gets one here."""
    if isinstance(response, ErrorResponse) and not collector.has_pending():
        _record_denied_response(request, response)
    if not collector.has_pending():
        return
    if response.status_code not in SHOWN_DENIALS:
        collector.defer_denials()
    collector.write_pending()


def write_records_of_stream() -> None:
    """Write the records of a request whose response has begun, so that `audit_response` does not."""
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


def record_export(*, actor: Actor, server_id: object, after: int, rows: int) -> None:
    """Record an export of `rows` audit records by a command, before this returns."""
    details = {"after": after, "rows": rows}
    if is_audit_enabled():
        record = build_record(
            Event.AUDIT_EXPORTED.value, actor=actor, object_type="server", object_id=server_id, details=details
        )
        record.save(force_insert=True)
    log_event(Event.AUDIT_EXPORTED.value, actor, {"id": str(server_id), "type": "server", **details})
