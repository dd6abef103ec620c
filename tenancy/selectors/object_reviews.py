"""Access review of an object: all roles and users with rights on it, computed from the relation rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from tenancy.authz.access_review import (
    GrantedRow,
    Rights,
    Source,
    effective,
    ids_checked_below,
    ids_shown_below,
    is_effective,
    read_granted,
    read_path,
    read_roles_seeing,
    read_users,
    read_users_seeing,
)
from tenancy.authz.builtin.role_paths import (
    Entry,
    Membership,
    RolePath,
    earliest_expiry,
    read_graph_into,
    read_memberships_in,
)
from tenancy.authz.privileges import ASSIGNEE
from tenancy.models import Role, Securable, User
from tenancy.models.role import OWN_PROVIDER
from tenancy.models.securable import ObjectRef, securable_id

_ROLE, _USER = "role:", "user:"


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or a role: exactly one of the ids is set.

    `has_members_of_tokens`: tokens of an identity provider may add members to the role, which cannot be listed.
    """

    name: str
    user_id: str | None = None
    role_id: UUID | None = None
    is_blocked: bool = False
    has_members_of_tokens: bool = False


class ObjectReview:
    """Review of one object. Its roles are read once, by the constructor, users page by page."""

    def __init__(self, ref: ObjectRef) -> None:
        """Read the path and the roles of an existing object. At most five statements."""
        self.path = read_path(securable_id(*ref))
        self._depths = {node.id: depth for depth, node in enumerate(self.path)}
        self._below = ids_checked_below(self.path)
        self._role_id = UUID(str(ref.id)) if ref.type is Securable.Type.ROLE else None
        self._effective_rows: dict[tuple[str, str], bool] = {}
        self._granted: dict[UUID, list[GrantedRow]] = {}
        for row in read_granted(self._depths, Q(role__isnull=False)):
            if isinstance(row.grantee, UUID) and self._is_effective(row):
                self._granted.setdefault(row.grantee, []).append(row)
        self._seeing = read_roles_seeing(self._below)
        seeds = {*self._granted, *self._seeing, *([] if self._role_id is None else [self._role_id])}
        self._graph = read_graph_into(seeds)
        self._roles = sorted(seeds | self._graph.inner_roles, key=str)

    def page(self, *, after: str, limit: int) -> tuple[list[tuple[Principal, Rights]], str | None]:
        """Return roles, then users, by their ids, and the cursor of the next page, None at the end.

        `after` is the cursor of an earlier page, or empty. A page may be shorter than `limit` before the end.
        At most six statements.
        """
        found: list[tuple[Principal, Rights]] = []
        if not after.startswith(_USER):
            chosen = [each for each in self._roles if f"{_ROLE}{each}" > after]
            shown, remaining = chosen[:limit], chosen[limit:]
            found = self._of_roles(shown)
            if remaining:
                return found, f"{_ROLE}{shown[-1]}"
            after = _USER
        available = limit - len(found)
        if available <= 0:
            return found, _USER
        users = read_users(
            list(self._depths), self._roles, self._below, after=after.removeprefix(_USER), limit=available + 1
        )
        found += self._of_users(users[:available])
        return found, f"{_USER}{users[available - 1]}" if len(users) > available else None

    def _of_roles(self, role_ids: Sequence[UUID]) -> list[tuple[Principal, Rights]]:
        known = {row.pk: row for row in Role.objects.filter(pk__in=role_ids)} if role_ids else {}
        found = []
        for role_id in role_ids:
            row = known.get(role_id)
            role_paths = self._graph.longest_lasting_paths([Membership(role_id, Entry.ASSUMED)])
            rights = self._rights(role_paths, (), ())
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
        for row in read_granted(self._depths, Q(user_id__in=user_ids)):
            if isinstance(row.grantee, str) and self._is_effective(row):
                granted.setdefault(row.grantee, []).append(row)
        seeing = read_users_seeing(self._below, user_ids)
        found = []
        for user_id in user_ids:
            user = known.get(user_id)
            role_paths = self._graph.longest_lasting_paths(first.get(user_id, ()))
            rights = self._rights(role_paths, granted.get(user_id, ()), seeing.get(user_id, ()))
            if user is not None and rights.effective:
                found.append((Principal(user.name, user_id=user.pk, is_blocked=not user.is_active), rights))
        return found

    def _rights(
        self, role_paths: Mapping[UUID, RolePath], own: Iterable[GrantedRow], own_shows: Collection[str]
    ) -> Rights:
        sources = [Source(row.privilege, row.securable_id, (), row.expires_at) for row in own]
        for role_id, path_to_role in role_paths.items():
            for row in self._granted.get(role_id, ()):
                ends_at = earliest_expiry(path_to_role.expires_at, row.expires_at)
                sources.append(Source(row.privilege, row.securable_id, path_to_role.through, ends_at))
        if self._role_id is not None and self._role_id in role_paths:  # members of the role itself are its assignees
            path_to_role = role_paths[self._role_id]
            sources.append(Source(ASSIGNEE, self.path[-1].id, path_to_role.through, path_to_role.expires_at))
        relations: dict[str, set[str]] = {}
        for source in sources:
            relations.setdefault(source.securable_id, set()).add(source.privilege)
        path = [node._replace(relations=node.relations | relations.get(node.id, set())) for node in self.path]
        shows = ids_shown_below(role_paths, self._seeing, own_shows)
        of_grants, in_all = effective(path), effective(path, shows)
        sources.sort(key=lambda each: (self._depths[each.securable_id], each.privilege, each.through))
        return Rights(in_all, tuple(sources), is_shown_from_below=of_grants != in_all)

    def _is_effective(self, row: GrantedRow) -> bool:
        key = (row.securable_id, row.privilege)
        if key not in self._effective_rows:
            self._effective_rows[key] = is_effective(self.path, self._depths[row.securable_id], row.privilege)
        return self._effective_rows[key]
