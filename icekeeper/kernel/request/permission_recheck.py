"""Permissions that the current request was granted: checked again before anything is changed because of them.

A permission may be revoked after the request checked it, while the request reads files or waits for a lock. Every write
therefore checks again when it begins (`write_transaction`) and after it waited for a row (`lock_row`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icekeeper.kernel.request.context import Recheck, current_context


@contextmanager
def scope() -> Iterator[None]:
    """Run the block as a request with no recorded permissions."""
    context = current_context()
    outer, context.rechecks = context.rechecks, {}
    try:
        yield
    finally:
        context.rechecks = outer


def record(check: Recheck, permission: Any) -> None:
    """Record a granted permission for `recheck`; outside requests nothing is recorded."""
    rechecks = current_context().rechecks
    if rechecks is not None:
        rechecks.setdefault(check, []).append(permission)


def recorded(check: Recheck) -> list[Any]:
    """Return the permissions recorded for `check` so far."""
    return list((current_context().rechecks or {}).get(check, ()))


def recheck() -> None:
    """Check all recorded permissions again. Call it under a lock, before the first change; raises what checks raise."""
    for check, permissions in (current_context().rechecks or {}).items():
        check(permissions)


def clear() -> None:
    """Drop the recorded permissions: the write that needed them is complete."""
    rechecks = current_context().rechecks
    if rechecks is not None:
        rechecks.clear()
