"""Records of changes that did not happen."""

from __future__ import annotations

from typing import Any

from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change


def record(kind: Change, *, actor: Actor, **facts: Any) -> None:
    """Record one change in a transaction of its own; `facts` are those of `ChangeTransaction.record`."""
    with change(actor) as tx:
        tx.record(kind, **facts)
