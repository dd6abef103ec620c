"""Who has rights on an object: every role and every user, worked out of the relation rows, not asked one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from tenancy.authz.access_review import (
    GrantedRow,
    Rights,
    Source,
    counts_for,
    effective,
    looked_below,
    merged_shows,
    read_granted,
    read_path,
    read_roles_seeing,
    read_users,
    read_users_seeing,
)
from tenancy.authz.builtin.role_paths import Entry, Membership, Way, earliest, read_graph_into, read_memberships_in
from tenancy.authz.privileges import ASSIGNEE
from tenancy.models import Role, Securable, User
from tenancy.models.role import OWN_PROVIDER
from tenancy.refs import ObjectRef, securable_id

_ROLE, _USER = "role:", "user:"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or a role: exactly one of the ids is set.

    `has_members_of_tokens`: tokens of an identity provider bring people into the role whom nobody can list.
    """

    name: str
    user_id: str | None = None
    role_id: UUID | None = None
    is_blocked: bool = False
    has_members_of_tokens: bool = False


class ObjectReview:
    """Of one object, as its roles are at the moment at which this is made; users are read page by page."""

    def __init__(self, ref: ObjectRef) -> None:
        """The object must be there. At most five statements."""
        self.path = read_path(securable_id(*ref))
        self._places = {node.id: place for place, node in enumerate(self.path)}
        self._below = looked_below(self.path)
        self._role_id = UUID(str(ref.id)) if ref.type is Securable.Type.ROLE else None
        self._counting: dict[tuple[str, str], bool] = {}
        self._granted: dict[UUID, list[GrantedRow]] = {}
        for row in read_granted(self._places, Q(role__isnull=False)):
            if isinstance(row.holder, UUID) and self._counts(row):
                self._granted.setdefault(row.holder, []).append(row)
        self._seeing = read_roles_seeing(self._below)
        seeds = {*self._granted, *self._seeing, *([] if self._role_id is None else [self._role_id])}
        self._graph = read_graph_into(seeds)
        self._roles = sorted(seeds | self._graph.inner_roles, key=str)

    def page(self, *, after: str, limit: int) -> tuple[list[tuple[Principal, Rights]], str | None]:
        """Roles, then users, by their ids; and what the next page starts behind, None at the end.

        `after` is what an earlier page ended with, or empty. A page may hold fewer than `limit` though there are more.
        At most six statements.
        """
        found: list[tuple[Principal, Rights]] = []
        if not after.startswith(_USER):
            chosen = [each for each in self._roles if f"{_ROLE}{each}" > after]
            shown, left = chosen[:limit], chosen[limit:]
            found = self._of_roles(shown)
            if left:
                return found, f"{_ROLE}{shown[-1]}"
            after = _USER
        room = limit - len(found)
        if room <= 0:
            return found, _USER
        users = read_users(
            list(self._places), self._roles, self._below, after=after.removeprefix(_USER), limit=room + 1
        )
        found += self._of_users(users[:room])
        return found, f"{_USER}{users[room - 1]}" if len(users) > room else None

    def _of_roles(self, role_ids: Sequence[UUID]) -> list[tuple[Principal, Rights]]:
        known = {row.pk: row for row in Role.objects.filter(pk__in=role_ids)} if role_ids else {}
        found = []
        for role_id in role_ids:
            row = known.get(role_id)
            ways = self._graph.longest_lasting_ways([Membership(role_id, Entry.ASSUMED)])
            rights = self._rights(ways, (), ())
            if row is not None and rights.effective:
                from_tokens = row.provider_id != OWN_PROVIDER
                found.append((Principal(row.name, role_id=row.pk, has_members_of_tokens=from_tokens), rights))
        return found

    def _of_users(self, user_ids: Sequence[str]) -> list[tuple[Principal, Rights]]:
        if not user_ids:
            return []
        known = {row.pk: row for row in User.objects.filter(pk__in=user_ids, deleted_at__isnull=True)}
        first = read_memberships_in(user_ids, self._roles)
        granted: dict[str, list[GrantedRow]] = {}
        for row in read_granted(self._places, Q(user_id__in=user_ids)):
            if isinstance(row.holder, str) and self._counts(row):
                granted.setdefault(row.holder, []).append(row)
        seeing = read_users_seeing(self._below, user_ids)
        found = []
        for user_id in user_ids:
            user = known.get(user_id)
            ways = self._graph.longest_lasting_ways(first.get(user_id, ()))
            rights = self._rights(ways, granted.get(user_id, ()), seeing.get(user_id, ()))
            if user is not None and rights.effective:
                found.append((Principal(user.name, user_id=user.pk, is_blocked=not user.is_active), rights))
        return found

    def _rights(self, ways: Mapping[UUID, Way], own: Iterable[GrantedRow], own_shows: Collection[str]) -> Rights:
        sources = [Source(row.privilege, row.securable_id, (), row.expires_at) for row in own]
        for role_id, way in ways.items():
            for row in self._granted.get(role_id, ()):
                ends_at = earliest(way.expires_at, row.expires_at)
                sources.append(Source(row.privilege, row.securable_id, way.through, ends_at))
        if self._role_id is not None and self._role_id in ways:  # who is in the role itself is its assignee
            way = ways[self._role_id]
            sources.append(Source(ASSIGNEE, self.path[-1].id, way.through, way.expires_at))
        held: dict[str, set[str]] = {}
        for source in sources:
            held.setdefault(source.securable_id, set()).add(source.privilege)
        path = [node._replace(held=node.held | held.get(node.id, set())) for node in self.path]
        shows = merged_shows(ways, self._seeing, own_shows)
        of_grants, in_all = effective(path), effective(path, shows)
        sources.sort(key=lambda each: (self._places[each.securable_id], each.privilege, each.through))
        return Rights(in_all, tuple(sources), is_shown_from_below=of_grants != in_all)

    def _counts(self, row: GrantedRow) -> bool:
        key = (row.securable_id, row.privilege)
        if key not in self._counting:
            self._counting[key] = counts_for(self.path, self._places[row.securable_id], row.privilege)
        return self._counting[key]
