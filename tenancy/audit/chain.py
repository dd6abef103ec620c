"""The hash chain: each sealed row covers its content and the hash of the row before.

Rows are written unsealed, each in its own transaction, so that no write waits for another. A moment later they are
sealed, by one process at a time, in the order in which they became visible: a row whose transaction was long comes
later in the chain, not into the middle of what was sealed already.
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
from tenancy.audit.document import hash_of
from tenancy.models import AuditChain, AuditRecord

logger = logging.getLogger("icekeeper.audit")

BATCH: Final = 200
"""Rows that are sealed in one transaction: nobody waits long for SQLite's one writer."""

HEADS_EVERY_SECONDS: Final = 60.0

_SEAL: Final = "UPDATE tenancy_auditrecord SET position = %s, previous_hash = %s, hash = %s WHERE id = %s"


class _Heads:
    """When this process last told the log where the chain ends."""

    def __init__(self) -> None:
        self._next = 0.0
        self._lock = Lock()

    def log(self, chain: AuditChain) -> None:
        with self._lock:
            if monotonic() < self._next or not settings.ICEKEEPER.audit.tracing.enabled:
                return
            self._next = monotonic() + HEADS_EVERY_SECONDS
        logger.info("audit.sealed", extra={"position": chain.position, "hash": chain.hash})


_heads: Final = _Heads()


def seal_records(*, actor: Actor, batch: int = BATCH) -> int:
    """Seal the rows that are there; how many this call has sealed. Nothing while somebody else does it."""
    sealed = 0
    while AuditRecord.objects.unsealed().exists():
        count = _seal_some(batch)
        sealed += count
        if count < batch:
            break
    return sealed


def append(chain: AuditChain, row: AuditRecord) -> None:
    """Make `row` the last of the chain, which the caller has locked; both are the caller's to save."""
    chain.position += 1
    row.position, row.previous_hash = chain.position, chain.hash
    row.hash = chain.hash = hash_of(row, chain.hash)


def _seal_some(batch: int) -> int:
    with write_transaction():
        chain = AuditChain.objects.select_for_update(skip_locked=True).first()
        if chain is None:  # locked
            return 0
        rows = list(AuditRecord.objects.unsealed().order_by("at", "id")[:batch])
        for row in rows:
            append(chain, row)
            execute(_SEAL, [row.position, row.previous_hash, row.hash, row.id])
        if rows:
            chain.save(update_fields=["position", "hash"])
    if rows:
        _heads.log(chain)
    return len(rows)
