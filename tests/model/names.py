"""The few names that all processes use, which causes conflicts, and the spellings of a name."""

from __future__ import annotations

import random
from dataclasses import dataclass
from urllib.parse import quote

Levels = tuple[str, ...]

STABLE: tuple[Levels, ...] = (("calm",), ("calm", "straße"))
"""Namespaces that are there all the time."""

VOLATILE: tuple[Levels, ...] = (("here",), ("here", "deep"), ("dropped",))
"""Namespaces that every process creates and drops."""

SHARED = ("s1", "s2", "ñ 3")
"""Names of tables and views that no process owns."""


@dataclass(frozen=True, order=True, slots=True)
class Name:
    """The name of a table or view, as the model spells it; the catalog ignores its case."""

    levels: Levels
    name: str

    def __str__(self) -> str:
        return ".".join((*self.levels, self.name))

    def as_json(self, rng: random.Random) -> dict[str, object]:
        return {"namespace": spelled(self.levels, rng), "name": respell(self.name, rng)}


def fold(levels: list[str] | Levels, name: str | None = None) -> str:
    """Return the form that all spellings of a name share."""
    return ".".join((*levels, *([] if name is None else [name]))).casefold()


def respell(text: str, rng: random.Random) -> str:
    return rng.choice((text, text, text.upper(), text.title()))


def spelled(levels: Levels, rng: random.Random) -> list[str]:
    return [respell(level, rng) for level in levels]


def namespace_path(levels: Levels, rng: random.Random) -> str:
    return "/namespaces/" + "%1F".join(quote(level, safe="") for level in spelled(levels, rng))


def tabular_path(kind: str, name: Name, rng: random.Random) -> str:
    return f"{namespace_path(name.levels, rng)}/{kind}s/{quote(respell(name.name, rng), safe='')}"
