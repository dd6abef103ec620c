"""Retention of the outbox."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.models import OutboxEvent, Securable

_REUSABLE: Final = (Securable.Type.SERVER.value, Securable.Type.PROJECT.value, Securable.Type.USER.value)
"""Types of objects whose ids may be used again: their numbers must continue."""

_DELETE_NUMBERS: Final = """
DELETE FROM tenancy_objectsequence
 WHERE object_key = ANY(%s)
   AND NOT EXISTS (SELECT 1 FROM tenancy_outboxevent AS e WHERE e.object_key = tenancy_objectsequence.object_key)
   AND NOT EXISTS (SELECT 1 FROM tenancy_securable AS s WHERE s.id = tenancy_objectsequence.object_key)
"""


def delete_old_events(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete events older than the configured retention, in batches; return their number.

    The sequences of deleted objects, whose ids are never used again, are deleted with their last event.
    """
    retention = settings.ICEKEEPER.events.retention
    if not retention:
        return 0
    first_kept = _first_id_of(now() - timedelta(seconds=retention))
    deleted = 0
    while True:
        with write_transaction():
            old = OutboxEvent.objects.filter(pk__lt=first_kept).order_by("pk").select_for_update(skip_locked=True)
            rows = list(old.values_list("pk", "object_key")[:batch])
            OutboxEvent.objects.filter(pk__in=[pk for pk, _ in rows]).delete()
            execute(_DELETE_NUMBERS, [sorted({key for _, key in rows if _has_unique_id(key)})])
        deleted += len(rows)
        if len(rows) < batch:
            return deleted


def _first_id_of(at: datetime) -> UUID:
    """Return the lowest UUIDv7 of the millisecond `at`: ids of events grow with time."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


def _has_unique_id(object_key: str) -> bool:
    object_type = object_key.partition(":")[0]
    return object_type in Securable.Type.values and object_type not in _REUSABLE
