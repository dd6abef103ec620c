"""Why somebody may do something, or what would let them.

It is worked out of the relation rows, which are the record whatever backend decides; where that is `allowall`, and
where a right stands whoever decides (`tenancy.authz.standing_rights`), it says so, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.evaluation import Evaluation, Node
from tenancy.authz.builtin.proof_records import GrantRow, Rows, read_rows
from tenancy.authz.builtin.records import Asker
from tenancy.authz.model import (
    DOWN,
    Computed,
    Direct,
    Expression,
    Intersection,
    Linked,
    Union,
    rights_model,
)
from tenancy.authz.port import authorizer
from tenancy.authz.standing_rights import Standing, standing_reason
from tenancy.refs import ObjectRef, securable_id

MOST_CURES: Final = 50
ALLOWALL: Final = "allowall"


@dataclass(frozen=True, slots=True)
class Step:
    """That the asker has `relation` to a securable: by `grant`, else because of the step before."""

    relation: str
    securable_id: str
    grant: GrantRow | None = None


@dataclass(frozen=True, slots=True)
class Cure:
    """A privilege on a securable that would let the asker."""

    privilege: str
    securable_id: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`chain` leads from grants to the action where grants allow it, else it is empty.

    `standing` says what settles it whatever is granted: the backend `allowall`, or one of `Standing`. `cures` are the
    grants any one of which would allow what grants do not allow yet, the nearest and weakest first.
    """

    chain: Sequence[Step] = ()
    standing: str | None = None
    cures: Sequence[Cure] = ()

    @property
    def is_by_grants(self) -> bool:
        return bool(self.chain)

    @property
    def is_allowed(self) -> bool:
        return self.standing != Standing.BLOCKED and (self.is_by_grants or self.standing is not None)


def explain(actor: Actor, action: Can, ref: ObjectRef) -> Explanation:
    """Of the rights that `actor` has now; the object must be there."""
    reason = standing_reason(actor, action, ref)
    standing = None if reason is None else reason.value
    if standing is None and authorizer().name == ALLOWALL:
        standing = ALLOWALL
    asker = Asker.of(actor)
    if asker.user_id is None and asker.assumed_role is None:  # nothing can be granted to nobody
        return Explanation(standing=standing)
    rows = read_rows(asker, securable_id(*ref))
    relation = f"can_{action.value}"
    chain = _Prover(rows).prove(relation)
    if chain is not None:
        return Explanation(chain, standing)
    return Explanation(standing=standing, cures=_cures(rows.path, relation)[:MOST_CURES])


class _Prover:
    """Finds the shortest chain of grants, each step of it once."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._evaluation = Evaluation(rows.path)
        self._found: dict[tuple[str, int], tuple[Step, ...] | None] = {}

    def prove(self, relation: str) -> tuple[Step, ...] | None:
        return self._at(relation, len(self._rows.path) - 1) if self._rows.path else None

    def _at(self, relation: str, place: int) -> tuple[Step, ...] | None:
        key = (relation, place)
        if key not in self._found:
            node = self._rows.path[place]
            expression = rights_model().types[node.type].get(relation)
            found = None if expression is None else self._of(expression, relation, place)
            if found is not None and (found[-1].relation, found[-1].securable_id) != (relation, node.id):
                found = (*found, Step(relation, node.id))
            self._found[key] = found
        return self._found[key]

    def _of(  # noqa: PLR0911 - one for each kind of expression
        self, expression: Expression, relation: str, place: int
    ) -> tuple[Step, ...] | None:
        match expression:
            case Direct():
                return _by(self._rows.grant(relation, place))
            case Computed(other):
                return self._at(other, place)
            case Linked(other, link):
                if link == DOWN:
                    return _by(self._rows.shown_below(place))
                return self._at(other, place - 1) if place else None
            case Union(parts):
                found = [each for part in parts if (each := self._of(part, relation, place)) is not None]
                return min(found, key=len, default=None)
            case Intersection(parts):
                return _all_of([self._of(part, relation, place) for part in parts])
        is_excluded = isinstance(expression.minus, Linked) and self._evaluation.above(expression.minus.relation, place)
        return None if is_excluded else self._of(expression.base, relation, place)


def _by(grant: GrantRow | None) -> tuple[Step, ...] | None:
    return None if grant is None else (Step(grant.privilege, grant.securable_id, grant),)


def _all_of(chains: Sequence[tuple[Step, ...] | None]) -> tuple[Step, ...] | None:
    """One after another, each step once; None when one is missing."""
    steps: dict[Step, None] = {}
    for chain in chains:
        if chain is None:
            return None
        steps |= dict.fromkeys(chain)
    return tuple(steps)


def _cures(path: Sequence[Node], relation: str) -> list[Cure]:
    """Every single grant on the path after which `relation` holds."""
    found: list[Cure] = []
    for place in range(len(path) - 1, -1, -1):
        node = path[place]
        for privilege in sorted(rights_model().privileges(node.type), key=lambda name: _reach(node.type, name)):
            changed = [*path]
            changed[place] = node._replace(held=node.held | {privilege})
            if Evaluation(changed).holds(relation):
                found.append(Cure(privilege, node.id))
    return found


@cache
def _reach(object_type: str, privilege: str) -> int:
    """How much a privilege allows on the object itself."""
    evaluation = Evaluation([Node(object_type, "", frozenset({privilege}))])
    return sum(evaluation.holds(relation) for relation in rights_model().types[object_type])
