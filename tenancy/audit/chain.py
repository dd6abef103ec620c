"""Hash chain of the audit trail: each sealed record covers its content and the hash of the record before it.

Records are written unsealed in their own transactions, so that writers do not wait for each other. One process at a
time seals them afterwards, in the order in which they became visible: a record of a long transaction is appended, never
inserted between sealed ones.

Retention deletes old records from the beginning of the chain and seals a record of the deletion at its end, in the same
transaction: verification (`verify_chain`) accepts a chain that begins later only with that record.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Max, Min

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor
from tenancy.audit.recording import Event, build_record, canonical_text
from tenancy.models import AuditChain, AuditRecord

logger = logging.getLogger("icekeeper.audit")

BATCH: Final = 200
"""Records sealed in one transaction; it is short because SQLite allows one writer at a time."""

HEADS_EVERY_SECONDS: Final = 60.0

_SEAL: Final = "UPDATE tenancy_auditrecord SET position = %s, previous_hash = %s, hash = %s WHERE id = %s"

_SEAL_ALL: Final = """
UPDATE tenancy_auditrecord AS r SET position = s.position, previous_hash = s.previous_hash, hash = s.hash
  FROM unnest(
         string_to_array(%s, ' ')::bigint[], string_to_array(%s, ' '), string_to_array(%s, ' '),
         string_to_array(%s, ' ')::uuid[]
       ) AS s(position, previous_hash, hash, id)
 WHERE r.id = s.id
"""


def record_content(record: AuditRecord) -> dict[str, Any]:
    """Return all fields of the record except the hashes."""
    return {
        "id": str(record.id),
        "position": record.position,
        "at": _time(record.at),
        "last-at": _time(record.last_at),
        "count": record.count,
        "event": record.event,
        "action": record.action or None,
        "outcome": str(record.outcome),
        "reason": record.reason or None,
        "privilege-source": str(record.privilege_source) or None,
        "actor": record.actor,
        "assumed-role": _id(record.assumed_role),
        "access-token": _id(record.access_token_id),
        "object-type": record.object_type or None,
        "object-id": record.object_id or None,
        "project-id": record.project_id or None,
        "request-id": _id(record.request_id),
        "address": record.address or None,
        "forwarded-for": record.forwarded_for or None,
        "user-agent": record.user_agent or None,
        "details": _details(record.details),
    }


def record_document(record: AuditRecord) -> dict[str, Any]:
    return record_content(record) | {"previous-hash": record.previous_hash or None, "hash": record.hash or None}


def record_hash(record: AuditRecord, previous_hash: str) -> str:
    """Return the SHA-256 (hex) of the previous hash, a line feed, and the canonical JSON of all fields but the hashes.

    Canonical JSON has sorted keys, no spaces, and ASCII only (`\\uXXXX` for other characters).
    """
    return sha256(f"{previous_hash}\n{canonical_text(record_content(record))}".encode()).hexdigest()


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="microseconds")


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)


def _details(text: str) -> Any:
    """Parse the details; return the text itself if it is no JSON, as after manipulation of the row."""
    try:
        return json.loads(text)
    except ValueError:
        return text


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
        if rows:
            _save_seals(rows)
            chain.save(update_fields=["position", "hash"])
    if rows:
        _head_log.log(chain)
    return len(rows)


def _save_seals(rows: list[AuditRecord]) -> None:
    """Save positions and hashes, on PostgreSQL with one statement: that costs a third of one for each row."""
    seals = [(row.position, row.previous_hash, row.hash, row.id) for row in rows]
    if connection.vendor == "postgresql":
        # Joined text costs less than lists, of which psycopg quotes each element.
        execute(_SEAL_ALL, [" ".join(map(str, column)) for column in zip(*seals, strict=True)])
    else:
        for seal in seals:
            execute(_SEAL, seal)


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
        old = AuditRecord.objects.after_position(chain.anchor_position).order_by().filter(position__lte=last.position)
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


CHUNK: Final = 1000


class ChainHead(NamedTuple):
    """The hash of the record at a position, as stored outside of the database."""

    position: int
    hash: str


@dataclass(slots=True)
class ChainReport:
    """`count` records after `anchor` up to `head` are as they were sealed; `unsealed` records are not covered yet.

    `unknown_heads` are heads of records that retention has deleted. `deleted_until` is the time of the newest deleted
    record, from the record of that deletion.
    """

    count: int
    anchor: int
    head: ChainHead
    unsealed: int
    unknown_heads: list[ChainHead] = field(default_factory=list)
    deleted_until: str | None = None


class ChainBroken(Exception):
    """The first record that is not as it was sealed; the message says which one and why."""


class _Verification:
    """Verification state while records are read in the order of the chain."""

    def __init__(self, anchor: ChainHead, at: ChainHead | None = None, count: int = 0) -> None:
        self.anchor, self.at, self.count = anchor, at or anchor, count
        self.deleted_until: str | None = None

    def step(self, row: AuditRecord) -> None:
        expected = self.at.position + 1
        if row.position != expected:
            raise _missing(expected, (row.position or 0) - 1)
        if row.previous_hash != self.at.hash:
            raise ChainBroken(f"Row {expected} ({row.id}) does not continue the row before")
        if row.hash != record_hash(row, row.previous_hash):
            raise ChainBroken(f"Row {expected} ({row.id}) is not what was sealed")
        self.at, self.count = ChainHead(expected, row.hash), self.count + 1
        if row.event == Event.AUDIT_RECORDS_DELETED:
            details = record_content(row)["details"]
            if isinstance(details, dict) and (details.get("position"), details.get("hash")) == self.anchor:
                self.deleted_until = str(details.get("newest"))

    def require_beginning(self) -> None:
        """Require a record of the deletion of everything before the beginning of the chain."""
        if self.anchor.position and self.deleted_until is None:
            raise ChainBroken(
                f"Rows 1 to {self.anchor.position} are missing, and no record of their deletion by retention exists"
            )


class VerificationState(NamedTuple):
    """The state of a verification in parts: `verified` records after `anchor` up to `at` are as they were sealed."""

    anchor: ChainHead
    at: ChainHead
    verified: int
    deleted_until: str | None
    end: int
    """The position of the last sealed record, for the progress."""


def verify_chain(*, heads: list[ChainHead] | None = None) -> ChainReport:
    """Verify every record; raises `ChainBroken` for the first one that is wrong. Safe while servers run.

    `heads` were stored outside of the database earlier: an attacker with write access to the database can seal
    all records again, but cannot change those heads.
    """
    expected_heads = {head.position: head for head in sorted(heads or [])}
    chain = _chain()
    state = _Verification(ChainHead(chain.anchor_position, chain.anchor_hash))
    _compare(expected_heads, state.at)
    chain, state = _verify_until(float("inf"), chain, state, expected_heads)
    return _report(chain, state, expected_heads)


def verify_chain_part(
    before: VerificationState | None, *, seconds: float
) -> tuple[VerificationState, ChainReport | None]:
    """Verify records for about `seconds`, from the beginning or where the part `before` has ended.

    Returns the state to continue with, and the report if everything is verified. Raises as `verify_chain`.
    """
    chain = _chain()
    state = _Verification(ChainHead(chain.anchor_position, chain.anchor_hash))
    if before is not None and before.at.position >= chain.anchor_position:
        state = _Verification(before.anchor, before.at, before.verified)
        state.deleted_until = before.deleted_until
    chain, state = _verify_until(monotonic() + seconds, chain, state, {})
    is_done = state.at.position >= chain.position
    report = _report(chain, state, {}) if is_done else None
    return VerificationState(state.anchor, state.at, state.count, state.deleted_until, chain.position), report


def _verify_until(
    until: float, chain: AuditChain, state: _Verification, expected_heads: dict[int, ChainHead]
) -> tuple[AuditChain, _Verification]:
    """Verify the records after `state` up to the end of `chain`, at most until a time (monotonic)."""
    while state.at.position < chain.position and monotonic() < until:
        rows = list(AuditRecord.objects.after_position(state.at.position)[:CHUNK])
        moved = _chain()
        if moved.anchor_position > state.at.position:  # retention deleted the next records meanwhile
            chain, state = moved, _Verification(ChainHead(moved.anchor_position, moved.anchor_hash))
            _compare(expected_heads, state.at)
            continue
        if not rows:
            raise _missing(state.at.position + 1, chain.position)
        for row in rows:
            if (row.position or 0) > chain.position:
                break
            state.step(row)
            _compare(expected_heads, state.at)
    return chain, state


def _report(chain: AuditChain, state: _Verification, expected_heads: dict[int, ChainHead]) -> ChainReport:
    """Verify what concerns the chain as a whole, after all its records."""
    if state.at != (chain.position, chain.hash):
        raise ChainBroken(f"The chain ends at row {chain.position} with another hash than when that row was sealed")
    state.require_beginning()
    _require_nothing_outside()
    beyond = [head for head in expected_heads.values() if head.position > chain.position]
    if beyond:
        raise ChainBroken(f"Row {beyond[0].position} is a given head, but the chain ends at row {chain.position}")
    unsealed = AuditRecord.objects.unsealed().count()
    unknown = [head for head in expected_heads.values() if head.position < state.anchor.position]
    return ChainReport(state.count, state.anchor.position, state.at, unsealed, unknown, state.deleted_until)


def _missing(first: int, last: int) -> ChainBroken:
    return ChainBroken(f"Row {first} is missing" if first == last else f"Rows {first} to {last} are missing")


def _chain() -> AuditChain:
    chain = AuditChain.objects.first()
    if chain is None:
        raise ChainBroken("The row with the end of the chain is missing")
    return chain


def _compare(expected_heads: dict[int, ChainHead], at: ChainHead) -> None:
    head = expected_heads.get(at.position)
    if head is not None and head.hash != at.hash:
        raise ChainBroken(f"Row {at.position} has another hash than the given head")


def _require_nothing_outside() -> None:
    """Raise for records before the beginning or after the end of the chain.

    Both ends only grow: the beginning is read before the records, the end after them.
    """
    anchor = _chain().anchor_position
    ends = AuditRecord.objects.sealed().aggregate(lowest=Min("position"), highest=Max("position"))
    end = _chain().position
    lowest, highest = ends["lowest"], ends["highest"]
    if highest is not None and highest > end:
        raise ChainBroken(f"Row {highest} was inserted after the end of the chain, which is row {end}")
    if lowest is not None and lowest <= anchor:
        raise ChainBroken(f"Row {lowest} was inserted before the beginning of the chain, which is row {anchor + 1}")
