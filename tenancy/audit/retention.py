"""Old rows of the audit trail are deleted from the beginning of the chain, which goes on from the last of them.

Each deletion is itself a row at the end of the chain, sealed in the same transaction: without one that names it, no
beginning but the first is believed (`tenancy.audit.verification`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.audit.chain import append
from tenancy.audit.entries import make_entry
from tenancy.audit.log import Event
from tenancy.models import AuditChain, AuditRecord

BATCH: Final = 500
"""Rows of one transaction, which keeps others from sealing."""

GRACE: Final = 3600.0
"""Seconds that old rows wait for others: each deletion leaves a row, and not every minute shall."""


def delete_old_records(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the settings keep them; how many there were.

    The chain loses a beginning, never a row in the midst: what comes after a younger row stays until that is old, too.
    Nothing is done before the oldest has been old for an hour. Each batch is a transaction with an
    `audit.records-deleted` in it; nothing is done while others seal or delete.
    """
    kept = settings.ICEKEEPER.audit.retention
    if not kept:
        return 0
    deleted, at = 0, now()
    before = at - timedelta(seconds=kept)
    if not _is_due(before - timedelta(seconds=min(GRACE, kept))):
        return 0
    while True:
        count = _delete_some(actor, before, at, batch)
        deleted += count
        if count < batch:
            return deleted


def _is_due(before: datetime) -> bool:
    chain = AuditChain.objects.first()
    if chain is None:
        return False
    rows = AuditRecord.objects.after_position(chain.anchor_position)[:BATCH]
    return any(at < before for at in rows.values_list("at", flat=True))


def _delete_some(actor: Actor, before: datetime, at: datetime, batch: int) -> int:
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
        told = {"position": last.position, "hash": last.hash, "newest": newest}
        row = make_entry(
            Event.AUDIT_RECORDS_DELETED.value, actor=actor, object_type="audit", object_id="", details=told
        )
        row.count = count
        append(chain, row)
        row.save(force_insert=True)
        chain.save()
    return count


def _last_old(rows: list[AuditRecord], before: datetime, at: datetime) -> AuditRecord | None:
    """The end of the old beginning. A row from the future, of a clock that was wrong, does not hold up the others."""
    last = None
    for row in rows:
        if row.at < before:
            last = row
        elif row.at <= at:
            break
    return last
