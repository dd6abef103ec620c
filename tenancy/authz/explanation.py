"""Explains a permission: the chain of grants that allows it, or the grants that would allow it.

Explanations are computed from our rows, which are the record for every backend, and also name what allows or denies
without grants: the backend `allowall`, and `tenancy.authz.permissions.Standing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.builtin.evaluation import Evaluation, Node
from tenancy.authz.builtin.queries import SHOWS, read_held
from tenancy.authz.builtin.role_paths import (
    Entry,
    Membership,
    RolePath,
    earliest_expiry,
    expiry_timestamp,
    read_graph_out_of,
    read_memberships_of,
)
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
from tenancy.authz.permissions import Standing, standing_reason
from tenancy.authz.port import Subject, authorizer
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.securables import end_of
from tenancy.models import Grant, Securable
from tenancy.refs import ObjectRef, securable_id


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant to the subject, or to a role that the memberships of `through` lead to; `expires_at` None: no end."""

    privilege: str
    securable_id: str
    through: tuple[Membership, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """`path` leads to the object; `ways` are the subject's roles with the shortest way into each.

    `grants` are those on the path by object and privilege, of several the one that came by the shortest way, and of
    those by ways of one length the one that lasts longest, memberships and grant together.
    """

    subject: Subject
    path: tuple[Node, ...]
    ways: Mapping[UUID, RolePath]
    grants: Mapping[tuple[str, str], GrantRow]

    def grant(self, privilege: str, index: int) -> GrantRow | None:
        """The grant of a privilege on the object at `index` of the path."""
        return self.grants.get((self.path[index].id, privilege))

    def shown_below(self, index: int) -> GrantRow | None:
        """A grant on something below the object at `index` of the path that makes it visible."""
        top = "".join(f"{node.id}/" for node in self.path[: index + 1])
        shown = [top, end_of(top), MAX_GRANTS_READ]
        params = [self.subject.user_id, now(), *shown, list(self.ways), now(), *shown, MAX_GRANTS_READ]
        return min(_grant_rows(fetch_all("default", _SHOWN_BELOW, params), self.ways), key=_distance, default=None)


MAX_GRANTS_READ: Final = 1_000
"""Grants below an object; the nearest of them is as good an explanation as another."""


_SHOWN: Final = f"""
SELECT g.path, g.id, g.privilege, g.securable_id, g.role_id, g.expires_at FROM tenancy_grant AS g
 WHERE {{whose}} AND (g.expires_at IS NULL OR g.expires_at > %s) AND {SHOWS} AND g.path ~>~ %s AND g.path ~<~ %s
 ORDER BY g.path USING ~<~, g.id LIMIT %s"""  # noqa: S608 - constants, as below


# Each arm by its own index: for an OR all would be gone through that the subject was ever granted.
_SHOWN_BELOW: Final = f"""
SELECT privilege, securable_id, role_id, expires_at FROM (
    SELECT * FROM ({_SHOWN.format(whose="g.user_id = %s")}) AS own
    UNION ALL
    SELECT * FROM ({_SHOWN.format(whose="g.role_id = ANY(%s)")}) AS of_roles) AS shown
 ORDER BY path USING ~<~, id LIMIT %s
"""  # noqa: S608


def read_rows(subject: Subject, own_id: str) -> Rows:
    """What `read_held` reads of the securable `own_id`, with whom it is granted to and the ways into their roles."""
    first = read_memberships_of(subject)
    ways = read_graph_out_of([each.role_id for each in first]).shortest_paths(first)
    path = read_held(subject, list(ways), [own_id]).paths[own_id]
    granted = Grant.objects.unexpired(now()).filter(
        subject.grants_filter(ways), securable_id__in=[node.id for node in path]
    )
    grants: dict[tuple[str, str], GrantRow] = {}
    columns = granted.order_by("pk").values_list("privilege", "securable_id", "role_id", "expires_at")
    for row in sorted([*_grant_rows(columns[:MAX_GRANTS_READ], ways), *_assigned(path, ways)], key=_distance):
        grants.setdefault((row.securable_id, row.privilege), row)
    return Rows(subject, path, ways, grants)


def _grant_rows(rows: Iterable[Sequence[Any]], ways: Mapping[UUID, RolePath]) -> list[GrantRow]:
    """Of a privilege, a securable, a role, if it is to one, and an end, as either database has them."""
    return [
        GrantRow(
            privilege,
            own_id,
            () if role_id is None else ways[as_uuid(role_id)].memberships,
            None if end is None else as_datetime(end),
        )
        for privilege, own_id, role_id, end in rows
    ]


def _assigned(path: Iterable[Node], ways: Mapping[UUID, RolePath]) -> list[GrantRow]:
    """That the subject is in a role on the path: granted to whoever is a member.

    Who owns it has a grant that says so. A role that is assumed, or named by a token, is in itself alone.
    """
    found = []
    for role_id, way in ways.items():
        own_id = securable_id(Securable.Type.ROLE, role_id)
        if any(node.id == own_id for node in path):
            *before, last = way.memberships
            if last.entry is Entry.MEMBER:
                found.append(GrantRow(ASSIGNEE, own_id, tuple(before), last.expires_at))
            elif last.entry is not Entry.OWNER:
                found.append(GrantRow(ASSIGNEE, own_id, way.memberships, None))
    return found


def _distance(row: GrantRow) -> tuple[int, float]:
    """Of two that came by ways of one length, the one that lasts longer is the nearer, with the way to it."""
    return len(row.through), -expiry_timestamp(
        earliest_expiry(row.expires_at, *(each.expires_at for each in row.through))
    )


MAX_CURES: Final = 50


ALLOWALL: Final = "allowall"


@dataclass(frozen=True, slots=True)
class Step:
    """That the subject has `relation` to a securable: by `grant`, else because of the step before."""

    relation: str
    securable_id: str
    grant: GrantRow | None = None


@dataclass(frozen=True, slots=True)
class Cure:
    """A privilege on a securable that would let the subject."""

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
    subject = Subject.of(actor)
    if subject.user_id is None and subject.assumed_role is None:  # nothing can be granted to nobody
        return Explanation(standing=standing)
    rows = read_rows(subject, securable_id(*ref))
    relation = f"can_{action.value}"
    chain = _Prover(rows).prove(relation)
    if chain is not None:
        return Explanation(chain, standing)
    return Explanation(standing=standing, cures=_cures(rows.path, relation)[:MAX_CURES])


class _Prover:
    """Finds the shortest chain of grants, each step of it once."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._evaluation = Evaluation(rows.path)
        self._found: dict[tuple[str, int], tuple[Step, ...] | None] = {}

    def prove(self, relation: str) -> tuple[Step, ...] | None:
        return self._at(relation, len(self._rows.path) - 1) if self._rows.path else None

    def _at(self, relation: str, index: int) -> tuple[Step, ...] | None:
        key = (relation, index)
        if key not in self._found:
            node = self._rows.path[index]
            expression = rights_model().types[node.type].get(relation)
            found = None if expression is None else self._of(expression, relation, index)
            if found is not None and (found[-1].relation, found[-1].securable_id) != (relation, node.id):
                found = (*found, Step(relation, node.id))
            self._found[key] = found
        return self._found[key]

    def _of(  # noqa: PLR0911 - one for each kind of expression
        self, expression: Expression, relation: str, index: int
    ) -> tuple[Step, ...] | None:
        match expression:
            case Direct():
                return _by(self._rows.grant(relation, index))
            case Computed(other):
                return self._at(other, index)
            case Linked(other, link):
                if link == DOWN:
                    return _by(self._rows.shown_below(index))
                return self._at(other, index - 1) if index else None
            case Union(parts):
                found = [each for part in parts if (each := self._of(part, relation, index)) is not None]
                return min(found, key=len, default=None)
            case Intersection(parts):
                return _all_of([self._of(part, relation, index) for part in parts])
        is_excluded = isinstance(expression.minus, Linked) and self._evaluation.holds_on_parent(
            expression.minus.relation, index
        )
        return None if is_excluded else self._of(expression.base, relation, index)


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
    for index in range(len(path) - 1, -1, -1):
        node = path[index]
        for privilege in sorted(rights_model().privileges(node.type), key=lambda name: _reach(node.type, name)):
            changed = [*path]
            changed[index] = node._replace(held=node.held | {privilege})
            if Evaluation(changed).holds(relation):
                found.append(Cure(privilege, node.id))
    return found


@cache
def _reach(object_type: str, privilege: str) -> int:
    """How much a privilege allows on the object itself."""
    evaluation = Evaluation([Node(object_type, "", frozenset({privilege}))])
    return sum(evaluation.holds(relation) for relation in rights_model().types[object_type])
