"""What the request at hand rests on: looked at again before anything is changed because of it.

Somebody may have lost a right after it was asked about, while the request read files or waited for a lock. So every
write looks again when it begins (`write_transaction`) and when it has got a row that it waited for (`lock_row`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Look = Callable[[list[Any]], None]
"""Looks at premises of one kind; raises when one of them does not hold any more. It may replace them in the list."""

_current: ContextVar[dict[Look, list[Any]] | None] = ContextVar("premises", default=None)
"""None outside requests: commands and workers rest on nothing."""


@contextmanager
def resting() -> Iterator[None]:
    """A request, which rests on nothing yet."""
    token = _current.set({})
    try:
        yield
    finally:
        _current.reset(token)


def rest_on(look: Look, premise: Any) -> None:
    current = _current.get()
    if current is not None:
        current.setdefault(look, []).append(premise)


def rested_on(look: Look) -> list[Any]:
    """The premises of that kind so far."""
    return list((_current.get() or {}).get(look, ()))


def look_again() -> None:
    """To be called under a lock, before the first change. Raises what the looks raise."""
    for look, premises in (_current.get() or {}).items():
        look(premises)


def settle() -> None:
    """What rested on them is done; what the request does after that belongs to it, whatever has changed since."""
    current = _current.get()
    if current is not None:
        current.clear()
