"""The audit trail: builds audit records.

Records never contain tokens, credentials or e-mail addresses. Those of changes are written by `tenancy.changes`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor, is_instance_admin
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import project_in, securable_id

logger = logging.getLogger("icekeeper.audit")


class Event(StrEnum):
    """Events that are no changes: those of `tenancy.audit.occurrences` and of the audit trail itself."""

    ACCESS_DENIED = "access.denied"
    SIGN_IN_ACCEPTED = "sign-in.accepted"
    SIGN_IN_REFUSED = "sign-in.refused"
    SIGN_OUT_COMPLETED = "sign-out.completed"
    TOKEN_USED = "token.used"  # noqa: S105
    DATA_CREDENTIALS_VENDED = "data.credentials-vended"
    DATA_REQUEST_SIGNED = "data.request-signed"
    AUDIT_LISTED = "audit.listed"
    AUDIT_EXPORTED = "audit.exported"
    EVENTS_READ = "events.read"
    ACCESS_REVIEWED = "access.reviewed"
    ACCESS_OVERRIDDEN = "access.overridden"
    CHANGE_VETOED = "change.vetoed"
    CHANGE_OVERRIDDEN = "change.overridden"
    CHANGE_REPORTED = "change.reported"
    AUDIT_RECORDS_LOST = "audit.records-lost"
    AUDIT_RECORDS_DELETED = "audit.records-deleted"


def log_event(event: str, actor: Actor, fields: dict[str, Any]) -> None:
    """Write the log line of an event, unless audit tracing is disabled."""
    if not settings.ICEKEEPER.audit.tracing.enabled:
        return
    known: dict[str, Any] = {"id": fields["id"], "by": actor.name}
    if actor.identity is not None and actor.identity.access_token_id is not None:
        known["access_token"] = actor.identity.access_token_id
    logger.info(event, extra=known | fields)


MAX_DETAILS_LENGTH: Final = 262_144
"""Maximum characters of the JSON text, more than any change needs; of a longer text only the length is recorded."""

Outcome = AuditRecord.Outcome
PrivilegeSource = AuditRecord.PrivilegeSource


def is_audit_enabled() -> bool:
    """Return whether audit records are written at all."""
    return settings.ICEKEEPER.audit.enabled


def build_record(
    event: str,
    *,
    actor: Actor,
    object_type: str,
    object_id: object,
    outcome: Outcome = Outcome.ALLOWED,
    action: str = "",
    reason: str = "",
    privilege_source: str | None = None,
    project: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> AuditRecord:
    """Return an unsaved audit record with the time and origin of the current request.

    `privilege_source` defaults to that of the actor.
    """
    record = AuditRecord(
        **record_columns(
            event, actor=actor, object_type=object_type, object_id=str(object_id), project=project or "",
            details=details or {},
        ),
        at=now(), outcome=outcome, action=truncate_text(action, 255), reason=truncate_text(reason, 64),
    )  # fmt: skip
    if privilege_source is not None:
        record.privilege_source = privilege_source
    return record


def record_columns(
    event: str, *, actor: Actor, object_type: str, object_id: str, project: str, details: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the columns of a record that describe the event, its object, its actor and the origin of the request.

    For an engine that reads with the rights of a view's owner, the engine is the actor and the details contain the
    owner as `read_as`.
    """
    caller = actor if actor.delegated_by is None else actor.delegated_by
    if caller is not actor:
        details = {**details, "read_as": actor.user_id}
    context = current_context()
    origin, request_id = context.origin, context.request_id
    return {
        "event": event,
        "privilege_source": privilege_source_of(actor).value,
        "actor": truncate_text(actor_name(caller), 255),
        "assumed_role": caller.assumed_role,
        "access_token_id": caller.identity.access_token_id if caller.identity is not None else None,
        "object_type": truncate_text(object_type, 32),
        "object_id": truncate_text(object_id, 255),
        "project_id": truncate_text(project, 128),
        "request_id": None if request_id is None else request_id.uuid,
        "address": truncate_text(origin.address or "", 64),
        "forwarded_for": _forwarded_for(origin.forwarded_for),
        "user_agent": _header(origin.user_agent),
        "details": canonical_details(details),
    }


def actor_name(actor: Actor) -> str:
    """Return the user id, `internal` or `anonymous`, without the assumed role, which has its own column."""
    if actor.is_internal:
        return "internal"
    return actor.user_id or "anonymous"


def privilege_source_of(actor: Actor) -> PrivilegeSource:
    if actor.is_internal:
        return PrivilegeSource.INTERNAL
    return PrivilegeSource.INSTANCE_ADMIN if is_instance_admin(actor) else PrivilegeSource.AUTHORIZER


def canonical_details(document: Mapping[str, Any]) -> str:
    """Return the details as canonical JSON, or only their length above `MAX_DETAILS_LENGTH`."""
    text = canonical_text(document)
    return text if len(text) <= MAX_DETAILS_LENGTH else canonical_text({"left_out": f"{len(text)} characters"})


def canonical_text(document: Mapping[str, Any]) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII; values of other types are written as text."""
    return _encode(document)


def truncate_text(text: str, max_length: int) -> str:
    """Truncate to `max_length` characters and replace what databases reject: NUL and lone surrogates."""
    if len(text) <= max_length and text.isascii() and "\x00" not in text:
        return text
    return text[:max_length].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_as_text).encode


def _forwarded_for(value: str | None) -> str:
    """Return the end of `X-Forwarded-For`, which the nearest proxy wrote; a client can forge the beginning."""
    if value is None or not settings.ICEKEEPER.use_x_forwarded_headers:
        return ""
    return _header(value[-256:])


def _header(value: str | None) -> str:
    """Decode a header, whose bytes WSGI passes as latin-1, as UTF-8."""
    if not value:
        return ""
    return truncate_text(value[:256].encode("latin-1", "replace").decode("utf-8", "replace"), 256)


PROJECT_OBJECT_TYPES: Final = frozenset(
    {
        Securable.Type.WAREHOUSE.value,
        Securable.Type.NAMESPACE.value,
        Securable.Type.TABLE.value,
        Securable.Type.VIEW.value,
        Securable.Type.GENERIC_TABLE.value,
        Securable.Type.ROLE.value,
        Securable.Type.TAG.value,
    }
)
"""Types of objects that belong to a project."""


class InProject(Protocol):
    """What is about an object of a project: an audit record, or a change that is recorded."""

    object_type: str
    object_id: str
    project_id: str


def set_projects(rows: Sequence[InProject]) -> None:
    """Set the project of those that have none, with at most one statement; unknown objects keep none."""
    unresolved: dict[str, list[InProject]] = {}
    for row in rows:
        if row.project_id or not row.object_id:
            continue
        if row.object_type == Securable.Type.PROJECT.value:
            row.project_id = row.object_id[:128]
        elif row.object_type in PROJECT_OBJECT_TYPES:
            unresolved.setdefault(securable_id(Securable.Type(row.object_type), row.object_id), []).append(row)
    if not unresolved:
        return
    for key, path in Securable.objects.filter(pk__in=unresolved).values_list("pk", "path"):
        for row in unresolved[key]:
            row.project_id = project_in(path) or ""
