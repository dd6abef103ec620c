"""Making a declaration true, step by step; each step is a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable

from icekeeper.kernel.errors.types import CatalogError, Conflict
from management.bootstrap.declaration import Declaration
from management.bootstrap.plan import Refused, Step, make_plan
from tenancy.services.bootstrap import AlreadyBootstrapped, ConcurrentBootstrap

ATTEMPTS = 3
"""Plans that are made when others change the same things meanwhile, as when two nodes start with one declaration."""


def apply(declaration: Declaration, done: Callable[[Step], object]) -> None:
    """Do what is to be done; `done` is told each step after it was.

    Raises `Refused` before anything is changed, or later with what the step at hand met; the steps before it stay, and
    the next call goes on behind them.
    """
    for attempt in range(1, ATTEMPTS + 1):
        for step in make_plan(declaration):
            try:
                step.do()
            except (Conflict, AlreadyBootstrapped, ConcurrentBootstrap) as lost:
                if attempt == ATTEMPTS:
                    raise _refused(step, lost) from None
                break
            except CatalogError as refusal:
                raise _refused(step, refusal) from None
            done(step)
        else:
            return


def _refused(step: Step, refusal: CatalogError) -> Refused:
    return Refused([f"{step.path}: {refusal.message}" if step.path else refusal.message])
