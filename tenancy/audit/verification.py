"""Whether the chain of the audit trail is whole: what was changed, deleted or put in after it was sealed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from django.db.models import Max, Min

from tenancy.audit.document import content_of, hash_of
from tenancy.audit.log import Event
from tenancy.models import AuditChain, AuditRecord

CHUNK: Final = 1000


class ChainHead(NamedTuple):
    """What was noted elsewhere of the chain: the hash of the row at a position."""

    position: int
    hash: str


@dataclass(slots=True)
class ChainReport:
    """`count` rows from behind `anchor` to `head` are as they were sealed, `unsealed` ones are not covered yet.

    `unknown_heads` were noted of rows that are not there any more. `deleted_until` is when the newest row that was
    deleted for its age was written, as the row about that says.
    """

    count: int
    anchor: int
    head: ChainHead
    unsealed: int
    unknown_heads: list[ChainHead] = field(default_factory=list)
    deleted_until: str | None = None


class ChainBroken(Exception):
    """The first row that is not what was sealed; the message says which and why."""


class _Walk:
    """Along the rows, in their order."""

    def __init__(self, anchor: ChainHead) -> None:
        self.anchor, self.at, self.count = anchor, anchor, 0
        self.deleted_until: str | None = None

    def step(self, row: AuditRecord) -> None:
        expected = self.at.position + 1
        if row.position != expected:
            raise _missing(expected, (row.position or 0) - 1)
        if row.previous_hash != self.at.hash:
            raise ChainBroken(f"Row {expected} ({row.id}) does not continue the row before")
        if row.hash != hash_of(row, row.previous_hash):
            raise ChainBroken(f"Row {expected} ({row.id}) is not what was sealed")
        self.at, self.count = ChainHead(expected, row.hash), self.count + 1
        if row.event == Event.AUDIT_RECORDS_DELETED:
            told = content_of(row)["details"]
            if isinstance(told, dict) and (told.get("position"), told.get("hash")) == self.anchor:
                self.deleted_until = str(told.get("newest"))

    def require_beginning(self) -> None:
        """That retention has told of what is missing before the beginning, in a row that is still there."""
        if self.anchor.position and self.deleted_until is None:
            raise ChainBroken(
                f"Rows 1 to {self.anchor.position} are missing, and no row tells that they were deleted for their age"
            )


def verify_chain(*, heads: list[ChainHead] | None = None) -> ChainReport:
    """Look at every row; raises `ChainBroken` at the first that is wrong. May be run beside servers.

    `heads` were noted earlier, in another place: who can write to the database can seal everything anew, but cannot
    change those.
    """
    noted = {head.position: head for head in sorted(heads or [])}
    chain = _chain()
    anchor, walk = chain.anchor_position, _Walk(ChainHead(chain.anchor_position, chain.anchor_hash))
    _compare(noted, walk.at)
    while walk.at.position < chain.position:
        rows = list(AuditRecord.objects.after_position(walk.at.position)[:CHUNK])
        moved = _chain()
        if moved.anchor_position > walk.at.position:  # what comes next was deleted for its age meanwhile
            chain, anchor, walk = (
                moved,
                moved.anchor_position,
                _Walk(ChainHead(moved.anchor_position, moved.anchor_hash)),
            )
            _compare(noted, walk.at)
            continue
        if not rows:
            raise _missing(walk.at.position + 1, chain.position)
        for row in rows:
            if (row.position or 0) > chain.position:
                break
            walk.step(row)
            _compare(noted, walk.at)
    if walk.at != (chain.position, chain.hash):
        raise ChainBroken(
            f"The chain ends at row {chain.position} with another hash than was noted when that was sealed"
        )
    walk.require_beginning()
    _require_nothing_outside()
    beyond = [head for head in noted.values() if head.position > chain.position]
    if beyond:
        raise ChainBroken(f"Row {beyond[0].position} was noted, and the chain ends at row {chain.position}")
    unsealed = AuditRecord.objects.unsealed().count()
    unknown = [head for head in noted.values() if head.position < anchor]
    return ChainReport(walk.count, anchor, walk.at, unsealed, unknown, walk.deleted_until)


def _missing(first: int, last: int) -> ChainBroken:
    return ChainBroken(f"Row {first} is missing" if first == last else f"Rows {first} to {last} are missing")


def _chain() -> AuditChain:
    chain = AuditChain.objects.first()
    if chain is None:
        raise ChainBroken("The row that says where the chain ends is missing")
    return chain


def _compare(noted: dict[int, ChainHead], at: ChainHead) -> None:
    head = noted.get(at.position)
    if head is not None and head.hash != at.hash:
        raise ChainBroken(f"Row {at.position} has another hash than was noted")


def _require_nothing_outside() -> None:
    """Rows with a position before the beginning or behind the end. The ends only move on: they are read first for the
    one and last for the other."""
    anchor = _chain().anchor_position
    ends = AuditRecord.objects.aggregate(lowest=Min("position"), highest=Max("position"))
    end = _chain().position
    lowest, highest = ends["lowest"], ends["highest"]
    if highest is not None and highest > end:
        raise ChainBroken(f"Row {highest} was put in behind the end of the chain, which is row {end}")
    if lowest is not None and lowest <= anchor:
        raise ChainBroken(f"Row {lowest} was put in before the beginning of the chain, which is row {anchor + 1}")
