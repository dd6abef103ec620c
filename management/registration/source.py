"""Where tables and views to be registered are listed: a file, or another catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catalog.identifiers import Levels, lookup_key
from catalog.services.tables.bulk_register import Listed
from icekeeper.kernel.errors.types import CatalogError


@dataclass(frozen=True, slots=True)
class ListedNamespace:
    levels: Levels
    properties: object


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something in the source that cannot be used: where it stands, and why."""

    where: str
    error: CatalogError


Item = ListedNamespace | Listed | Unreadable


class Source(ABC):
    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Everything there is, read as it is asked for; a namespace comes before what is in it.

        Raises `SourceUnreachable` when there is no point in going on.
        """

    def locate(self, listed: Listed) -> Listed | None:
        """`listed` with its metadata location; None when it is gone by now. Called from several threads."""
        return listed


class SourceFailed(CatalogError):
    """The source gave no usable answer about one thing."""

    status, wire_type = 502, "SourceException"


class SourceUnreachable(SourceFailed):
    """The source gives no answers at all, or none to us."""


class Choice:
    """The namespaces that are asked for, each with everything below it; all when none is named."""

    def __init__(self, chosen: list[Levels]) -> None:
        self.chosen = chosen
        self._keys = [lookup_keys(levels) for levels in chosen]

    def __contains__(self, levels: Levels) -> bool:
        keys = lookup_keys(levels)
        return not self._keys or any(keys[: len(chosen)] == chosen for chosen in self._keys)


def lookup_keys(levels: Sequence[str]) -> Levels:
    """What the levels of a namespace are compared by: Icekeeper tells no two apart that differ in case only."""
    return tuple(lookup_key(level) for level in levels)
