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
from tenancy.authz.actions import ASSIGNEE, Can, privilege_names
from tenancy.authz.builtin.evaluation import Evaluation, Node
from tenancy.authz.builtin.queries import SHOWS
from tenancy.authz.model import (
    DOWN,
    MANAGED_ACCESS,
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
from tenancy.authz.role_paths import (
    Entry,
    Membership,
    RolePath,
    earliest_expiry,
    expiry_timestamp,
    read_roles_of,
)
from tenancy.authz.securables import end_of
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, securable_id


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant to the subject, or to a role that the memberships of `through` lead to; `expires_at` None: no end."""

    privilege: str
    securable_id: str
    through: tuple[Membership, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """The path to the object, the subject's roles with the shortest path into each, and the grants on the path.

    There is one grant for each object and privilege: the one through the fewest roles, of several the last to expire.
    """

    subject: Subject
    path: tuple[Node, ...]
    role_paths: Mapping[UUID, RolePath]
    grants: Mapping[tuple[str, str], GrantRow]

    def grant(self, privilege: str, index: int) -> GrantRow | None:
        """Return the grant of a privilege on the object at `index` of the path."""
        return self.grants.get((self.path[index].id, privilege))

    def shown_below(self, index: int) -> GrantRow | None:
        """Return a grant on an object below the object at `index` of the path that shows it."""
        top = "".join(f"{node.id}/" for node in self.path[: index + 1])
        shown = [top, end_of(top), MAX_GRANTS_READ]
        params = [self.subject.user_id, now(), *shown, list(self.role_paths), now(), *shown, MAX_GRANTS_READ]
        return min(
            _grant_rows(fetch_all("default", _SHOWN_BELOW, params), self.role_paths), key=_distance, default=None
        )


MAX_GRANTS_READ: Final = 1_000
"""Grants below an object that are read; any of them is a valid explanation."""


_SHOWN: Final = f"""
SELECT g.path, g.id, g.privilege, g.securable_id, g.role_id, g.expires_at FROM tenancy_grant AS g
 WHERE {{grantee}} AND (g.expires_at IS NULL OR g.expires_at > %s) AND {SHOWS} AND g.path ~>~ %s AND g.path ~<~ %s
 ORDER BY g.path USING ~<~, g.id LIMIT %s"""  # noqa: S608 - constants, as below


# Each branch uses its own index; an OR would read all grants of the subject.
_SHOWN_BELOW: Final = f"""
SELECT privilege, securable_id, role_id, expires_at FROM (
    SELECT * FROM ({_SHOWN.format(grantee="g.user_id = %s")}) AS own
    UNION ALL
    SELECT * FROM ({_SHOWN.format(grantee="g.role_id = ANY(%s)")}) AS of_roles) AS shown
 ORDER BY path USING ~<~, id LIMIT %s
"""  # noqa: S608


_GRANTS_ON_PATH: Final = """
SELECT s.id, s.managed_access, g.privilege, g.role_id, g.expires_at
  FROM tenancy_securable AS s LEFT JOIN tenancy_grant AS g
    ON g.securable_id = s.id AND (g.user_id = %s OR g.role_id = ANY(%s)) AND (g.expires_at IS NULL OR g.expires_at > %s)
 WHERE s.id = ANY(string_to_array((SELECT path FROM tenancy_securable WHERE id = %s), '/'))
 ORDER BY length(s.path), g.id
"""
"""The objects on a path, the root first, each with the grants to the subject and its roles."""


def read_rows(subject: Subject, own_id: str) -> Rows:
    """Read the grants that apply to the subject on a securable and its parents, directly or through roles.

    Two statements, and one more for the roles of a token.
    """
    first, graph = read_roles_of(subject)
    role_paths = graph.shortest_paths(first)
    read = fetch_all("default", _GRANTS_ON_PATH, [subject.user_id, list(role_paths), now(), own_id])
    relations: dict[str, set[str]] = {}
    granted: list[Sequence[Any]] = []
    for on, is_managed, privilege, role_id, end in read:
        here = relations.setdefault(on, {MANAGED_ACCESS} if is_managed else set())
        if privilege is not None:
            here.add(privilege)
            granted.append((privilege, on, role_id, end))
    for role_id in role_paths:
        as_object = securable_id(Securable.Type.ROLE, role_id)
        if as_object in relations:  # the role itself is checked, and its members are its assignees
            relations[as_object].add(ASSIGNEE)
    path = tuple(Node(on.partition(":")[0], on, frozenset(here)) for on, here in relations.items())
    grants: dict[tuple[str, str], GrantRow] = {}
    for row in sorted([*_grant_rows(granted, role_paths), *_assigned(path, role_paths)], key=_distance):
        grants.setdefault((row.securable_id, row.privilege), row)
    return Rows(subject, path, role_paths, grants)


def _grant_rows(rows: Iterable[Sequence[Any]], role_paths: Mapping[UUID, RolePath]) -> list[GrantRow]:
    """Parse rows of privilege, securable id, role id (null for the subject itself) and expiry."""
    return [
        GrantRow(
            privilege,
            own_id,
            () if role_id is None else role_paths[as_uuid(role_id)].memberships,
            None if end is None else as_datetime(end),
        )
        for privilege, own_id, role_id, end in rows
    ]


def _assigned(path: Iterable[Node], role_paths: Mapping[UUID, RolePath]) -> list[GrantRow]:
    """Return the memberships in a role on the path as grants of `assignee`; owners have a grant of ownership."""
    found = []
    for role_id, role_path in role_paths.items():
        own_id = securable_id(Securable.Type.ROLE, role_id)
        if any(node.id == own_id for node in path):
            *before, last = role_path.memberships
            if last.entry is Entry.MEMBER:
                found.append(GrantRow(ASSIGNEE, own_id, tuple(before), last.expires_at))
            elif last.entry is not Entry.OWNER:
                found.append(GrantRow(ASSIGNEE, own_id, role_path.memberships, None))
    return found


def _distance(row: GrantRow) -> tuple[int, float]:
    """Return a sort key: fewer memberships first, then the latest expiry."""
    return len(row.through), -expiry_timestamp(
        earliest_expiry(row.expires_at, *(each.expires_at for each in row.through))
    )


MAX_CURES: Final = 50


ALLOWALL: Final = "allowall"


@dataclass(frozen=True, slots=True)
class Step:
    """The subject has `relation` to a securable: by `grant`, else by the previous step."""

    relation: str
    securable_id: str
    grant: GrantRow | None = None


@dataclass(frozen=True, slots=True)
class Cure:
    """A privilege on a securable that would allow the action."""

    privilege: str
    securable_id: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`chain` leads from grants to the action where grants allow it, else it is empty.

    `standing` is the reason for a decision without grants: the backend `allowall`, or one of `Standing`. If grants do
    not allow the action, each of `cures` would, the nearest and weakest first.
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
    """Explain a permission of `actor` on an existing object."""
    reason = standing_reason(actor, action, ref)
    standing = None if reason is None else reason.value
    if standing is None and authorizer().name == ALLOWALL:
        standing = ALLOWALL
    subject = Subject.of(actor)
    if subject.user_id is None and subject.assumed_role is None:  # no grant can apply
        return Explanation(standing=standing)
    rows = read_rows(subject, securable_id(*ref))
    relation = f"can_{action.value}"
    chain = _Prover(rows).prove(relation)
    if chain is not None:
        return Explanation(chain, standing)
    return Explanation(standing=standing, cures=_cures(rows.path, relation)[:MAX_CURES])


class _Prover:
    """Finds the shortest chain of grants that proves a relation."""

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
    """Concatenate the chains, each step once; None if a chain is missing."""
    steps: dict[Step, None] = {}
    for chain in chains:
        if chain is None:
            return None
        steps |= dict.fromkeys(chain)
    return tuple(steps)


def _cures(path: Sequence[Node], relation: str) -> list[Cure]:
    """Return every single grant on the path with which `relation` would hold."""
    found: list[Cure] = []
    for index in range(len(path) - 1, -1, -1):
        node = path[index]
        for privilege in sorted(privilege_names(node.type), key=lambda name: _reach(node.type, name)):
            changed = [*path]
            changed[index] = node._replace(relations=node.relations | {privilege})
            if Evaluation(changed).holds(relation):
                found.append(Cure(privilege, node.id))
    return found


@cache
def _reach(object_type: str, privilege: str) -> int:
    """Return the number of relations to the object itself that follow from a privilege."""
    evaluation = Evaluation([Node(object_type, "", frozenset({privilege}))])
    return sum(evaluation.holds(relation) for relation in rights_model().types[object_type])
