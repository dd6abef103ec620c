"""Old rows of the audit trail are deleted from the beginning of the chain, which goes on from the last of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.models import AuditChain, AuditRecord

BATCH: Final = 500
"""Rows of one transaction, which keeps others from sealing."""


def delete_old_records(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the settings keep them; how many there were.

    The chain loses a beginning, never a row in the midst: what comes after a younger row stays until that is old, too.
    Each batch is a transaction; nothing is done while others seal or delete.
    """
    kept = settings.ICEKEEPER.audit.retention
    if not kept:
        return 0
    deleted, at = 0, now()
    while True:
        count = _delete_some(at - timedelta(seconds=kept), at, batch)
        deleted += count
        if count < batch:
            return deleted


def _delete_some(before: datetime, at: datetime, batch: int) -> int:
    with write_transaction():
        chain = AuditChain.objects.select_for_update(skip_locked=True).first()
        if chain is None:
            return 0
        first = AuditRecord.objects.filter(position__gt=chain.anchor_position).order_by("position")
        last = _last_old(list(first[:batch]), before, at)
        if last is None or last.position is None:
            return 0
        old = AuditRecord.objects.filter(position__gt=chain.anchor_position, position__lte=last.position)
        count, _ = old.delete()
        chain.anchor_position, chain.anchor_hash = last.position, last.hash
        chain.save(update_fields=["anchor_position", "anchor_hash"])
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
