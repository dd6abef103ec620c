"""Questions about rights as OpenFGA is asked them: which relation says it, and what must be told along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from tenancy.authz.model import DOWN, UP, Computed, Linked, MalformedModel, parts_of
from tenancy.authz.openfga.tuples import TupleKey
from tenancy.authz.openfga.unfolding import unfolded_model

_HERE: Final = 0
_ABOVE: Final = 1


@cache
def asked_relation(object_type: str, action: str) -> str | None:
    """The relation that `can_<action>` is another name of; None for what cannot be done with such objects.

    Most actions are a few relations by other names, each of which need be asked but once.
    """
    relations = unfolded_model().types.get(object_type, {})
    relation = f"can_{action}"
    if relation not in relations:
        return None
    while isinstance(expression := relations[relation], Computed):
        relation = expression.relation
    return relation


@cache
def looks_below(object_type: str, relation: str) -> bool:
    """Whether the answer may depend on what lies below the object, or below its parent (`types_below_parent`)."""
    return bool(_levels(object_type, relation))


@cache
def types_below_parent() -> tuple[str, ...]:
    """The types of objects about which something depends on what else lies below their parent, as roles and tags."""
    return tuple(
        object_type
        for object_type, relations in unfolded_model().types.items()
        if any(_ABOVE in _levels(object_type, relation) for relation in relations)
    )


@cache
def _levels(object_type: str, relation: str) -> frozenset[int]:
    """How far above the object it is whose `child` links count. Raises `MalformedModel` above its parent."""
    found: set[int] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(object_type, relation, 0)]
    while waiting:
        own_type, own_relation, level = waiting.pop()
        if (own_type, own_relation) in seen:
            continue
        seen.add((own_type, own_relation))
        expression = unfolded_model().types[own_type].get(own_relation)
        for part in () if expression is None else parts_of(expression):
            if isinstance(part, Computed):
                waiting.append((own_type, part.relation, level))
            elif isinstance(part, Linked) and part.link == UP:
                parents = unfolded_model().links(own_type, UP)
                waiting += [(parent, part.relation, level + 1) for parent in parents]
            elif isinstance(part, Linked):
                found.add(level)
    if found - {_HERE, _ABOVE}:
        raise MalformedModel(f"{object_type}#{relation} depends on what is below something far above")
    return frozenset(found)


def links_down(path: str, below: str) -> Sequence[TupleKey]:
    """The `child` links from the object at `path` to the one at `below`, each path as `Securable.path` has it."""
    top = path.rstrip("/").rpartition("/")[2]
    steps = [top, *below.removeprefix(path).rstrip("/").split("/")]
    return [TupleKey(above, DOWN, child) for above, child in pairwise(steps)]
