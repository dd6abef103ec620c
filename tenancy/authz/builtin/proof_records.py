"""The relation rows of one question with whom each grant is to, for explanations: not of the hot paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Substr

from icekeeper.kernel.clock import now
from tenancy.authz.builtin.evaluation import Node, showing_privileges
from tenancy.authz.builtin.records import Asker, read_held, read_roles, read_token_roles
from tenancy.authz.privileges import ASSIGNEE
from tenancy.authz.securables import securable_id
from tenancy.models import Grant, RoleMember, Securable


class Entry(StrEnum):
    """How somebody, or a role, came into a role."""

    MEMBER = "member"
    OWNER = "owner"
    TOKEN = "token"  # noqa: S105 - a way in
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Membership:
    """That the asker, or the role of the membership before, is in a role; `expires_at` None: it does not end."""

    role_id: UUID
    entry: Entry
    expires_at: datetime | None = None


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
    ways: Mapping[UUID, tuple[Membership, ...]]
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
        found = below.exclude(securable_id=self.path[place].id).filter(shows, _mine(self.asker, self.ways))
        return min(_told(found.order_by("securable__path", "pk"), self.ways), key=_distance, default=None)


MOST_LOOKED_AT: Final = 1_000
"""Grants below an object; the nearest of them is as good an explanation as another."""


def read_rows(asker: Asker, own_id: str) -> Rows:
    """What `read_held` reads of the securable `own_id`, with whom it is granted to and the ways into their roles."""
    roles = read_roles(asker).ids
    path = read_held(asker, roles, [own_id]).paths[own_id]
    ways = _ways(asker, roles)
    granted = Grant.objects.filter(_mine(asker, ways), securable_id__in=[node.id for node in path])
    grants: dict[tuple[str, str], GrantRow] = {}
    for row in sorted([*_told(granted.order_by("pk"), ways), *_assigned(path, ways)], key=_distance):
        grants.setdefault((row.securable_id, row.privilege), row)
    return Rows(asker, path, ways, grants)


def _mine(asker: Asker, ways: Mapping[UUID, object]) -> Q:
    mine = Q(role_id__in=list(ways))
    if asker.user_id is not None:
        mine |= Q(user_id=asker.user_id)
    return mine & _lasting()


def _lasting() -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=now())


def _told(granted: QuerySet[Grant], ways: Mapping[UUID, tuple[Membership, ...]]) -> list[GrantRow]:
    columns = granted.values_list("privilege", "securable_id", "role_id", "expires_at")
    return [
        GrantRow(privilege, own_id, () if role_id is None else ways[role_id], expires_at)
        for privilege, own_id, role_id, expires_at in columns[:MOST_LOOKED_AT]
    ]


def _assigned(path: Iterable[Node], ways: Mapping[UUID, tuple[Membership, ...]]) -> list[GrantRow]:
    """That the asker is in a role on the path: granted to whoever comes into it last."""
    found = []
    for role_id, way in ways.items():
        own_id = securable_id(Securable.Type.ROLE, role_id)
        if any(node.id == own_id for node in path):
            found.append(GrantRow(ASSIGNEE, own_id, way[:-1], way[-1].expires_at))
    return found


def _distance(row: GrantRow) -> tuple[int, bool]:
    """Of two that came by ways of one length, the one without an end is the nearer."""
    return len(row.through), row.expires_at is not None


def _ways(asker: Asker, role_ids: Sequence[UUID]) -> dict[UUID, tuple[Membership, ...]]:
    """Of each role the shortest way into it, found from the asker outwards."""
    if not role_ids:
        return {}
    entries = _entries(asker, role_ids)
    first = entries.get(None, [])
    if asker.assumed_role is not None:
        first.append(Membership(asker.assumed_role, Entry.ASSUMED))
    if asker.token_roles:
        first += [Membership(each, Entry.TOKEN) for each in read_token_roles(asker)]
    ways: dict[UUID, tuple[Membership, ...]] = {}
    waiting = deque[tuple[Membership, ...]]((each,) for each in first)
    while waiting:
        way = waiting.popleft()
        role_id = way[-1].role_id
        if role_id not in ways:
            ways[role_id] = way
            waiting.extend((*way, outer) for outer in entries.get(role_id, ()))
    return ways


def _entries(asker: Asker, role_ids: Sequence[UUID]) -> dict[UUID | None, list[Membership]]:
    """What each of the roles, and under None the asker, is in."""
    found: dict[UUID | None, list[Membership]] = {}
    members = RoleMember.objects.filter(_lasting(), role_id__in=role_ids)
    inside = Q(member_role_id__in=role_ids)
    owners = Grant.objects.filter(_lasting(), owned_role_id__in=role_ids)
    owning = Q(role_id__in=role_ids)
    if asker.user_id is not None:
        inside |= Q(user_id=asker.user_id)
        owning |= Q(user_id=asker.user_id)
    columns = ("member_role_id", "role_id", "expires_at")
    for within, role_id, expires_at in members.filter(inside).order_by("pk").values_list(*columns):
        found.setdefault(within, []).append(Membership(role_id, Entry.MEMBER, expires_at))
    columns = ("role_id", "owned_role_id", "expires_at")
    for within, owned_id, expires_at in owners.filter(owning).order_by("pk").values_list(*columns):
        if owned_id is not None:
            found.setdefault(within, []).append(Membership(owned_id, Entry.OWNER, expires_at))
    return found
