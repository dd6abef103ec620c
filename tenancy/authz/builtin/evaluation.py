"""Evaluates the permission model on one object, from the grants on the object and its parents.

Whether a visible object exists below takes another statement and is seldom needed: an evaluation collects the ids for
which it would matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from tenancy.authz.model import (
    DOWN,
    UP,
    Computed,
    Direct,
    Exclusion,
    Expression,
    Intersection,
    Linked,
    MalformedModel,
    Union,
    parts_of,
    rights_model,
)

VISIBLE: Final = "can_get_metadata"
"""The only relation that is inherited upwards: the parent of a visible object is visible."""


class Node(NamedTuple):
    """An object on a path: its type, its securable's id, and the direct relations that the subject has to it."""

    type: str
    id: str
    relations: frozenset[str]


class Evaluation:
    """Evaluates relations to the last object of `path`, which begins at the root.

    `shows_below` has by securable id whether a visible object exists below. An unknown id counts as False and is added
    to `unknown_below`: with the value a denied relation may be allowed.
    """

    def __init__(self, path: Sequence[Node], shows_below: Mapping[str, bool] | None = None) -> None:
        self._path = path
        self._shows_below = shows_below or {}
        self._known: dict[tuple[str, int], bool] = {}
        self.unknown_below: set[str] = set()

    def with_shows_below(self, shows_below: Mapping[str, bool]) -> Evaluation:
        """Return an evaluation of the same path with more entries in `shows_below`."""
        return Evaluation(self._path, {**self._shows_below, **shows_below})

    def holds(self, relation: str) -> bool:
        """Return whether the subject has `relation` to the object; False for a relation that its type does not have."""
        return bool(self._path) and self.holds_at(relation, len(self._path) - 1)

    def holds_at(self, relation: str, index: int) -> bool:
        key = (relation, index)
        known = self._known.get(key)
        if known is None:
            rule = _rules().get((self._path[index].type, relation))
            known = self._known[key] = rule is not None and rule(self, index)
        return known

    def holds_on_parent(self, relation: str, index: int) -> bool:
        return index > 0 and self.holds_at(relation, index - 1)

    def is_granted(self, relation: str, index: int) -> bool:
        return relation in self._path[index].relations

    def shows_below(self, index: int) -> bool:
        node_id = self._path[index].id
        known = self._shows_below.get(node_id)
        if known is None:
            self.unknown_below.add(node_id)
        return bool(known)


Rule = Callable[[Evaluation, int], bool]


@cache
def _rules() -> Mapping[tuple[str, str], Rule]:
    """Return the model as functions, by type and relation."""
    return {
        (object_type, relation): _rule(expression, relation)
        for object_type, relations in rights_model().types.items()
        for relation, expression in relations.items()
        if relation not in {UP, DOWN}
    }


def _rule(expression: Expression, relation: str) -> Rule:  # noqa: PLR0911 - one for each kind of expression
    """Return the function that evaluates `expression`, a part of the definition of `relation`."""
    match expression:
        case Direct():
            return lambda evaluation, index: evaluation.is_granted(relation, index)
        case Computed(other):
            return lambda evaluation, index: evaluation.holds_at(other, index)
        case Linked(other, link) if link == UP:
            return lambda evaluation, index: evaluation.holds_on_parent(other, index)
        case Linked(other, link) if link == DOWN and other == VISIBLE:
            return lambda evaluation, index: evaluation.shows_below(index)
        case Union(parts):
            some = [_rule(part, relation) for part in parts]
            return lambda evaluation, index: any(rule(evaluation, index) for rule in some)
        case Intersection(parts):
            each = [_rule(part, relation) for part in parts]
            return lambda evaluation, index: all(rule(evaluation, index) for rule in each)
        case Exclusion(base, minus):
            included, excluded = _rule(base, relation), _rule(minus, relation)
            return lambda evaluation, index: included(evaluation, index) and not excluded(evaluation, index)
        case _:
            raise MalformedModel(f"{relation}: not evaluated here: {expression}")


@cache
def _looking_below() -> frozenset[tuple[str, str]]:
    """Return the types and relations that may follow from a relation below the object or one of its parents."""
    found: set[tuple[str, str]] = set()
    types = rights_model().types
    while True:
        more = {
            (object_type, relation)
            for object_type, relations in types.items()
            for relation, expression in relations.items()
            if (object_type, relation) not in found and _leads_below(object_type, expression, found)
        }
        if not more:
            return frozenset(found)
        found |= more


def _leads_below(object_type: str, expression: Expression, known: set[tuple[str, str]]) -> bool:
    for part in parts_of(expression):
        if isinstance(part, Computed) and (object_type, part.relation) in known:
            return True
        if isinstance(part, Linked):
            above = rights_model().links(object_type, part.link)
            if part.link == DOWN or any((each, part.relation) in known for each in above):
                return True
    return False


def looks_below(securable_id: str, relation: str) -> bool:
    """Return whether `relation` to a securable may follow from an object below it."""
    return (securable_id.partition(":")[0], relation) in _looking_below()


@cache
def showing_privileges() -> Mapping[str, frozenset[str]]:
    """Return by type of child object the privileges that show the object and its parents."""
    below = {each for relations in rights_model().types for each in rights_model().links(relations, DOWN)}
    return {
        object_type: frozenset(
            privilege
            for privilege in rights_model().privileges(object_type)
            if Evaluation([Node(object_type, "", frozenset({privilege}))]).holds(VISIBLE)
        )
        for object_type in sorted(below)
    }
