"""Retention of the audit trail: deletes old records from the beginning of the hash chain.

Each deletion is recorded at the end of the chain, sealed in the same transaction: verification accepts a chain that
begins later than at the first record only if a record of that deletion exists (`tenancy.audit.chain_verification`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.audit.chain import append_to_chain
from tenancy.audit.log import Event
from tenancy.audit.records import build_record
from tenancy.models import AuditChain, AuditRecord

BATCH: Final = 500
"""Records deleted in one transaction, during which no other process can seal."""

GRACE_SECONDS: Final = 3600.0
"""Seconds by which a record must exceed its retention before a deletion starts, so that deletions are few."""


def delete_old_records(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete records older than the configured retention and return their number.

    Only the beginning of the chain is deleted: an old record after a younger one stays until that one is old, too.
    Nothing is deleted before the oldest record has exceeded its retention by an hour, or while another process seals
    or deletes. Each batch is one transaction, which also writes an `audit.records-deleted` record.
    """
    retention = settings.ICEKEEPER.audit.retention
    if not retention:
        return 0
    deleted, at = 0, now()
    before = at - timedelta(seconds=retention)
    if not _is_due(before - timedelta(seconds=min(GRACE_SECONDS, retention))):
        return 0
    while True:
        count = _delete_batch(actor, before, at, batch)
        deleted += count
        if count < batch:
            return deleted


def _is_due(before: datetime) -> bool:
    chain = AuditChain.objects.first()
    if chain is None:
        return False
    rows = AuditRecord.objects.after_position(chain.anchor_position)[:BATCH]
    return any(at < before for at in rows.values_list("at", flat=True))


def _delete_batch(actor: Actor, before: datetime, at: datetime, batch: int) -> int:
    with write_transaction():
        chain = AuditChain.objects.select_for_update(skip_locked=True).first()
        if chain is None:
            return 0
        first = AuditRecord.objects.after_position(chain.anchor_position)
        rows = list(first[:batch])
        last = _last_old(rows, before, at)
        if last is None or last.position is None:
            return 0
        old = AuditRecord.objects.filter(position__gt=chain.anchor_position, position__lte=last.position)
        count, _ = old.delete()
        chain.anchor_position, chain.anchor_hash = last.position, last.hash
        newest = max(row.at for row in rows if row.at < before)
        details = {"position": last.position, "hash": last.hash, "newest": newest}
        row = build_record(
            Event.AUDIT_RECORDS_DELETED.value, actor=actor, object_type="audit", object_id="", details=details
        )
        row.count = count
        append_to_chain(chain, row)
        row.save(force_insert=True)
        chain.save()
    return count


def _last_old(rows: list[AuditRecord], before: datetime, at: datetime) -> AuditRecord | None:
    """Return the last record to delete. Records from the future (a wrong clock) do not block deletion."""
    last = None
    for row in rows:
        if row.at < before:
            last = row
        elif row.at <= at:
            break
    return last
