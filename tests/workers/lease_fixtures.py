"""Leases of tests."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.queue.leases import Lease, claim_tasks, recover_expired_leases


def lease_due_task(queues: Iterable[str]) -> Lease | None:
    """Claim one due task of the first of `queues` that has one; None without one."""
    recover_expired_leases()
    for queue in queues:
        for lease in claim_tasks({queue: 1}):
            return lease
    return None
