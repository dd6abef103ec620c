"""Translates the permission model (`tenancy.authz.model`) into an OpenFGA authorization model with fewer paths.

In the original model, many paths lead from an object to each of its parents (`describe` follows from `select`, `select`
from `modify`, and each of them also from the parent), and OpenFGA evaluates all of them: about 2 s to deny a check on a
table four namespaces deep. Therefore each relation is split: `select` contains the grants on the object itself, and
`holds_select` also what follows from other grants and from the parent, without redundant paths. `shown` follows the
`child` links down to visible objects.

An owner of a role is a member of it. OpenFGA evaluates nested members about ten times faster if `assignee` has direct
tuples only, so a grant of ownership also writes the tuple of a member (`implied`).

https://openfga.dev/api/service#/Authorization%20Models/WriteAuthorizationModel
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tenancy.authz.model import (
    DOWN,
    GRANTEES,
    UP,
    Computed,
    Direct,
    Exclusion,
    Expression,
    Intersection,
    Linked,
    MalformedModel,
    Model,
    Union,
    parts_of,
    rights_model,
)

SHOWN: Final = "shown"
"""Relation of objects that are visible by a grant on them or on an object below."""


@cache
def unfolded_model() -> Model:
    """Return the translation of the current model."""
    return unfolded(rights_model())


def unfolded(model: Model) -> Model:
    """Split the relations of a model. Raises `MalformedModel` for an expression that cannot be split."""
    return _Unfolding(model).unfold()


@cache
def implied(object_type: str, privilege: str) -> tuple[str, ...]:
    """Return the relations that get a tuple of their own for each grant of the privilege: `assignee` for ownership.

    Raises `MalformedModel` if the relation cannot be expressed by tuples.
    """
    relations = rights_model().types[object_type]
    found = []
    for name in _usersets(rights_model()):
        own_type, _, relation = name.partition("#")
        if own_type != object_type:
            continue
        parts = [part for part in parts_of(relations[relation]) if not isinstance(part, Union | Direct)]
        if not all(isinstance(part, Computed) and isinstance(relations[part.relation], Direct) for part in parts):
            raise MalformedModel(f"{name} depends on more than direct grants")
        if Computed(privilege) in parts:
            found.append(relation)
    return tuple(found)


def _usersets(model: Model) -> set[str]:
    """Return the relations that tuples use as subjects, such as `role#assignee`."""
    every = (part for relations in model.types.values() for each in relations.values() for part in parts_of(each))
    return {name for part in every if isinstance(part, Direct) for name in part.types if "#" in name}


@dataclass(slots=True)
class _Parts:
    """The alternatives of a relation: grants on the object, relations to the parent, relations below, and the rest.

    Dicts are used as ordered sets.
    """

    granted: dict[str, None] = field(default_factory=dict)
    above: dict[str, None] = field(default_factory=dict)
    below: dict[str, None] = field(default_factory=dict)
    others: dict[Expression, None] = field(default_factory=dict)


class _Unfolding:
    """Splits the relations of one model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._usersets = _usersets(model)
        self._privileges = {name for each in model.types for name in model.types[each] if self._granted(each, name)}
        """Relations with grants on some type: where they are only inherited, they have the same effective name."""

    def unfold(self) -> Model:
        return Model({each: self._relations(each) for each in self._model.types})

    def _relations(self, object_type: str) -> Mapping[str, Expression]:
        relations: dict[str, Expression] = {}
        for name, expression in self._model.types[object_type].items():
            if self._is_kept(object_type, name):
                relations[name] = self._granted(object_type, name) or expression
                continue
            own = self._granted(object_type, name)
            if own is not None:
                relations[name] = own
            relations[self._effective(object_type, name)] = self._derived(object_type, name)
        for visible in self._relations_from_below():
            if visible in self._model.types[object_type]:
                parts = self._parts(object_type, visible)
                down = [Linked(SHOWN, DOWN)] if parts.below else []
                relations[SHOWN] = _union([*(Computed(each) for each in parts.granted), *down])
        return relations

    def _derived(self, object_type: str, name: str) -> Expression:
        """Return the expression of everything that `name` follows from."""
        expression = self._model.types[object_type][name]
        if isinstance(expression, Computed):
            return Computed(self._effective(object_type, expression.relation))
        parts = self._parts(object_type, name)
        return _union(
            [
                *(Computed(each) for each in parts.granted),
                *(Linked(self._effective_above(object_type, each), UP) for each in self._needed(object_type, parts)),
                *([Linked(SHOWN, DOWN)] if parts.below else []),
                *parts.others,
            ]
        )

    def _is_kept(self, object_type: str, name: str) -> bool:
        """Return whether the relation keeps its name: links, purely direct relations, and subjects of tuples."""
        return isinstance(self._model.types[object_type][name], Direct) or f"{object_type}#{name}" in self._usersets

    def _granted(self, object_type: str, name: str) -> Direct | None:
        """Return the direct types of the relation, None if it cannot be granted."""
        expression = self._model.types[object_type][name]
        parts = expression.parts if isinstance(expression, Union) else ()
        return next((part for part in parts if isinstance(part, Direct)), None)

    def _effective(self, object_type: str, name: str) -> str:
        if self._is_kept(object_type, name) or name not in self._privileges:
            return name
        return f"holds_{name}"

    def _effective_above(self, object_type: str, name: str) -> str:
        """Return the effective name of a relation on the parent, which must be the same for all types of parents."""
        names = {self._effective(each, name) for each in self._parents_with(object_type, name)}
        if len(names) != 1:
            raise MalformedModel(f"{object_type}: {name} from {UP} is ambiguous: {sorted(names)}")
        return names.pop()

    def _parents_with(self, object_type: str, name: str) -> list[str]:
        return [each for each in self._model.links(object_type, UP) if name in self._model.types[each]]

    def _parts(self, object_type: str, name: str) -> _Parts:
        parts = _Parts()
        self._collect(object_type, name, self._model.types[object_type][name], parts)
        return parts

    def _collect(self, object_type: str, name: str, expression: Expression, parts: _Parts) -> None:
        """Collect the alternatives of `expression`, the definition of `name`, in `parts`."""
        match expression:
            case Direct():
                parts.granted[name] = None
            case Computed(other) if self._is_kept(object_type, other):
                parts.granted[other] = None
            case Computed(other):
                self._collect(object_type, other, self._model.types[object_type][other], parts)
            case Linked(other, link) if link == UP:
                parts.above[other] = None
            case Linked(other, _):
                parts.below[other] = None
            case Union(each):
                for part in each:
                    self._collect(object_type, name, part, parts)
            case Intersection() | Exclusion():
                parts.others[self._translate(object_type, expression)] = None

    def _translate(self, object_type: str, expression: Expression) -> Expression:
        match expression:
            case Computed(other):
                return Computed(self._effective(object_type, other))
            case Linked(other, link) if link == UP:
                return Linked(self._effective_above(object_type, other), UP)
            case Union(parts):
                return Union(tuple(self._translate(object_type, part) for part in parts))
            case Intersection(parts):
                return Intersection(tuple(self._translate(object_type, part) for part in parts))
            case Exclusion(base, minus):
                return Exclusion(self._translate(object_type, base), self._translate(object_type, minus))
            case _:
                raise MalformedModel(f"{object_type}: not supported within `and` or `but not`: {expression}")

    def _needed(self, object_type: str, parts: _Parts) -> list[str]:
        """Return the relations to the parent, without those from which another of them follows."""
        return [
            name
            for name in parts.above
            if not any(other != name and self._follows_above(object_type, other, name) for other in parts.above)
        ]

    def _follows_above(self, object_type: str, name: str, cause: str) -> bool:
        """Return whether `name` follows from `cause` on every parent that has `cause`."""
        return all(
            name in self._model.types[each] and cause in self._causes(each, name)
            for each in self._parents_with(object_type, cause)
        )

    def _causes(self, object_type: str, name: str) -> set[str]:
        """Return the relations on the same object of which each one alone implies `name`."""
        found: set[str] = set()
        waiting = [self._model.types[object_type][name]]
        while waiting:
            match waiting.pop():
                case Computed(other):
                    found.add(other)
                    waiting.append(self._model.types[object_type][other])
                case Union(parts):
                    waiting += parts
        return found

    def _relations_from_below(self) -> set[str]:
        """Return the relation that is inherited upwards, at most one for all types."""
        found: set[str] = set()
        for object_type, relations in self._model.types.items():
            for name in relations:
                parts = self._parts(object_type, name)
                found |= parts.below.keys()
                for each in parts.below:
                    self._require_upward_closed(object_type, name, each)
        if len(found) > 1:
            raise MalformedModel(f"several relations are inherited upwards: {sorted(found)}")
        return found

    def _require_upward_closed(self, object_type: str, name: str, visible: str) -> None:
        """Require that a search along `child` links alone finds all sources of `visible`."""
        for below in self._model.links(object_type, DOWN):
            parts = self._parts(below, visible)
            from_above = {each for each in parts.above if each in self._model.types[object_type]}
            if parts.others or not from_above <= {name, *self._causes(object_type, name)}:
                raise MalformedModel(f"{object_type}#{name}: {visible} of a {below} has other sources")


def _union(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


UNEXPIRED: Final = "unexpired"
"""The condition of all grants. Each check sends the current time, which is that of the built-in evaluator."""


CURRENT_TIME, EXPIRES_AT = "current_time", "expires_at"


_CONDITION: Final = {
    "name": UNEXPIRED,
    "expression": f"{CURRENT_TIME} < {EXPIRES_AT}",
    "parameters": {each: {"type_name": "TYPE_NAME_TIMESTAMP"} for each in (CURRENT_TIME, EXPIRES_AT)},
}


def authorization_model(model: Model, name: str) -> dict[str, Any]:
    """Return the JSON form of a model, with an empty type `name` that identifies the model in a store."""
    types = [_type_definition(each, relations) for each, relations in model.types.items()]
    return {
        "schema_version": "1.1",
        "type_definitions": [*types, {"type": name}],
        "conditions": {UNEXPIRED: _CONDITION},
    }


def _type_definition(name: str, relations: Any) -> dict[str, Any]:
    if not relations:
        return {"type": name}
    granted = {
        relation: {"directly_related_user_types": types}
        for relation, expression in relations.items()
        if (types := [each for part in parts_of(expression) for each in _related_types(part)])
    }
    return {
        "type": name,
        "relations": {relation: _userset(expression) for relation, expression in relations.items()},
        "metadata": {"relations": granted},
    }


def _related_types(part: Expression) -> list[dict[str, Any]]:
    """Return the types of tuple subjects; grants have the condition `unexpired`."""
    if not isinstance(part, Direct):
        return []
    related = [_related_type(each) for each in part.types]
    return [each | {"condition": UNEXPIRED} for each in related] if part.types == GRANTEES else related


def _related_type(text: str) -> dict[str, Any]:
    """Return the JSON form of `table`, `role#assignee` or `user:*`."""
    if text.endswith(":*"):
        return {"type": text.removesuffix(":*"), "wildcard": {}}
    name, _, relation = text.partition("#")
    return {"type": name, "relation": relation} if relation else {"type": name}


def _userset(expression: Expression) -> dict[str, Any]:
    match expression:
        case Direct():
            return {"this": {}}
        case Computed(relation):
            return {"computedUserset": {"relation": relation}}
        case Linked(relation, link):
            return {"tupleToUserset": {"tupleset": {"relation": link}, "computedUserset": {"relation": relation}}}
        case Union(parts):
            return {"union": {"child": [_userset(part) for part in parts]}}
        case Intersection(parts):
            return {"intersection": {"child": [_userset(part) for part in parts]}}
        case Exclusion(base, minus):
            return {"difference": {"base": _userset(base), "subtract": _userset(minus)}}
