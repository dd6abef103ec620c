"""The relation rows of one question with whom each grant is to, for explanations: not of the hot paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Substr

from icekeeper.kernel.clock import now
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.builtin.records import Asker, read_held
from tenancy.authz.builtin.role_records import read_graph_out_of, read_memberships_of
from tenancy.authz.grant_filters import is_holders, lasting
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.role_ways import Membership, Way
from tenancy.authz.securables import securable_id
from tenancy.models import Grant, Securable


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant that counts for the asker: to them, or to the role of the last of `through`, memberships that lead there.

    `expires_at` None: it does not end.
    """

    privilege: str
    securable_id: str
    through: tuple[Membership, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rows:
    """`path` leads to the object; `ways` are the asker's roles with the shortest way into each.

    `grants` are those on the path by object and privilege, of several the one that came by the shortest way.
    """

    asker: Asker
    path: tuple[Node, ...]
    ways: Mapping[UUID, Way]
    grants: Mapping[tuple[str, str], GrantRow]

    def grant(self, privilege: str, place: int) -> GrantRow | None:
        """The grant of a privilege on the object at `place` of the path."""
        return self.grants.get((self.path[place].id, privilege))

    def shown_below(self, place: int) -> GrantRow | None:
        """A grant on something below the object at `place` of the path that makes it visible."""
        top = "".join(f"{node.id}/" for node in self.path[: place + 1])
        shows = Q()
        for securable_type, privileges in showing_privileges().items():
            shows |= Q(securable__type=securable_type, privilege__in=privileges)
        # Compared as text: LIKE takes no notice of case on SQLite, and ids of projects differ by it.
        below = Grant.objects.annotate(root=Substr("securable__path", 1, len(top))).filter(root=top)
        mine = below.filter(lasting(now()), is_holders(self.asker, self.ways))
        found = mine.filter(shows).exclude(securable_id=self.path[place].id)
        return min(_told(found.order_by("securable__path", "pk"), self.ways), key=_distance, default=None)


MOST_LOOKED_AT: Final = 1_000
"""Grants below an object; the nearest of them is as good an explanation as another."""


def read_rows(asker: Asker, own_id: str) -> Rows:
    """What `read_held` reads of the securable `own_id`, with whom it is granted to and the ways into their roles."""
    first = read_memberships_of(asker)
    ways = read_graph_out_of([each.role_id for each in first]).shortest_ways(first)
    path = read_held(asker, list(ways), [own_id]).paths[own_id]
    granted = Grant.objects.filter(lasting(now()), is_holders(asker, ways), securable_id__in=[node.id for node in path])
    grants: dict[tuple[str, str], GrantRow] = {}
    for row in sorted([*_told(granted.order_by("pk"), ways), *_assigned(path, ways)], key=_distance):
        grants.setdefault((row.securable_id, row.privilege), row)
    return Rows(asker, path, ways, grants)


def _told(granted: QuerySet[Grant], ways: Mapping[UUID, Way]) -> list[GrantRow]:
    columns = granted.values_list("privilege", "securable_id", "role_id", "expires_at")
    return [
        GrantRow(privilege, own_id, () if role_id is None else ways[role_id].memberships, expires_at)
        for privilege, own_id, role_id, expires_at in columns[:MOST_LOOKED_AT]
    ]


def _assigned(path: Iterable[Node], ways: Mapping[UUID, Way]) -> list[GrantRow]:
    """That the asker is in a role on the path: granted to whoever comes into it last."""
    found = []
    for role_id, way in ways.items():
        own_id = securable_id(Securable.Type.ROLE, role_id)
        if any(node.id == own_id for node in path):
            *before, last = way.memberships
            found.append(GrantRow(ASSIGNEE, own_id, tuple(before), last.expires_at))
    return found


def _distance(row: GrantRow) -> tuple[int, bool]:
    """Of two that came by ways of one length, the one without an end is the nearer."""
    return len(row.through), row.expires_at is not None
