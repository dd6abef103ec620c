"""Access review of an object: the principals with rights on it, and the grants and roles that are the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from tenancy.actor import Grantee
from tenancy.authz.access_review import (
    NO_CHANGES,
    FoundUser,
    GrantChanges,
    GrantedRow,
    Rights,
    Source,
    UserRows,
    effective,
    ids_checked_below,
    ids_shown_below,
    is_effective,
    read_path_with_roles,
    read_roles_seeing,
    read_rows_of_users,
    read_users,
)
from tenancy.authz.actions import ASSIGNEE
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import (
    Entry,
    Membership,
    RoleGraph,
    RolePath,
    earliest_expiry,
    read_edges_into,
    read_named_memberships,
)
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


class _Rows:
    """The rows of the reviews of one object, each read once."""

    def __init__(self, ref: ObjectRef, roles: Collection[UUID]) -> None:
        self.path, of_roles = read_path_with_roles(securable_id(*ref))
        self.depths = {node.id: depth for depth, node in enumerate(self.path)}
        self.below = ids_checked_below(self.path)
        self.own_role = UUID(str(ref.id)) if ref.type is Securable.Type.ROLE else None
        self.own: dict[Grantee, dict[str, datetime | None]] = {}
        self._note_own(of_roles)
        self.granted = [
            each for each in of_roles if is_effective(self.path, self.depths[each.securable_id], each.privilege)
        ]
        self.seeing = read_roles_seeing(self.below)
        granted = {each.grantee for each in self.granted if isinstance(each.grantee, UUID)}
        seeds = {*granted, *self.seeing, *roles, *([] if self.own_role is None else [self.own_role])}
        self.graph = RoleGraph(read_edges_into(seeds))
        self.roles = sorted(seeds | self.graph.inner_roles, key=str)
        self.users = cache(self._read_users)
        self.named_memberships = cache(read_named_memberships)
        self._of_users: dict[str, UserRows] = {}
        self.names: dict[UUID, str] = {}
        self.has_members_of_tokens: dict[UUID, bool] = {}

    def _note_own(self, rows: Iterable[GrantedRow]) -> None:
        for row in rows:
            if row.securable_id == self.path[-1].id:
                who = Grantee(role_id=row.grantee) if isinstance(row.grantee, UUID) else Grantee(user_id=row.grantee)
                self.own.setdefault(who, {})[row.privilege] = row.expires_at

    def _read_users(self, user_ids: tuple[str, ...]) -> list[FoundUser]:
        if not user_ids:
            return []
        rows = User.objects.existing().filter(pk__in=user_ids).order_by("pk")
        return [FoundUser(*row) for row in rows.values_list("pk", "name", "is_active")]

    def of_users(self, user_ids: Collection[str]) -> Mapping[str, UserRows]:
        """Return the rows of users; those of users who were not read yet with one statement."""
        missing = [each for each in dict.fromkeys(user_ids) if each not in self._of_users]
        if missing:
            found = read_rows_of_users(missing, self.roles, list(self.depths), self.below)
            for rows in found.values():
                self._note_own(rows.granted)
            self._of_users |= found
        return self._of_users

    def principal(self, role_id: UUID) -> Principal:
        from_tokens = self.has_members_of_tokens[role_id]
        return Principal(self.names[role_id], role_id=role_id, has_members_of_tokens=from_tokens)

    def read_names(self, role_ids: Collection[UUID]) -> None:
        wanted = set(role_ids) - self.names.keys()
        if wanted:
            for row in Role.objects.filter(pk__in=wanted).only("name", "provider_id"):
                self.names[row.pk] = row.name
                self.has_members_of_tokens[row.pk] = row.provider_id != OWN_PROVIDER


class ObjectReview:
    """Review of one object. Its roles are read once, by the constructor, users page by page."""

    def __init__(
        self,
        ref: ObjectRef,
        *,
        roles: Collection[UUID] = (),
        changes: GrantChanges = NO_CHANGES,
        rows: _Rows | None = None,
    ) -> None:
        """Read the path and the roles of an existing object, unless `rows` has them. At most four statements.

        `roles` are read in any case.
        """
        rows = _Rows(ref, roles) if rows is None else rows
        self.ref, self._rows, self._changes = ref, rows, changes
        self.path = rows.path
        self._effective_rows: dict[tuple[str, str], bool] = {}
        self._granted: dict[UUID, list[GrantedRow]] = {}
        for row in changes.apply(rows.granted, self.path[-1].id, changes.roles):
            if isinstance(row.grantee, UUID) and self._is_effective(row):
                self._granted.setdefault(row.grantee, []).append(row)

    @property
    def graph(self) -> RoleGraph:
        """The memberships of roles that lead into roles with grants or into those given to the constructor."""
        return self._rows.graph

    def read_users(self, user_ids: Collection[str]) -> None:
        """Read the rows of users whose rights are asked for later. At most one statement."""
        self._rows.of_users(user_ids)

    def with_changes(self, changes: GrantChanges) -> ObjectReview:
        """Return the review after changes of the grants on the object, from the rows that this one has read.

        The roles that gain grants must be among the `roles` of this one.
        """
        return ObjectReview(self.ref, changes=changes, rows=self._rows)

    @property
    def own(self) -> Mapping[Grantee, Mapping[str, datetime | None]]:
        """The privileges on the object itself, with their expiry, of all roles and of the users read so far."""
        return self._rows.own

    @property
    def role_names(self) -> Mapping[UUID, str]:
        """The names of the roles of the pages so far, and of those on their paths."""
        return self._rows.names

    def page(self, *, after: str, limit: int) -> tuple[list[tuple[Principal, Rights]], str | None]:
        """Return roles, then users, by their ids, and the cursor of the next page, None at the end.

        `after` is the cursor of an earlier page, or empty. A page may be shorter than `limit` before the end.
        At most three statements.
        """
        roles: list[tuple[UUID, Rights]] = []
        if not after.startswith(_USER):
            chosen = [each for each in self._rows.roles if f"{_ROLE}{each}" > after]
            shown, remaining = chosen[:limit], chosen[limit:]
            roles = [each for each in self._rights_of_roles(shown) if each[1].effective]
            if remaining:
                return self._named(roles, []), f"{_ROLE}{shown[-1]}"
            after = _USER
        available = limit - len(roles)
        if available <= 0:
            return self._named(roles, []), _USER
        rows = self._rows
        users = read_users(
            list(rows.depths), rows.roles, rows.below, after=after.removeprefix(_USER), limit=available + 1
        )
        found = [each for each in self._rights_of_users(users[:available]) if each[1].effective]
        return self._named(roles, found), f"{_USER}{users[available - 1].id}" if len(users) > available else None

    def of(self, grantees: Collection[Grantee]) -> list[tuple[Principal, Rights]]:
        """Return the existing ones of these principals, also those without rights: first roles, then users.

        The roles must be among those that the constructor read, as `roles`. At most three statements.
        """
        users = self._rows.users(tuple(_user_ids(grantees)))
        return self._named(self._rights_of_roles(_role_ids(grantees)), self._rights_of_users(users))

    def rights_of(self, grantees: Collection[Grantee]) -> list[tuple[Grantee, Rights]]:
        """Return the rights of these principals, also of those that do not exist: first roles, then users.

        The roles must be among those that the constructor read, as `roles`. At most one statement.
        """
        user_ids = _user_ids(grantees)
        self.read_users(user_ids)
        of_roles = self._rights_of_roles(_role_ids(grantees))
        return [
            *((Grantee(role_id=role_id), rights) for role_id, rights in of_roles),
            *((Grantee(user_id=user_id), self._rights_of_user(user_id)) for user_id in user_ids),
        ]

    def of_subject(self, subject: Subject) -> Rights:
        """Return the rights of a caller, whose token may give roles. At most two statements."""
        first, own = self._rows.named_memberships(subject), list[GrantedRow]()
        if subject.user_id is not None and subject.assumed_role is None:
            rows = self._rows.of_users([subject.user_id])[subject.user_id]
            first, own = [*first, *rows.memberships], rows.granted
        role_paths = self._rows.graph.longest_lasting_paths(first)
        granted = self._changes.apply(own, self.path[-1].id, {subject.user_id or ""})
        return self._rights(role_paths, granted, ())

    def _rights_of_roles(self, role_ids: Sequence[UUID]) -> list[tuple[UUID, Rights]]:
        paths = ((each, self._rows.graph.longest_lasting_paths([Membership(each, Entry.ASSUMED)])) for each in role_ids)
        return [(role_id, self._rights(role_paths, (), ())) for role_id, role_paths in paths]

    def _rights_of_users(self, users: Sequence[FoundUser]) -> list[tuple[FoundUser, Rights]]:
        self.read_users([each.id for each in users])
        return [(each, self._rights_of_user(each.id)) for each in users if not each.is_deleted]

    def _rights_of_user(self, user_id: str) -> Rights:
        """Return the rights of a user whose rows were read."""
        rows = self._rows.of_users([user_id])[user_id]
        granted = self._changes.apply(rows.granted, self.path[-1].id, {user_id})
        role_paths = self._rows.graph.longest_lasting_paths(rows.memberships)
        return self._rights(role_paths, [each for each in granted if self._is_effective(each)], rows.seeing)

    def _named(
        self, roles: Sequence[tuple[UUID, Rights]], users: Sequence[tuple[FoundUser, Rights]]
    ) -> list[tuple[Principal, Rights]]:
        """Return the principals with the names of the roles, which are read with those on their paths."""
        listed = {role_id for role_id, _ in roles}
        on_paths = {each for _, rights in (*roles, *users) for source in rights.sources for each in source.through}
        rows = self._rows
        rows.read_names(listed | on_paths)
        found = [(rows.principal(role_id), rights) for role_id, rights in roles if role_id in rows.names]
        for user, rights in users:
            found.append((Principal(user.name, user_id=user.id, is_blocked=not user.is_active), rights))
        return found

    def _rights(
        self, role_paths: Mapping[UUID, RolePath], own: Iterable[GrantedRow], own_shows: Collection[str]
    ) -> Rights:
        sources = [Source(row.privilege, row.securable_id, (), row.expires_at) for row in own]
        for role_id, path_to_role in role_paths.items():
            for row in self._granted.get(role_id, ()):
                ends_at = earliest_expiry(path_to_role.expires_at, row.expires_at)
                sources.append(Source(row.privilege, row.securable_id, path_to_role.through, ends_at))
        own_role = self._rows.own_role
        if own_role is not None and own_role in role_paths:  # members of the role itself are its assignees
            path_to_role = role_paths[own_role]
            sources.append(Source(ASSIGNEE, self.path[-1].id, path_to_role.through, path_to_role.expires_at))
        relations: dict[str, set[str]] = {}
        for source in sources:
            relations.setdefault(source.securable_id, set()).add(source.privilege)
        path = [node._replace(relations=node.relations | relations.get(node.id, set())) for node in self.path]
        shows = ids_shown_below(role_paths, self._rows.seeing, own_shows)
        of_grants, in_all = effective(path), effective(path, shows)
        sources.sort(key=lambda each: (self._rows.depths[each.securable_id], each.privilege, each.through))
        return Rights(in_all, tuple(sources), is_shown_from_below=of_grants != in_all)

    def _is_effective(self, row: GrantedRow) -> bool:
        key = (row.securable_id, row.privilege)
        if key not in self._effective_rows:
            self._effective_rows[key] = is_effective(self.path, self._rows.depths[row.securable_id], row.privilege)
        return self._effective_rows[key]


def _user_ids(grantees: Collection[Grantee]) -> list[str]:
    return sorted({each.user_id for each in grantees if each.user_id is not None})


def _role_ids(grantees: Collection[Grantee]) -> list[UUID]:
    return sorted({each.role_id for each in grantees if each.role_id is not None}, key=str)
