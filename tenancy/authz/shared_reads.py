"""Reads of grants that the selectors of one page share: inside `share_reads` each object is read once.

A page asks several selectors about the same object, its parents and the same users. What was read is used for the rest
of the block, unless permissions change meanwhile: then the epoch differs, and everything is read again, so that
rechecks before a write see the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tenancy.authz.permission_epoch import permission_epoch

if TYPE_CHECKING:
    from tenancy.authz.builtin.evaluation import Evaluation
    from tenancy.authz.builtin.queries import Roles
    from tenancy.authz.port import Subject


class SharedReads:
    """What was read since the block began, by subject and securable id.

    `shows_below` has whether an object below is visible to the subject.
    """

    def __init__(self) -> None:
        self.epoch = permission_epoch.current()
        self.roles: dict[Subject, Roles] = {}
        self.objects: dict[tuple[Subject, str], Evaluation] = {}
        self.shows_below: dict[tuple[Subject, str], bool] = {}


_shared: ContextVar[SharedReads | None] = ContextVar("shared_reads", default=None)


@contextmanager
def share_reads() -> Iterator[None]:
    """Share reads of grants in the block: for requests that read only, within milliseconds."""
    token = _shared.set(SharedReads())
    try:
        yield
    finally:
        _shared.reset(token)


def shared_reads() -> SharedReads | None:
    """Return what the current block has read, empty after permissions have changed; None outside blocks."""
    found = _shared.get()
    if found is not None and found.epoch != permission_epoch.current():
        found = SharedReads()
        _shared.set(found)
    return found
