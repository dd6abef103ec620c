"""Paths into roles: which memberships lead from a user or a role into other roles, and when they expire.

Expired memberships are left out. Not used on hot paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from tenancy.authz.builtin.queries import read_token_roles
from tenancy.authz.port import Subject

NEVER = datetime.max.replace(tzinfo=UTC)


class Entry(StrEnum):
    """How a user or a role became a member of a role."""

    MEMBER = "member"
    OWNER = "owner"
    TOKEN = "token"  # noqa: S105 - not a secret
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership of a user, or of the role of the previous membership, in a role; `expires_at` None: no expiry."""

    role_id: UUID
    entry: Entry
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RolePath:
    """A chain of memberships, and the earliest of their expiry times."""

    memberships: tuple[Membership, ...] = ()
    expires_at: datetime | None = None

    @property
    def through(self) -> tuple[UUID, ...]:
        """The roles of the path, each of which is a member of the next."""
        return tuple(each.role_id for each in self.memberships)

    def with_next(self, membership: Membership) -> RolePath:
        return RolePath((*self.memberships, membership), earliest_expiry(self.expires_at, membership.expires_at))


class Edge(NamedTuple):
    """A membership of the role `inner`."""

    inner: UUID
    membership: Membership


Order = Callable[[RolePath], tuple[float, float]]
"""The sort key by which the first path into a role is chosen. A longer path must not sort before its beginning."""


class RoleGraph:
    """A graph of roles and their memberships, which may have cycles.

    The readers of the edges leave out expired memberships.
    """

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._outwards: dict[UUID, list[Membership]] = {}
        for inner, membership in sorted(edges, key=lambda each: (each.inner, *_sort_key(each.membership))):
            self._outwards.setdefault(inner, []).append(membership)

    def list_members(self) -> dict[UUID, set[UUID]]:
        """Return by role the roles that are its direct members."""
        members: dict[UUID, set[UUID]] = {}
        for inner, memberships in self._outwards.items():
            for each in memberships:
                members.setdefault(each.role_id, set()).add(inner)
        return members

    @property
    def inner_roles(self) -> frozenset[UUID]:
        """The roles that are members of another role."""
        return frozenset(self._outwards)

    def shortest_paths(self, first: Iterable[Membership]) -> dict[UUID, RolePath]:
        """Return by reachable role the path of the fewest memberships from `first`; of several the latest to expire."""
        return self._search(first, lambda path: (len(path.memberships), -expiry_timestamp(path.expires_at)))

    def longest_lasting_paths(self, first: Iterable[Membership]) -> dict[UUID, RolePath]:
        """Return by reachable role the path from `first` that expires last; of several the shortest that extends the
        returned path of the role before it."""
        return self._search(first, lambda path: (-expiry_timestamp(path.expires_at), len(path.memberships)))

    def _search(self, first: Iterable[Membership], order: Order) -> dict[UUID, RolePath]:
        """Search in the given order, so that the first path found into a role is the one to return."""
        number = count()  # equal paths in the order in which they were found
        waiting: list[tuple[tuple[float, float], int, RolePath]] = []

        def wait(path: RolePath) -> None:
            heappush(waiting, (order(path), next(number), path))

        for membership in sorted(first, key=_sort_key):
            wait(RolePath().with_next(membership))
        found: dict[UUID, RolePath] = {}
        while waiting:
            _, _, path = heappop(waiting)
            role_id = path.memberships[-1].role_id
            if role_id in found:
                continue
            found[role_id] = path
            for membership in self._outwards.get(role_id, ()):
                if membership.role_id not in found:
                    wait(path.with_next(membership))
        return found


def earliest_expiry(*ends: datetime | None) -> datetime | None:
    """Return the earliest expiry time; None if nothing expires."""
    return min((each for each in ends if each is not None), default=None)


def expiry_timestamp(end: datetime | None) -> float:
    """Return an expiry time as a number for comparisons: no expiry is greater than any other."""
    return (NEVER if end is None else end).timestamp()


def _sort_key(membership: Membership) -> tuple[UUID, str]:
    """Return a stable sort key without meaning."""
    return membership.role_id, membership.entry.value


_LASTS: Final = "(expires_at IS NULL OR expires_at > %s)"


_EDGES: Final = f"""
WITH RECURSIVE edge(member_role_id, role_id, entry, expires_at) AS (
    SELECT member_role_id, role_id, 'member', expires_at FROM tenancy_rolemember
     WHERE member_role_id IS NOT NULL AND {_LASTS}
    UNION ALL
    SELECT role_id, owned_role_id, 'owner', expires_at FROM tenancy_grant
     WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND {_LASTS}
)"""  # noqa: S608 - constants, as below
"""The memberships of roles in roles, as members or as owners."""


def _edges_from(near: str, far: str) -> str:
    """Return the statement that follows memberships from given roles at the `near` end to the `far` end, and on."""
    return f"""{_EDGES}, reached(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT edge.{far} FROM reached JOIN edge ON edge.{near} = reached.role_id
)
SELECT edge.member_role_id, edge.role_id, edge.entry, edge.expires_at
  FROM edge JOIN reached ON reached.role_id = edge.{near}
"""  # noqa: S608


_EDGES_INTO: Final = _edges_from("role_id", "member_role_id")


_EDGES_OUT: Final = _edges_from("member_role_id", "role_id")


_ROLES_OF: Final = f"""{_EDGES}, entered_first(user_id, role_id, entry, expires_at) AS (
    SELECT user_id, role_id, 'member' AS entry, expires_at FROM tenancy_rolemember
     WHERE user_id = ANY(%s) AND {_LASTS}
    UNION ALL
    SELECT user_id, owned_role_id, 'owner', expires_at FROM tenancy_grant
     WHERE user_id = ANY(%s) AND owned_role_id IS NOT NULL AND {_LASTS}
), reached(role_id) AS (
    SELECT role_id FROM entered_first
    UNION
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT edge.role_id FROM reached JOIN edge ON edge.member_role_id = reached.role_id
)
SELECT edge.member_role_id, edge.role_id, edge.entry, edge.expires_at
  FROM edge JOIN reached ON reached.role_id = edge.member_role_id
UNION ALL
SELECT NULL, role_id, entry, expires_at FROM entered_first
"""  # noqa: S608
"""The memberships that lead from given roles and from users into others, with those of the users themselves."""


def read_edges_into(roles: Collection[UUID]) -> list[Edge]:
    """Return the memberships of roles that lead into the given roles at any depth. At most one statement."""
    return _read_edges(_EDGES_INTO, roles)


def read_edges_out_of(roles: Collection[UUID]) -> list[Edge]:
    """Return the memberships that lead from the given roles into others at any depth. At most one statement."""
    return _read_edges(_EDGES_OUT, roles)


def read_named_memberships(subject: Subject) -> list[Membership]:
    """Return the memberships of a subject that are not stored: in the assumed role, or in those of its token.

    At most one statement, for the roles of a token.
    """
    if subject.assumed_role is not None:
        return [Membership(subject.assumed_role, Entry.ASSUMED)]
    if subject.token_roles:
        return [Membership(each, Entry.TOKEN) for each in read_token_roles(subject)]
    return []


def read_roles_of(subject: Subject) -> tuple[list[Membership], RoleGraph]:
    """Return the direct memberships of a subject (stored, of the token, or the assumed one), and the graph of those
    that they lead to. One statement, and one more for the roles of a token.
    """
    first = read_named_memberships(subject)
    user_ids = [] if subject.user_id is None or subject.assumed_role is not None else [subject.user_id]
    if not (first or user_ids):
        return first, RoleGraph(())
    at, named = now(), [each.role_id for each in first]
    edges: list[Edge] = []
    for inner, *entered in fetch_all("default", _ROLES_OF, [at, at, user_ids, at, user_ids, at, named]):
        if inner is None:
            first.append(read_membership(*entered))
        else:
            edges.append(Edge(as_uuid(inner), read_membership(*entered)))
    return first, RoleGraph(edges)


def _read_edges(statement: str, roles: Collection[UUID]) -> list[Edge]:
    at = now()
    rows = fetch_all("default", statement, [at, at, list(roles)]) if roles else []
    return [Edge(as_uuid(inner), read_membership(*entered)) for inner, *entered in rows]


def read_membership(role_id: Any, entry: str, end: Any) -> Membership:
    """Return the membership of the columns of a row."""
    return Membership(as_uuid(role_id), Entry(entry), None if end is None else as_datetime(end))
