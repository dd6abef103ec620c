"""What goes into a row of the audit trail, whoever sent it: bounded texts that every database takes, and no secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.request.context import current_context
from tenancy.actor import Actor
from tenancy.instance_admins import is_instance_admin
from tenancy.models import AuditRecord

MAX_DETAILS_LENGTH: Final = 262_144
"""Characters of the JSON text, more than any change makes; of a longer one the row says only how long it was."""

Outcome = AuditRecord.Outcome
PrivilegeSource = AuditRecord.PrivilegeSource


def is_kept() -> bool:
    """Whether there are rows at all."""
    return settings.ICEKEEPER.audit.enabled


def make_entry(
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
    """A row about what happens now, in the request at hand, that is not saved yet.

    Without `privilege_source` it is what the actor is. An engine that reads with the rights of a view's owner is the
    actor, and the owner stands in the details as `read_as`.
    """
    caller = actor if actor.delegated_by is None else actor.delegated_by
    if caller is not actor:
        details = {**(details or {}), "read_as": actor.user_id}
    context = current_context()
    origin, request_id = context.origin, context.request_id
    return AuditRecord(
        at=now(),
        event=event,
        action=bounded(action, 255),
        outcome=outcome,
        reason=bounded(reason, 64),
        privilege_source=source_of(actor) if privilege_source is None else privilege_source,
        actor=bounded(name_of(caller), 255),
        assumed_role=caller.assumed_role,
        access_token_id=caller.identity.access_token_id if caller.identity is not None else None,
        object_type=bounded(object_type, 32),
        object_id=bounded(str(object_id), 255),
        project_id=bounded(project or "", 128),
        request_id=None if request_id is None else request_id.uuid,
        address=bounded(origin.address or "", 64),
        forwarded_for=_forwarded_for(origin.forwarded_for),
        user_agent=_header(origin.user_agent),
        details=canonical(details or {}),
    )


def name_of(actor: Actor) -> str:
    """The role that is assumed has a column of its own."""
    if actor.is_internal:
        return "internal"
    return actor.user_id or "anonymous"


def source_of(actor: Actor) -> PrivilegeSource:
    if actor.is_internal:
        return PrivilegeSource.INTERNAL
    return PrivilegeSource.INSTANCE_ADMIN if is_instance_admin(actor) else PrivilegeSource.AUTHORIZER


def canonical(document: Mapping[str, Any]) -> str:
    """The one text of a JSON object: keys in order, no spaces, ASCII; what JSON has no form for, as its text."""
    text = canonical_text(document)
    return text if len(text) <= MAX_DETAILS_LENGTH else canonical_text({"left_out": f"{len(text)} characters"})


def canonical_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=_as_text)


def bounded(text: str, longest: int) -> str:
    """At most `longest` characters, without what a database refuses: NUL and halves of surrogate pairs."""
    return text[:longest].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _forwarded_for(value: str | None) -> str:
    """What proxies, or the client itself, say. The end is kept: the nearest proxy wrote that."""
    if value is None or not settings.ICEKEEPER.use_x_forwarded_headers:
        return ""
    return _header(value[-256:])


def _header(value: str | None) -> str:
    """WSGI holds the bytes of headers as latin-1."""
    return bounded((value or "")[:256].encode("latin-1", "replace").decode("utf-8", "replace"), 256)
