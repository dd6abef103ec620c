"""The expected state of one process's own objects: exactly these exist."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.model.names import Levels, Name
from tests.model.table_model import Model, difference, of_table
from tests.model.view_model import of_view

TABLE, VIEW = "table", "view"


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace, or of a shared one the properties that begin with `prefix`."""

    levels: Levels
    prefix: str = ""

    def __str__(self) -> str:
        return ".".join(self.levels)


@dataclass(frozen=True, slots=True)
class Seen:
    """A table or view as the catalog returned it."""

    kind: str
    location: str
    metadata: dict[str, Any]

    @property
    def uuid(self) -> str:
        return str(self.metadata[f"{self.kind}-uuid"])

    @property
    def model(self) -> Model:
        return modelled(self.kind, self.metadata)


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected state of a table or view; `location` of its metadata where no new file is written."""

    kind: str
    model: Model
    location: str | None = None

    @classmethod
    def same(cls, seen: Seen) -> Expected:
        return cls(seen.kind, seen.model, seen.location)


Subject = Space | Name
State = Seen | dict[str, str] | None
Wanted = Expected | dict[str, str] | None


@dataclass(slots=True)
class Step:
    """A request to own objects and its expected result.

    `after`: their state if it succeeds. `denial`: the expected error, None for success; `others`: errors that are
    also valid because of objects of others.
    """

    what: str
    method: str
    path: str
    body: Any = None
    after: dict[Subject, Wanted] = field(default_factory=dict)
    error: tuple[int, str] | None = None
    others: frozenset[tuple[int, str]] = frozenset()
    about: tuple[Any, ...] = ()


def modelled(kind: str, metadata: dict[str, Any]) -> Model:
    return of_table(metadata) if kind == TABLE else of_view(metadata)


def mismatch(wanted: Wanted | Seen, seen: State) -> str | None:
    """Return what is wrong with `seen`."""
    if wanted is None or seen is None:
        return None if wanted == seen else "it is missing" if seen is None else "it exists"
    if isinstance(wanted, dict) or isinstance(seen, dict):
        return None if wanted == seen else f"its properties are {seen}, not {wanted}"
    if wanted.kind != seen.kind:
        return f"it is a {seen.kind}"
    if wanted.location not in {None, seen.location}:
        return f"its metadata is at {seen.location}, not at {wanted.location}"
    if isinstance(wanted, Seen):
        return None if wanted.metadata == seen.metadata else "its metadata is another one"
    return difference(wanted.model, seen.model)
