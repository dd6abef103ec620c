"""Whether a store does for a warehouse what the catalog asks of it, tried out with one small object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from icekeeper.kernel.errors import CatalogError
from icekeeper.kernel.ids import new_id
from storage.io.port import ObjectNotFound, ObjectStore

CONTENT = b"written by check_storage; may be deleted\n"


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """`problem` is None when the step went well."""

    name: str
    milliseconds: float
    problem: str | None


class _Unexpected(Exception):
    """The store did not fail, but it did something else."""


def probe(store: ObjectStore, location: str) -> Iterator[ProbeStep]:
    """Write, read, list and delete an object below the base `location` of a warehouse; each step when it is done.

    The first step that fails is the last one but the deletion, which is always tried: nothing is left behind.
    """
    folder = f"{location}/.check-{new_id()}"
    place = f"{folder}/probe"

    def read() -> None:
        if store.get(place, limit=len(CONTENT)) != CONTENT:
            raise _Unexpected("the object holds something else than was written")

    def list_it() -> None:
        if store.is_empty(folder, apart_from=lambda _: False):
            raise _Unexpected("the object is not listed")

    def delete() -> None:
        store.delete(place)
        store.delete_below(folder, lambda: None)
        try:
            store.get(place, limit=len(CONTENT))
        except ObjectNotFound:
            return
        raise _Unexpected("the object is still there")

    for name, act in (("write", lambda: store.put_new(place, CONTENT)), ("read", read), ("list", list_it)):
        step = _tried(name, act)
        yield step
        if step.problem is not None:
            break
    yield _tried("delete", delete)


def _tried(name: str, act: Callable[[], object]) -> ProbeStep:
    began = time.monotonic()
    problem: str | None = None
    try:
        act()
    except CatalogError as error:
        problem = error.message
    except _Unexpected as error:
        problem = str(error)
    return ProbeStep(name, round((time.monotonic() - began) * 1000, 3), problem)
