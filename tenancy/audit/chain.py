"""Hash chain of the audit trail: each sealed record covers its content and the hash of the record before it.

Records are written unsealed in their own transactions, so that writers do not wait for each other. One process at a
time seals them afterwards, in the order in which they became visible: a record of a long transaction is appended, never
inserted between sealed ones.
"""

from __future__ import annotations

import logging
from threading import Lock
from time import monotonic
from typing import Final

from django.conf import settings

from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.audit.records import record_hash
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
