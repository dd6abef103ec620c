"""The ways into roles: which memberships lead from one role, or from somebody, into others, and when they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple
from uuid import UUID

NEVER = datetime.max.replace(tzinfo=UTC)


class Entry(StrEnum):
    """How somebody, or a role, came into a role."""

    MEMBER = "member"
    OWNER = "owner"
    TOKEN = "token"  # noqa: S105 - a way in
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Membership:
    """That somebody, or the role of the membership before, is in a role; `expires_at` None: it does not end."""

    role_id: UUID
    entry: Entry
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """Memberships each of which leads to the next, and when the first of them ends."""

    memberships: tuple[Membership, ...] = ()
    expires_at: datetime | None = None

    @property
    def through(self) -> tuple[UUID, ...]:
        """The roles, each of which is in the next."""
        return tuple(each.role_id for each in self.memberships)

    def with_next(self, membership: Membership) -> Way:
        return Way((*self.memberships, membership), earliest(self.expires_at, membership.expires_at))


class Edge(NamedTuple):
    """What the role `inner` is in."""

    inner: UUID
    membership: Membership


Order = Callable[[Way], tuple[float, float]]
"""Of ways into one role the least is told. No way may become less by going on: it would be found too late."""


class RoleGraph:
    """Some roles and which are in which. Circles do no harm.

    It knows of what lasts alone: whoever reads the edges leaves out what has ended.
    """

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._outwards: dict[UUID, list[Membership]] = {}
        for inner, membership in sorted(edges, key=lambda each: (each.inner, *_place(each.membership))):
            self._outwards.setdefault(inner, []).append(membership)

    @property
    def inner_roles(self) -> frozenset[UUID]:
        """Those that are in another."""
        return frozenset(self._outwards)

    def shortest_ways(self, first: Iterable[Membership]) -> dict[UUID, Way]:
        """Into each role that can be come to through one of `first`: the way of the fewest memberships, of several the
        one that lasts longest."""
        return self._ways(first, lambda way: (len(way.memberships), -moment(way.expires_at)))

    def longest_lasting_ways(self, first: Iterable[Membership]) -> dict[UUID, Way]:
        """Into each role that can be come to through one of `first`: the way that lasts longest. Of such the shortest
        of those that go on from what is told of the roles before."""
        return self._ways(first, lambda way: (-moment(way.expires_at), len(way.memberships)))

    def _ways(self, first: Iterable[Membership], order: Order) -> dict[UUID, Way]:
        """The least ways first, so that the first into a role is its least."""
        number = count()  # equal ones in the order in which they were come to
        waiting: list[tuple[tuple[float, float], int, Way]] = []

        def wait(way: Way) -> None:
            heappush(waiting, (order(way), next(number), way))

        for membership in sorted(first, key=_place):
            wait(Way().with_next(membership))
        found: dict[UUID, Way] = {}
        while waiting:
            _, _, way = heappop(waiting)
            role_id = way.memberships[-1].role_id
            if role_id in found:
                continue
            found[role_id] = way
            for membership in self._outwards.get(role_id, ()):
                if membership.role_id not in found:
                    wait(way.with_next(membership))
        return found


def earliest(*ends: datetime | None) -> datetime | None:
    """The first of some ends; None where nothing ends."""
    return min((each for each in ends if each is not None), default=None)


def moment(end: datetime | None) -> float:
    """For comparisons: what does not end is behind all that does."""
    return (NEVER if end is None else end).timestamp()


def _place(membership: Membership) -> tuple[UUID, str]:
    """In no order of meaning, but the same each time."""
    return membership.role_id, membership.entry.value
