"""Read and write rows of the audit trail in tests."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.models import AuditRecord

NOWHERE_ID = "0198e0f4-3f6e-7c31-8c7d-000000000000"
REQUEST_ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
HOSTILE = "a\x00b\ud800'\"; --\u202e"
BOB = Actor(user_id="oidc~bob")


def rows(**wanted: Any) -> list[AuditRecord]:
    return list(AuditRecord.objects.filter(**wanted).order_by("at", "id"))


def the_row(**wanted: Any) -> AuditRecord:
    [row] = rows(**wanted)
    return row


def deny(actor: Actor = BOB, object_id: object = NOWHERE_ID, **more: Any) -> None:
    record_denial(actor=actor, action="drop", object_type="table", object_id=object_id, **more)


def audit_settings(**changed: Any) -> Any:
    return settings.ICEKEEPER.audit.model_copy(update=changed)
