"""Hash chain of the audit trail: each sealed record covers its content and the hash of the record before it.

Records are written unsealed in their own transactions, so that writers do not wait for each other. One process at a
time seals them afterwards, in the order in which they became visible: a record of a long transaction is appended, never
inserted between sealed ones.

Retention deletes old records from the beginning of the chain and seals a record of the deletion at its end, in the same
transaction: verification (`tenancy.audit.chain_verification`) accepts a chain that begins later only with that record.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Final

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.audit.recording import Event, build_record, record_hash
from tenancy.models import AuditChain, AuditRecord

logger = logging.getLogger("icekeeper.audit")

BATCH: Final = 200
"""Records sealed in one transaction; it is short because SQLite allows one writer at a time."""

HEADS_EVERY_SECONDS: Final = 60.0

_SEAL: Final = "UPDATE tenancy_auditrecord SET position = %s, previous_hash = %s, hash = %s WHERE id = %s"


class _HeadLog:
    """Logs the head of the chain, at most once in `HEADS_EVERY_SECONDS` for each process."""

    def __init__(self) -> None:
        self._next = 0.0
        self._lock = Lock()

    def log(self, chain: AuditChain) -> None:
        with self._lock:
            if monotonic() < self._next or not settings.ICEKEEPER.audit.tracing.enabled:
                return
            self._next = monotonic() + HEADS_EVERY_SECONDS
        logger.info("audit.sealed", extra={"position": chain.position, "hash": chain.hash})


_head_log: Final = _HeadLog()


def seal_records(*, actor: Actor, batch: int = BATCH) -> int:
    """Seal all unsealed records and return their number; 0 while another process seals."""
    sealed = 0
    while AuditRecord.objects.unsealed().exists():
        count = _seal_batch(batch)
        sealed += count
        if count < batch:
            break
    return sealed


def append_to_chain(chain: AuditChain, row: AuditRecord) -> None:
    """Append `row` to the chain without saving either; the caller locks the chain and saves both."""
    chain.position += 1
    row.position, row.previous_hash = chain.position, chain.hash
    row.hash = chain.hash = record_hash(row, chain.hash)


def _seal_batch(batch: int) -> int:
    with write_transaction():
        chain = AuditChain.objects.select_for_update(skip_locked=True).first()
        if chain is None:  # another process seals
            return 0
        rows = list(AuditRecord.objects.unsealed().order_by("at", "id")[:batch])
        for row in rows:
            append_to_chain(chain, row)
            execute(_SEAL, [row.position, row.previous_hash, row.hash, row.id])
        if rows:
            chain.save(update_fields=["position", "hash"])
    if rows:
        _head_log.log(chain)
    return len(rows)


DELETE_BATCH: Final = 500
"""Records deleted in one transaction, during which no other process can seal."""

GRACE_SECONDS: Final = 3600.0
"""Seconds by which a record must exceed its retention before a deletion starts, so that deletions are few."""


def delete_old_records(*, actor: Actor, batch: int = DELETE_BATCH) -> int:
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
    rows = AuditRecord.objects.after_position(chain.anchor_position)[:DELETE_BATCH]
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
