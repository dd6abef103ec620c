"""Access reviews of an object (who has rights on it) and of a principal (what they have rights on in a project).

Objects that are hidden from the caller are left out of the review of a principal, and appear without name and id where
they carry a grant. Each review is recorded in the audit trail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import MIN_ID, Page, write_page_token
from tenancy.actor import Actor, Grantee, acting_as
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.access_review import (
    NO_CHANGES,
    GrantChanges,
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
from tenancy.authz.actions import ASSIGNEE, SEEN_BY, reads_grants
from tenancy.authz.permissions import check_permissions, deny_as_missing, require_permission
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import (
    Entry,
    Membership,
    RoleGraph,
    RolePath,
    earliest_expiry,
    read_edges_into,
    read_edges_out_of,
    read_memberships_in,
    read_memberships_of,
)
from tenancy.models import Grant, Project, Role, Securable, User
from tenancy.models.role import OWN_PROVIDER
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tenancy.selectors.grants import ListedGrant, list_grants_to, require_permission_to_read_grants
from tenancy.selectors.objects import NamedObject, NameObjects, PermissionTarget, target_project
from tenancy.selectors.permission_checks import check_subject
from tenancy.selectors.principal_reviews import AccessSource, PrincipalReview

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

    def __init__(self, ref: ObjectRef, changes: GrantChanges = NO_CHANGES, *, roles: Collection[UUID] = ()) -> None:
        """Read the path and the roles of an existing object, with `changes` applied. At most five statements.

        `roles` are read in any case.
        """
        self._changes = changes
        self.path = read_path(securable_id(*ref))
        self._depths = {node.id: depth for depth, node in enumerate(self.path)}
        self._below = ids_checked_below(self.path)
        self._role_id = UUID(str(ref.id)) if ref.type is Securable.Type.ROLE else None
        self._effective_rows: dict[tuple[str, str], bool] = {}
        self._granted: dict[UUID, list[GrantedRow]] = {}
        granted = read_granted(self._depths, Q(role__isnull=False))
        for row in changes.apply(granted, self.path[-1].id, changes.roles):
            if isinstance(row.grantee, UUID) and self._is_effective(row):
                self._granted.setdefault(row.grantee, []).append(row)
        self._seeing = read_roles_seeing(self._below)
        seeds = {*self._granted, *self._seeing, *roles, *([] if self._role_id is None else [self._role_id])}
        self._graph = RoleGraph(read_edges_into(seeds))
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

    def of(self, grantees: Collection[Grantee]) -> list[tuple[Principal, Rights]]:
        """Return the existing ones of these principals, also those without rights: first roles, then users.

        The roles must be among those that the constructor read, as `roles`. At most six statements.
        """
        role_ids = sorted({each.role_id for each in grantees if each.role_id is not None}, key=str)
        user_ids = sorted({each.user_id for each in grantees if each.user_id is not None})
        return [*self._of_roles(role_ids, is_complete=True), *self._of_users(user_ids, is_complete=True)]

    def of_subject(self, subject: Subject) -> Rights:
        """Return the rights of a caller, whose token may give roles. At most three statements."""
        first = read_memberships_of(subject)
        role_paths = RoleGraph(read_edges_out_of([each.role_id for each in first])).longest_lasting_paths(first)
        own: list[GrantedRow] = []
        if subject.user_id is not None and subject.assumed_role is None:
            own = self._changes.apply(
                read_granted(self._depths, Q(user_id=subject.user_id)), self.path[-1].id, {subject.user_id}
            )
        return self._rights(role_paths, own, ())

    def _of_roles(self, role_ids: Sequence[UUID], *, is_complete: bool = False) -> list[tuple[Principal, Rights]]:
        known = {row.pk: row for row in Role.objects.filter(pk__in=role_ids)} if role_ids else {}
        found = []
        for role_id in role_ids:
            row = known.get(role_id)
            role_paths = self._graph.longest_lasting_paths([Membership(role_id, Entry.ASSUMED)])
            rights = self._rights(role_paths, (), ())
            if row is not None and (rights.effective or is_complete):
                from_tokens = row.provider_id != OWN_PROVIDER
                found.append((Principal(row.name, role_id=row.pk, has_members_of_tokens=from_tokens), rights))
        return found

    def _of_users(self, user_ids: Sequence[str], *, is_complete: bool = False) -> list[tuple[Principal, Rights]]:
        if not user_ids:
            return []
        known = {row.pk: row for row in User.objects.filter(pk__in=user_ids, deleted_at__isnull=True)}
        first = read_memberships_in(user_ids, self._roles)
        granted: dict[str, list[GrantedRow]] = {}
        rows = read_granted(self._depths, Q(user_id__in=user_ids))
        for row in self._changes.apply(rows, self.path[-1].id, set(user_ids)):
            if isinstance(row.grantee, str) and self._is_effective(row):
                granted.setdefault(row.grantee, []).append(row)
        seeing = read_users_seeing(self._below, user_ids)
        found = []
        for user_id in user_ids:
            user = known.get(user_id)
            role_paths = self._graph.longest_lasting_paths(first.get(user_id, ()))
            rights = self._rights(role_paths, granted.get(user_id, ()), seeing.get(user_id, ()))
            if user is not None and (rights.effective or is_complete):
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


MAX_REVIEW_PAGE_SIZE: Final = 1_000
CHUNK: Final = 500
"""Entries that a complete export reads per step."""

P = TypeVar("P")


class ReviewNotFinished(CatalogError):
    """The request reached its time limit: the response is incomplete and ends here."""

    status, wire_type = 503, "ReviewNotFinished"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the objects of a page, by securable id and without hidden ones, and of its roles."""

    objects: Mapping[str, NamedObject]
    roles: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class ObjectReviewChunk:
    """A part of the review of an object."""

    entries: Sequence[tuple[Principal, Rights]]
    names: Names


@dataclass(frozen=True, slots=True)
class SourceChunk:
    """A part of the grants and memberships of a principal."""

    entries: Sequence[AccessSource]
    names: Names


@dataclass(frozen=True, slots=True)
class ReachableChunk:
    """A part of the objects on which a principal has rights."""

    entries: Sequence[tuple[str, Rights]]
    names: Names


Chunk = Callable[[str, int], tuple[P, str | None]]
"""Reads a part after a cursor, with at most that many entries; returns it and the next cursor."""


def review_object_for(
    *, actor: Actor, target: PermissionTarget, project: Project | None, is_export: bool, name_objects: NameObjects
) -> Chunk[ObjectReviewChunk]:
    """Review who has rights on an object, and from which grants.

    Raises the target's `missing` (404) if the object is hidden from the caller, the type's error (403) if the caller
    may not read the grants on it.
    """
    require_permission(actor, reads_grants(target.ref), *target.ref, missing=target.missing)
    _audit(actor, target.ref, project, {"export": is_export})
    review = ObjectReview(target.ref)
    objects: dict[str, NamedObject] = {}

    def chunk(after: str, limit: int) -> tuple[ObjectReviewChunk, str | None]:
        entries, end = review.page(after=after, limit=limit)
        if not objects:  # the ancestors are the same in each chunk
            objects.update(_named_path(actor, [node.id for node in review.path], name_objects))
        return ObjectReviewChunk(entries, Names(objects, _roles(rights.sources for _, rights in entries))), end

    return chunk


@dataclass(frozen=True, slots=True)
class GrantMatrix:
    """A page of the principals of an object with their rights; `own` are the grants on the object itself."""

    entries: Sequence[tuple[Principal, Rights]]
    own: Mapping[Grantee, Mapping[str, ListedGrant]]
    names: Names


def review_matrix_for(
    *,
    actor: Actor,
    target: PermissionTarget,
    project: Project | None,
    more: Collection[Grantee],
    name_objects: NameObjects,
    page: Page,
) -> tuple[GrantMatrix, str | None]:
    """Review who has rights on an object as `review_object_for`, with the grants on it, and the next page token.

    The principals of `more` come first on the first page, also those without rights.
    """
    require_permission(actor, reads_grants(target.ref), *target.ref, missing=target.missing)
    after = page.after_key()
    _audit(actor, target.ref, project, {"export": False})
    review = ObjectReview(target.ref, roles={each.role_id for each in more if each.role_id is not None})
    entries, end = review.page(after=after, limit=page.size or MAX_REVIEW_PAGE_SIZE)
    if more and not after:
        chosen = review.of(more)
        entries = [*chosen, *(each for each in entries if grantee_of(each[0]) not in set(more))]
    objects = _named_path(actor, [node.id for node in review.path], name_objects)
    names = Names(objects, _roles(rights.sources for _, rights in entries))
    own: dict[Grantee, dict[str, ListedGrant]] = {}
    for grant in list_grants_to(ref=target.ref, grantees={grantee_of(each) for each, _ in entries}):
        own.setdefault(grant.grantee, {})[grant.privilege] = grant
    return GrantMatrix(entries, own, names), None if end is None else write_page_token(page.kind, end)


MAX_INHERITED: Final = 200
"""Grants on objects above that are read for a list."""


@dataclass(frozen=True, slots=True)
class InheritedGrants:
    """The grants on objects above that have an effect on an object, with the ids of these objects, the nearest last."""

    grants: Sequence[tuple[ListedGrant, str]]
    names: Names
    is_complete: bool


def list_inherited_grants_for(*, actor: Actor, target: PermissionTarget, name_objects: NameObjects) -> InheritedGrants:
    """Return the grants on the objects above an object that apply to it, without names of hidden objects.

    Raises the target's `missing` (404) if the object is hidden from the caller, the type's error (403) if the caller
    may not read the grants on it.
    """
    require_permission(actor, reads_grants(target.ref), *target.ref, missing=target.missing)
    path = read_path(securable_id(*target.ref))
    depths = {node.id: depth for depth, node in enumerate(path[:-1])}
    if not depths:
        return InheritedGrants((), Names({}, {}), is_complete=True)
    rows = Grant.objects.unexpired(now()).filter(securable_id__in=depths).order_by("pk")[: MAX_INHERITED + 1]
    found = [
        (
            ListedGrant(row.privilege, Grantee(row.user_id, row.role_id), row.created_at, row.expires_at),
            row.securable_id,
        )
        for row in rows
        if is_effective(path, depths[row.securable_id], row.privilege)
    ]
    objects = _named_path(actor, [node.id for node in path], name_objects) if found else {}
    found.sort(key=lambda each: depths[each[1]])
    return InheritedGrants(found, Names(objects, {}), is_complete=len(rows) <= MAX_INHERITED)


def grantee_of(principal: Principal) -> Grantee:
    return Grantee(principal.user_id, principal.role_id)


def review_sources_for(
    *, actor: Actor, project: Project, grantee: Grantee, is_export: bool, name_objects: NameObjects
) -> Chunk[SourceChunk]:
    """Review the grants and memberships of a principal in a project and on the server, directly or through roles.

    Objects that are hidden from the caller are left out. Raises `GrantActionForbidden` (403) and the errors of
    `check_subject`.
    """
    review = _review_principal(actor, project, grantee, {"export": is_export})

    def chunk(after: str, limit: int) -> tuple[SourceChunk, str | None]:
        found = review.sources(project, after=UUID(after) if after else MIN_ID, limit=limit + 1)
        shown = found[:limit]
        objects = name_objects(_visible(actor, [each.source.securable_id for _, each in shown]))
        entries = [each for _, each in shown if each.source.securable_id in objects]
        names = Names(objects, _roles((each.source,) for each in entries))
        return SourceChunk(entries, names), str(shown[-1][0]) if len(found) > limit else None

    return chunk


def review_objects_for(
    *,
    actor: Actor,
    project: Project,
    grantee: Grantee,
    warehouse: PermissionTarget,
    is_export: bool,
    name_objects: NameObjects,
) -> Chunk[ReachableChunk]:
    """Review the warehouse and the objects in it on which a principal has any right.

    Objects that are hidden from the caller are left out. Raises the target's `missing` (404), `GrantActionForbidden`
    (403) and the errors of `check_subject`.
    """
    details = {"warehouse": str(warehouse.ref.id), "export": is_export}
    if not check_permissions(actor, [(SEEN_BY[Securable.Type.WAREHOUSE], warehouse.ref)])[0]:
        raise deny_as_missing(actor, SEEN_BY[Securable.Type.WAREHOUSE], warehouse.ref, warehouse.missing)
    review = _review_principal(actor, project, grantee, details)

    def chunk(after: str, limit: int) -> tuple[ReachableChunk, str | None]:
        found, end = review.objects(warehouse.ref, after=after, limit=limit)
        on_paths = {source.securable_id for _, rights in found for source in rights.sources}
        visible = _visible(actor, list(dict.fromkeys([*(own_id for own_id, _ in found), *sorted(on_paths)])))
        objects = name_objects(visible)
        entries = [(own_id, rights) for own_id, rights in found if own_id in objects]
        return ReachableChunk(entries, Names(objects, _roles(rights.sources for _, rights in entries))), end

    return chunk


def read_page(chunk: Chunk[P], page: Page, after: str) -> tuple[P, str | None]:
    """Return one page and the next page token."""
    found, end = chunk(after, min(page.size or MAX_REVIEW_PAGE_SIZE, MAX_REVIEW_PAGE_SIZE))
    return found, None if end is None else write_page_token(page.kind, end)


def read_all(chunk: Chunk[P]) -> Iterator[P]:
    """Return all parts. The first is read immediately, so that its errors become an error response.

    Raises `ReviewNotFinished` when the request reaches its time limit before the end.
    """
    ends = monotonic() + settings.ICEKEEPER.max_request_time
    return _read_rest(chunk, *chunk("", CHUNK), ends)


def _read_rest(chunk: Chunk[P], found: P, end: str | None, ends: float) -> Iterator[P]:
    yield found
    while end is not None:
        if monotonic() >= ends:
            raise ReviewNotFinished("The review exceeds the time limit of a request")
        found, end = chunk(end, CHUNK)
        yield found


def _review_principal(actor: Actor, project: Project, grantee: Grantee, details: dict[str, object]) -> PrincipalReview:
    target = target_project(project)
    require_permission_to_read_grants(actor, target, grantee)
    reviewed = actor if grantee == acting_as(actor) else check_subject(grantee)
    _audit(actor, target.ref, project, {"principal": str(grantee), **details})
    return PrincipalReview(Subject.of(reviewed))


def _audit(actor: Actor, ref: ObjectRef, project: Project | None, details: Mapping[str, object]) -> None:
    own_project = None if project is None else project.pk
    record_access_review(actor=actor, ref=(ref.type.value, ref.id), project=own_project, details=details)


def _named_path(actor: Actor, own_ids: Sequence[str], name_objects: NameObjects) -> dict[str, NamedObject]:
    """Name the visible ancestors and the last of the ids, the latter without its name if `actor` may not see it."""
    visible, last = _visible(actor, own_ids), own_ids[-1]
    found = dict(name_objects([*visible, *([] if last in visible else [last])]))
    if last in found and last not in visible:
        found[last] = found[last].without_names()
    return found


def _visible(actor: Actor, own_ids: Collection[str]) -> list[str]:
    """Return the ids of objects that `actor` may see. One request to the authorization backend."""
    refs = {each: parse_securable_id(each) for each in own_ids}
    hideable = [each for each, ref in refs.items() if ref.type in SEEN_BY]
    verdicts = check_permissions(actor, [(SEEN_BY[refs[each].type], refs[each]) for each in hideable])
    hidden = {each for each, is_seen in zip(hideable, verdicts, strict=True) if not is_seen}
    return [each for each in own_ids if each not in hidden]


def _roles(sources: Iterable[Sequence[Source]]) -> dict[UUID, str]:
    """Return the names of the roles in the sources: the name of a role is visible to every caller who sees its id."""
    ids = {role_id for each in sources for source in each for role_id in source.through}
    return dict(Role.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}
