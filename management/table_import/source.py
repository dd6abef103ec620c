"""The interface of import sources, and the items that they list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from catalog.identifiers import Levels
from catalog.services.tables.bulk_register import ImportEntry
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.names import lookup_key


@dataclass(frozen=True, slots=True)
class NamespaceEntry:
    levels: Levels
    properties: object


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry of the source that cannot be read: its position and the error."""

    where: str
    error: CatalogError


Item = NamespaceEntry | ImportEntry | UnreadableEntry


class ImportSource(ABC):
    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Yield all items, lazily; a namespace comes before its content.

        Raises `SourceUnreachable` if the whole source is unavailable.
        """

    def locate(self, entry: ImportEntry) -> ImportEntry | None:
        """Return the entry with its metadata location; None if it no longer exists. Called from several threads."""
        return entry


class SourceFailed(CatalogError):
    """The source returned no usable response for one item."""

    status, wire_type = 502, "SourceException"


class SourceUnreachable(SourceFailed):
    """The source does not respond, or denies access."""


class NamespaceFilter:
    """Contains the chosen namespaces and everything below them; every namespace if none is chosen."""

    def __init__(self, chosen: list[Levels]) -> None:
        self.chosen = chosen
        self._keys = [lookup_keys(levels) for levels in chosen]

    def __contains__(self, levels: Levels) -> bool:
        keys = lookup_keys(levels)
        return not self._keys or any(keys[: len(chosen)] == chosen for chosen in self._keys)


def lookup_keys(levels: Sequence[str]) -> Levels:
    """Return the keys by which the levels of a namespace are compared, without case."""
    return tuple(lookup_key(level) for level in levels)
