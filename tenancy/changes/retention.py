"""Retention of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models.functions import Greatest

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH
from icekeeper.kernel.db.sql import execute, fetch_all
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.models import OutboxEvent, OutboxState, Securable

_REUSABLE: Final = (Securable.Type.SERVER.value, Securable.Type.PROJECT.value, Securable.Type.USER.value)
"""Types of objects whose ids may be used again: their numbers must continue."""

SAMPLE_SIZE: Final = 500
"""Events whose size is measured, evenly distributed."""

ROW_BYTES: Final = 700
"""Bytes of an event besides its data, with its part of the indexes: measured with names of 30 characters."""

_SIZE_FROM: Final = """
SELECT coalesce((SELECT {length} FROM tenancy_outboxevent AS e
                  WHERE e.position >= p.value ORDER BY e.position LIMIT 1), 0)
  FROM {positions}
"""
_SIZES: Final = {
    "postgresql": _SIZE_FROM.format(length="octet_length(e.data)", positions="unnest(%s::bigint[]) AS p(value)"),
    "sqlite": _SIZE_FROM.format(length="length(CAST(e.data AS BLOB))", positions="json_each(%s) AS p"),
}

_DELETE_NUMBERS: Final = """
DELETE FROM tenancy_objectsequence
 WHERE object_key = ANY(%s)
   AND NOT EXISTS (SELECT 1 FROM tenancy_outboxevent AS e WHERE e.object_key = tenancy_objectsequence.object_key)
   AND NOT EXISTS (SELECT 1 FROM tenancy_securable AS s WHERE s.id = tenancy_objectsequence.object_key)
"""


def delete_old_events(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete events in the order of their positions, in batches; return their number.

    Deleted are events older than the configured retention, and the oldest ones while all of them are larger than the
    configured size. Receivers that have not got them see that they are missing (`OutboxState.deleted_through`). The
    sequences of deleted objects, whose ids are never used again, are deleted with their last event.
    """
    conf = settings.ICEKEEPER.events
    first_kept = now() - timedelta(seconds=conf.retention) if conf.retention else None
    excess = _last_position_above(conf.max_bytes) if conf.max_bytes else 0
    deleted = 0
    while True:
        with write_transaction():
            oldest = OutboxEvent.objects.order_by("position").select_for_update(skip_locked=True)
            rows = list(oldest.values_list("position", "at", "object_key")[:batch])
            old = [
                (position, key)
                for position, _, key in takewhile(
                    lambda row: row[0] <= excess or (first_kept is not None and row[1] < first_kept), rows
                )
            ]
            if old:
                _delete(old)
        deleted += len(old)
        if len(old) < batch:
            return deleted


def _delete(old: Sequence[tuple[int, str]]) -> None:
    last = old[-1][0]
    OutboxEvent.objects.filter(pk__in=[position for position, _ in old]).delete()
    execute(_DELETE_NUMBERS, [sorted({key for _, key in old if _has_unique_id(key)})])
    OutboxState.objects.filter(deleted_through__lt=last).update(
        deleted_through=last, published_through=Greatest("published_through", last)
    )


def _last_position_above(max_bytes: int) -> int:
    """Return the newest position that does not fit into `max_bytes` with all later events; 0 if all fit.

    An estimate by the average size of a sample: deletions do not shrink the table, and to read all of it takes long.
    Two statements.
    """
    ((first, last),) = fetch_all("default", "SELECT min(position), max(position) FROM tenancy_outboxevent", [])
    if first is None:
        return 0
    step = max(1, (last - first + 1) // SAMPLE_SIZE)
    sample = list(range(first, last + 1, step))
    sizes = [size for (size,) in fetch_all("default", _SIZES[connection.vendor], [sample])]
    average = sum(sizes) / len(sizes) + ROW_BYTES
    return max(0, int(last) - int(max_bytes / average))


def _has_unique_id(object_key: str) -> bool:
    object_type = object_key.partition(":")[0]
    return object_type in Securable.Type.values and object_type not in _REUSABLE
