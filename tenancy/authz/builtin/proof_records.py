"""The relation rows of one question with whom each grant is to, for explanations: not of the hot paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from icekeeper.kernel.clock import now
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.builtin.records import Asker, read_held, read_roles
from tenancy.models import Grant, Role, RoleMember, Securable


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant that counts for the asker: to them, or to the last of `through`, roles each of which is in the next.

    `through` begins with the role that the asker is in, or has assumed. `expires_at` None: it does not end.
    """

    privilege: str
    securable_id: str
    through: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """`path` leads to the object; `ways` are the asker's roles with the shortest way into each."""

    asker: Asker
    path: tuple[Node, ...]
    ways: Mapping[UUID, tuple[UUID, ...]]

    def grant(self, privilege: str, securable_id: str) -> GrantRow | None:
        """The grant of a privilege on a securable that came to the asker by the shortest way."""
        return self._nearest(Grant.objects.filter(securable_id=securable_id, privilege=privilege))

    def shown_below(self, securable_id: str) -> GrantRow | None:
        """A grant on something below a securable that makes it visible."""
        top = Securable.objects.get(pk=securable_id)
        below = Q(securable__path__startswith=top.path) & ~Q(securable_id=securable_id)
        shows = Q()
        for securable_type, privileges in showing_privileges().items():
            shows |= Q(securable__type=securable_type, privilege__in=privileges)
        return self._nearest(Grant.objects.filter(below & shows).order_by("securable__path"))

    def _nearest(self, grants: Any) -> GrantRow | None:
        at = now()
        mine = Q(role_id__in=list(self.ways))
        if self.asker.user_id is not None:
            mine |= Q(user_id=self.asker.user_id)
        rows = grants.filter(mine).filter(Q(expires_at=None) | Q(expires_at__gt=at))
        found = []
        for row in rows[:MOST_LOOKED_AT]:
            through = () if row.role_id is None else self.ways[row.role_id]
            found.append(GrantRow(row.privilege, row.securable_id, through, row.expires_at))
        return min(found, key=lambda row: len(row.through), default=None)


MOST_LOOKED_AT: Final = 1_000


def read_rows(asker: Asker, securable_id: str) -> Rows:
    """What `read_held` reads, with the ways into the asker's roles."""
    roles = read_roles(asker).ids
    held = read_held(asker, roles, [securable_id])
    return Rows(asker, held.paths[securable_id], _ways(asker, roles))


def _ways(asker: Asker, role_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
    """Of each role the shortest way into it, found from the asker outwards."""
    at = now()
    alive = Q(expires_at=None) | Q(expires_at__gt=at)
    edges: dict[UUID, list[UUID]] = {}
    inside = RoleMember.objects.filter(alive, role_id__in=role_ids, member_role_id__in=role_ids)
    owned = Grant.objects.filter(alive, owned_role_id__in=role_ids, role_id__in=role_ids)
    pairs = [*inside.values_list("member_role_id", "role_id"), *owned.values_list("role_id", "owned_role_id")]
    for inner, outer in pairs:
        if inner is not None and outer is not None:
            edges.setdefault(inner, []).append(outer)
    first: list[Any] = []
    if asker.user_id is not None:
        members = RoleMember.objects.filter(alive, role_id__in=role_ids, user_id=asker.user_id)
        owners = Grant.objects.filter(alive, owned_role_id__in=role_ids, user_id=asker.user_id)
        first += [*members.values_list("role_id", flat=True), *owners.values_list("owned_role_id", flat=True)]
    elif asker.assumed_role is not None:
        first.append(asker.assumed_role)
    brought = Role.objects.filter(provider_id=asker.provider_id, source_id__in=asker.token_roles)
    first += brought.values_list("pk", flat=True)
    ways: dict[UUID, tuple[UUID, ...]] = {}
    waiting = deque[tuple[UUID, tuple[UUID, ...]]]((each, (each,)) for each in first)
    while waiting:
        role_id, way = waiting.popleft()
        if role_id not in ways:
            ways[role_id] = way
            waiting.extend((outer, (*way, outer)) for outer in edges.get(role_id, ()))
    return ways
