"""The permission model (`model.fga`): which privileges exist on which objects, and what follows from them.

The notation is the part of OpenFGA's modeling language that the file uses: `define RELATION: EXPRESSION` with direct
types in brackets, `or`, `and`, `but not`, `X from LINK` and parentheses.
https://openfga.dev/docs/configuration-language
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("model.fga")

VERSION: Final = "2"
"""The version of the file, changed with each change: it identifies the model in an OpenFGA store."""

GRANTEES: Final = ("user", "role#assignee")
"""The types of grantees: users and the members of roles."""

UP, DOWN = "parent", "child"
MANAGED_ACCESS: Final = "managed_access"
OWNERSHIP: Final = "ownership"


@dataclass(frozen=True, slots=True)
class Direct:
    """A relation that tuples of `types` define."""

    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """A relation that follows from `relation` on the same object."""

    relation: str


@dataclass(frozen=True, slots=True)
class Linked:
    """A relation that follows from `relation` on any object that `link` leads to."""

    relation: str
    link: str


@dataclass(frozen=True, slots=True)
class Union:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Intersection:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A relation that follows from `base` without `minus`."""

    base: Expression
    minus: Expression


Expression = Direct | Computed | Linked | Union | Intersection | Exclusion


@dataclass(frozen=True, slots=True)
class Model:
    """The relations of each type of object, in the order of the file."""

    types: Mapping[str, Mapping[str, Expression]]

    def privileges(self, object_type: str) -> tuple[str, ...]:
        """Return the privileges that can be granted on objects of a type."""
        return tuple(
            name
            for name, expression in self.types[object_type].items()
            if any(isinstance(part, Direct) and part.types == GRANTEES for part in parts_of(expression))
        )

    def links(self, object_type: str, link: str) -> tuple[str, ...]:
        """Return the types of objects that `link` (`UP`, `DOWN`) may lead to; empty without such a link."""
        expression = self.types[object_type].get(link)
        return expression.types if isinstance(expression, Direct) else ()

    def actions(self, object_type: str) -> tuple[str, ...]:
        """Return the actions on objects of a type, without the prefix `can_` of the relations."""
        return tuple(name.removeprefix("can_") for name in self.types[object_type] if name.startswith("can_"))


class MalformedModel(ValueError):
    """The file has a syntax error, or uses a name that it does not define."""


@cache
def rights_model() -> Model:
    """Return the model of this version, read once."""
    return read_model(FILE.read_text())


def read_model(text: str) -> Model:
    """Parse a model. Raises `MalformedModel`."""
    types: dict[str, dict[str, Expression]] = {}
    relations: dict[str, Expression] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("# ")[0].strip()  # `role#assignee` is no comment
        if not line or line in {"#", "model", "schema 1.1", "relations"}:
            continue
        if line.startswith("type "):
            relations = types.setdefault(line.removeprefix("type ").strip(), {})
            continue
        name, colon, expression = line.removeprefix("define ").partition(":")
        if relations is None or not colon or not line.startswith("define ") or name in relations:
            raise MalformedModel(f"line {number}: {line}")
        relations[name] = _ExpressionParser(expression, f"line {number}").parse()
    model = Model(types)
    _require_defined(model)
    return model


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its parts."""
    yield expression
    if isinstance(expression, Union | Intersection):
        for part in expression.parts:
            yield from parts_of(part)
    elif isinstance(expression, Exclusion):
        yield from parts_of(expression.base)
        yield from parts_of(expression.minus)


_TOKEN = re.compile(r"\s*(\[[^\]]*\]|[()]|\w+)")


class _ExpressionParser:
    """Parses one expression. Different operators can be combined only with parentheses, as in OpenFGA."""

    def __init__(self, text: str, position: str) -> None:
        self._position = position
        self._words: list[str] = _TOKEN.findall(text)
        if "".join(self._words).replace(" ", "") != text.replace(" ", ""):
            raise MalformedModel(f"{position}: {text}")

    def parse(self) -> Expression:
        found = self._expression()
        if self._words:
            raise MalformedModel(f"{self._position}: unexpected {self._words[0]!r}")
        return found

    def _expression(self) -> Expression:
        parts, operator = [self._part()], None
        while self._words and self._words[0] in {"or", "and", "but"}:
            word = self._words.pop(0)
            if operator not in {None, word} or (operator == "but"):
                raise MalformedModel(f"{self._position}: {operator!r} and {word!r} combined without parentheses")
            if word == "but" and self._take() != "not":
                raise MalformedModel(f"{self._position}: `but` without `not`")
            operator = word
            parts.append(self._part())
        if operator is None:
            return parts[0]
        if operator == "but":
            return Exclusion(*parts)
        return Union(tuple(parts)) if operator == "or" else Intersection(tuple(parts))

    def _part(self) -> Expression:
        word = self._take()
        if word == "(":
            inner = self._expression()
            if self._take() != ")":
                raise MalformedModel(f"{self._position}: a parenthesis is not closed")
            return inner
        if word.startswith("["):
            return Direct(tuple(each.strip() for each in word[1:-1].split(",")))
        if self._words and self._words[0] == "from":
            self._take()
            return Linked(word, self._take())
        return Computed(word)

    def _take(self) -> str:
        if not self._words:
            raise MalformedModel(f"{self._position}: something is missing at the end")
        return self._words.pop(0)


def _require_defined(model: Model) -> None:
    for object_type, relations in model.types.items():
        for name, expression in relations.items():
            for part in parts_of(expression):
                if not _is_defined(model, object_type, part):
                    raise MalformedModel(f"{object_type}#{name} uses an undefined name: {part}")


def _is_defined(model: Model, object_type: str, part: Expression) -> bool:
    if isinstance(part, Direct):
        return all(re.split(r"[#:]", each)[0] in model.types for each in part.types)
    if isinstance(part, Computed):
        return part.relation in model.types[object_type]
    if isinstance(part, Linked):
        return any(part.relation in model.types[each] for each in model.links(object_type, part.link))
    return True
