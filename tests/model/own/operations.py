"""One random operation on own names.

To add operations, add a module with its own `OPERATIONS`: functions and weights. A function returns the `Step` to
perform, or performs everything itself and returns None.
"""

from __future__ import annotations

from typing import Any

from tests.model.own import namespaces, reads, tables, tabulars, views
from tests.model.own.owner import Owner

OPERATIONS: dict[Any, int] = {
    **namespaces.OPERATIONS, **tables.OPERATIONS, **tabulars.OPERATIONS, **views.OPERATIONS, **reads.OPERATIONS,
}  # fmt: skip


def work_on_own(owner: Owner) -> None:
    owner.op = owner.caller.token()
    [operation] = owner.rng.choices(list(OPERATIONS), list(OPERATIONS.values()))
    step = operation(owner)
    if step is not None:
        owner.perform(step)
