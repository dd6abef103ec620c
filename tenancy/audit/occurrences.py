"""What the audit trail tells of beside changes: denials, sign-ins, uses of tokens, reads of data and of itself.

None of these raises, takes part in the caller's transaction, or costs anything worth mentioning where it is switched
off.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.request.context import current_context
from tenancy.actor import Actor
from tenancy.audit.collector import collector
from tenancy.audit.entries import Outcome, PrivilegeSource, is_kept, make_entry
from tenancy.audit.log import Event, write_line
from tenancy.models import AuditRecord


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
    """That `actor` may not do `action` on an object. Before or after the transaction at hand is rolled back.

    `reason` is the true one, whatever the caller is answered: `ActionForbidden`, `CannotSeeResource`,
    `ResourceNotFound`, `InternalAuthorizationError`, or the type of the error. In a request the row is written before
    the answer is sent, elsewhere at once, or when no transaction is at hand any more; equal denials of one minute are
    summed up (`tenancy.audit.collector`).
    """
    audit = settings.ICEKEEPER.audit
    if not audit.enabled and not audit.tracing.enabled:
        return
    _tell(
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
    """That somebody signed in, or was refused: then `actor` is whom they claim to be, if that is known."""
    _tell(
        Event.SIGN_IN_ACCEPTED if is_accepted else Event.SIGN_IN_REFUSED,
        actor,
        "user" if actor.user_id else "",
        actor.user_id or "",
        outcome=Outcome.ALLOWED if is_accepted else Outcome.FAILED,
        reason=reason,
        privilege_source="",
        details=details,
    )


def record_token_use(actor: Actor) -> None:
    """That a request came with a token that was accepted: the first use from an address is written within seconds, all
    others of the interval are one row."""
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
    """That `actor` got at the files of a table, where `ICEKEEPER__AUDIT__READS` asks for it; one row a minute.

    `event` is `DATA_CREDENTIALS_VENDED` or `DATA_REQUEST_SIGNED`.
    """
    audit = settings.ICEKEEPER.audit
    if not (audit.reads and audit.enabled):
        return
    origin = current_context().origin
    key = (event, actor, action, object_type, object_id, origin.address, origin.forwarded_for)
    collector.aggregate(
        key,
        lambda: make_entry(event.value, actor=actor, object_type=object_type, object_id=object_id, action=action),
    )


def record_override(*, actor: Actor, action: str, object_type: str, object_id: object) -> None:
    """Record that `actor` may do `action` on an object as an instance admin alone; one row a minute."""
    if not is_kept():
        return
    origin = current_context().origin
    key = (Event.ACCESS_OVERRIDDEN, actor.user_id, action, object_type, str(object_id), origin.address)
    collector.aggregate(
        key,
        lambda: make_entry(
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
    """Who read the audit trail, and what they looked for."""
    event = Event.AUDIT_EXPORTED if is_export else Event.AUDIT_LISTED
    _tell(event, actor, object_type, object_id, action="read_audit", project=project, details=filters)


def record_access_review(
    *, actor: Actor, ref: tuple[str, object], project: str | None, told: Mapping[str, Any]
) -> None:
    """Who asked who has which rights, or why: on the object `ref`, where `told` names a principal of them alone."""
    _tell(Event.ACCESS_REVIEWED, actor, *ref, action="read_grants", project=project, details=told)


def _tell(event: Event, actor: Actor, object_type: str, object_id: object, **more: Any) -> None:
    if is_kept():
        record = make_entry(event.value, actor=actor, object_type=object_type, object_id=object_id, **more)
        collector.add(record)
    fields = {"type": object_type, "id": str(object_id)} | {
        name: str(more[name]) for name in ("action", "reason", "project") if more.get(name)
    }
    write_line(event, actor, fields)


def _token_use(actor: Actor, token_id: UUID | None) -> AuditRecord:
    """The object is the token, where it is one of this server."""
    is_own = token_id is not None
    return make_entry(
        Event.TOKEN_USED.value,
        actor=actor,
        object_type="access-token" if is_own else "user",
        object_id=token_id if is_own else actor.user_id,
        privilege_source="",
    )
