"""What somebody has on an object all told: the model, asked for everything at once over what they hold on its path.

Answers depend on types and on what is held, not on which object it is, and are remembered: of a thousand people in one
role one is worked out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from tenancy.authz.actions import Can
from tenancy.authz.builtin.evaluation import Evaluation, Node
from tenancy.authz.model import UP, rights_model
from tenancy.authz.vocabulary import ACTIONS_ON
from tenancy.models import Securable

EVERYBODYS: Final = frozenset({(Securable.Type.ROLE, Can.READ_METADATA)})
"""What everybody may who is known to the server: no review tells of it."""


@dataclass(frozen=True, slots=True)
class Effective:
    """Privileges in the order of the model, actions in that of `ACTIONS_ON`; without both there is no right."""

    privileges: tuple[str, ...]
    actions: tuple[Can, ...]

    def __bool__(self) -> bool:
        return bool(self.privileges or self.actions)


Shape = tuple[tuple[str, frozenset[str]], ...]
"""A path from the root down: types, and what is held on each."""


def effective(path: Sequence[Node], shows_below: Collection[str] = ()) -> Effective:
    """On the last of `path`; `shows_below` are ids on the path below which something visible lies."""
    shown = frozenset(place for place, node in enumerate(path) if node.id in shows_below)
    return _effective(tuple((node.type, node.held) for node in path), shown)


def looked_below(path: Sequence[Node]) -> tuple[str, ...]:
    """Those on `path` of which it matters for the last whether something visible lies below them."""
    evaluation = Evaluation([node._replace(held=frozenset()) for node in path])
    for relation in _relations(path[-1].type):
        evaluation.holds(relation)
    return tuple(node.id for node in path if node.id in evaluation.wanted)


def counts_for(path: Sequence[Node], place: int, privilege: str) -> bool:
    """Whether a privilege that is held at `place` of the path gives anything on its last."""
    alone = [node._replace(held=frozenset({privilege} if each == place else ())) for each, node in enumerate(path)]
    return bool(effective(alone))


@cache
def reached_below(securable_type: str, privilege: str) -> Mapping[str, tuple[str, ...]]:
    """By types of what can lie below an object: the privileges on it that follow from one on the object."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[Shape] = [((securable_type, frozenset({privilege})),)]
    while waiting:
        shape = waiting.pop(0)
        for below in rights_model().types:
            if shape[-1][0] in rights_model().links(below, UP) and below not in found and below != securable_type:
                longer = (*shape, (below, frozenset()))
                found[below] = _effective(longer, frozenset()).privileges
                waiting.append(longer)
    if securable_type == Securable.Type.NAMESPACE.value:  # namespaces lie in namespaces
        nested: Shape = ((securable_type, frozenset({privilege})), (securable_type, frozenset()))
        found = {securable_type: _effective(nested, frozenset()).privileges, **found}
    return {below: privileges for below, privileges in found.items() if privileges}


def reaches_below(held: Sequence[tuple[str, Collection[str]]]) -> bool:
    """Whether anything of what is held on objects of these types holds on what lies below them."""
    return any(reached_below(kind, each) for kind, privileges in held for each in privileges)


@lru_cache(maxsize=20_000)
def _effective(shape: Shape, shown: frozenset[int]) -> Effective:
    path = [Node(kind, str(place), held) for place, (kind, held) in enumerate(shape)]
    evaluation = Evaluation(path, {str(place): place in shown for place in range(len(shape))})
    kind = Securable.Type(shape[-1][0])
    return Effective(
        tuple(each for each in rights_model().privileges(kind.value) if evaluation.holds(each)),
        tuple(
            each
            for each in ACTIONS_ON[kind]
            if (kind, each) not in EVERYBODYS and evaluation.holds(f"can_{each.value}")
        ),
    )


def _relations(kind: str) -> list[str]:
    actions = [f"can_{each.value}" for each in ACTIONS_ON[Securable.Type(kind)]]
    return [*rights_model().privileges(kind), *actions]
