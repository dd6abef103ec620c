"""Permissions that the current request was granted: checked again before anything is changed because of them.

A permission may be revoked after the request checked it, while the request reads files or waits for a lock. Every write
therefore checks again when it begins (`write_transaction`) and after it waited for a row (`lock_row`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Recheck = Callable[[list[Any]], None]
"""Checks recorded permissions of one kind again; raises when one no longer holds. It may replace them in the list."""

_current: ContextVar[dict[Recheck, list[Any]] | None] = ContextVar("permission_recheck", default=None)
"""None outside requests: commands and workers record nothing."""


@contextmanager
def scope() -> Iterator[None]:
    """Begin a request with no recorded permissions."""
    token = _current.set({})
    try:
        yield
    finally:
        _current.reset(token)


def record(check: Recheck, permission: Any) -> None:
    current = _current.get()
    if current is not None:
        current.setdefault(check, []).append(permission)


def recorded(check: Recheck) -> list[Any]:
    """Return the permissions recorded for `check` so far."""
    return list((_current.get() or {}).get(check, ()))


def recheck() -> None:
    """Check all recorded permissions again. Call it under a lock, before the first change; raises what checks raise."""
    for check, permissions in (_current.get() or {}).items():
        check(permissions)


def clear() -> None:
    """Drop the recorded permissions: the write that needed them is complete."""
    current = _current.get()
    if current is not None:
        current.clear()
