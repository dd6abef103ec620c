"""Verifies the hash chain: detects records that were changed, deleted or inserted after they were sealed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from django.db.models import Max, Min

from tenancy.audit.recording import Event, record_content, record_hash
from tenancy.models import AuditChain, AuditRecord

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

    def __init__(self, anchor: ChainHead) -> None:
        self.anchor, self.at, self.count = anchor, anchor, 0
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


def verify_chain(*, heads: list[ChainHead] | None = None) -> ChainReport:
    """Verify every record; raises `ChainBroken` for the first one that is wrong. Safe while servers run.

    `heads` were stored outside of the database earlier: an attacker with write access to the database can seal
    all records again, but cannot change those heads.
    """
    expected_heads = {head.position: head for head in sorted(heads or [])}
    chain = _chain()
    anchor, state = chain.anchor_position, _Verification(ChainHead(chain.anchor_position, chain.anchor_hash))
    _compare(expected_heads, state.at)
    while state.at.position < chain.position:
        rows = list(AuditRecord.objects.after_position(state.at.position)[:CHUNK])
        moved = _chain()
        if moved.anchor_position > state.at.position:  # retention deleted the next records meanwhile
            chain, anchor, state = (
                moved,
                moved.anchor_position,
                _Verification(ChainHead(moved.anchor_position, moved.anchor_hash)),
            )
            _compare(expected_heads, state.at)
            continue
        if not rows:
            raise _missing(state.at.position + 1, chain.position)
        for row in rows:
            if (row.position or 0) > chain.position:
                break
            state.step(row)
            _compare(expected_heads, state.at)
    if state.at != (chain.position, chain.hash):
        raise ChainBroken(f"The chain ends at row {chain.position} with another hash than when that row was sealed")
    state.require_beginning()
    _require_nothing_outside()
    beyond = [head for head in expected_heads.values() if head.position > chain.position]
    if beyond:
        raise ChainBroken(f"Row {beyond[0].position} is a given head, but the chain ends at row {chain.position}")
    unsealed = AuditRecord.objects.unsealed().count()
    unknown = [head for head in expected_heads.values() if head.position < anchor]
    return ChainReport(state.count, anchor, state.at, unsealed, unknown, state.deleted_until)


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
    ends = AuditRecord.objects.aggregate(lowest=Min("position"), highest=Max("position"))
    end = _chain().position
    lowest, highest = ends["lowest"], ends["highest"]
    if highest is not None and highest > end:
        raise ChainBroken(f"Row {highest} was inserted after the end of the chain, which is row {end}")
    if lowest is not None and lowest <= anchor:
        raise ChainBroken(f"Row {lowest} was inserted before the beginning of the chain, which is row {anchor + 1}")
