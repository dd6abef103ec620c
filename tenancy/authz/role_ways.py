"""The ways into roles: which memberships lead from one role, or from somebody, into others, and when they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import NamedTuple
from uuid import UUID

NEVER = datetime.max.replace(tzinfo=UTC)


class Edge(NamedTuple):
    """The role `inner` is in `outer`; None: without an end."""

    inner: UUID
    outer: UUID
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Way:
    """Roles each of which is in the next, and when the first of the memberships on it ends."""

    through: tuple[UUID, ...]
    expires_at: datetime | None


class RoleGraph:
    """Some roles and which are in which. Circles do no harm."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._outwards: dict[UUID, list[Edge]] = {}
        for edge in sorted(edges, key=lambda each: (each.inner, each.outer)):
            self._outwards.setdefault(edge.inner, []).append(edge)

    def ways(self, first: Mapping[UUID, datetime | None]) -> dict[UUID, Way]:
        """Into each role that can be come to from the roles of `first`, with the end of being in those: the way that
        lasts longest, of such the shortest."""
        waiting: list[tuple[float, int, tuple[UUID, ...], datetime | None]] = []
        for role_id, end in first.items():
            heappush(waiting, (-_moment(end), 1, (role_id,), end))
        found: dict[UUID, Way] = {}
        while waiting:
            _, length, through, end = heappop(waiting)
            if through[-1] in found:
                continue
            found[through[-1]] = Way(through, end)
            for edge in self._outwards.get(through[-1], ()):
                if edge.outer not in found:
                    ends = earliest(end, edge.expires_at)
                    heappush(waiting, (-_moment(ends), length + 1, (*through, edge.outer), ends))
        return found


def earliest(*ends: datetime | None) -> datetime | None:
    """The first of some ends; None where nothing ends."""
    return min((each for each in ends if each is not None), default=None)


def latest(one: datetime | None, other: datetime | None) -> datetime | None:
    """The last of two ends; None where one never comes."""
    return None if one is None or other is None else max(one, other)


def _moment(end: datetime | None) -> float:
    return (NEVER if end is None else end).timestamp()
