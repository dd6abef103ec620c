"""Access reviews of an object (who has rights on it) and of a principal (what they have rights on in a project).

Objects that are hidden from the caller are left out of the review of a principal, and appear without name and id where
they carry a grant. Each review is recorded in the audit trail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
    Rights,
    Source,
    is_effective,
    read_path,
)
from tenancy.authz.actions import SEEN_BY, privilege_names, reads_grants
from tenancy.authz.permissions import check_permissions, deny_as_missing, require_permission
from tenancy.authz.port import Subject
from tenancy.models import Grant, Project, Securable
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tenancy.selectors.grants import (
    EVERY_GRANT,
    GrantFilter,
    ListedGrant,
    list_grants_to,
    listed_grant,
    require_permission_to_read_grants,
)
from tenancy.selectors.object_reviews import ObjectReview, Principal
from tenancy.selectors.objects import NamedObject, NameObjects, PermissionTarget, target_project
from tenancy.selectors.permission_checks import check_subject
from tenancy.selectors.principal_reviews import AccessSource, PrincipalReview

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
        return ObjectReviewChunk(entries, Names(objects, review.role_names)), end

    return chunk


@dataclass(frozen=True, slots=True)
class GrantMatrix:
    """A page of the principals of an object with their rights.

    `own` has the privileges that are granted on the object itself, with their expiry.
    """

    entries: Sequence[tuple[Principal, Rights]]
    own: Mapping[Grantee, Mapping[str, datetime | None]]
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
    own: Mapping[Grantee, Mapping[str, datetime | None]] = review.own
    if target.ref.type is Securable.Type.ROLE:
        with_members: dict[Grantee, dict[str, datetime | None]] = {}
        for grant in list_grants_to(ref=target.ref, grantees={grantee_of(each) for each, _ in entries}):
            with_members.setdefault(grant.grantee, {})[grant.privilege] = grant.expires_at
        own = with_members
    names = Names(objects, review.role_names)
    return GrantMatrix(entries, own, names), None if end is None else write_page_token(page.kind, end)


MAX_INHERITED: Final = 200
"""Grants on objects above that are read for a list."""


@dataclass(frozen=True, slots=True)
class InheritedGrants:
    """The grants on objects above that have an effect on an object, with the ids of these objects, the nearest last."""

    grants: Sequence[tuple[ListedGrant, str]]
    names: Names
    is_complete: bool


def list_inherited_grants_for(
    *, actor: Actor, target: PermissionTarget, wanted: GrantFilter = EVERY_GRANT, name_objects: NameObjects
) -> InheritedGrants:
    """Return the grants on the objects above an object that apply to it, without names of hidden objects.

    Raises the target's `missing` (404) if the object is hidden from the caller, the type's error (403) if the caller
    may not read the grants on it.
    """
    require_permission(actor, reads_grants(target.ref), *target.ref, missing=target.missing)
    path = read_path(securable_id(*target.ref))
    depths = {node.id: depth for depth, node in enumerate(path[:-1])}
    has_effect = Q()
    for own_id, depth in depths.items():
        applying = [each for each in privilege_names(path[depth].type) if is_effective(path, depth, each)]
        if applying:
            has_effect |= Q(securable_id=own_id, privilege__in=applying)
    if not has_effect:
        return InheritedGrants((), Names({}, {}), is_complete=True)
    applying_here = Grant.objects.unexpired(now()).filter(has_effect, wanted.condition()).order_by("pk")
    rows = list(applying_here[: MAX_INHERITED + 1])
    found = [(listed_grant(row), row.securable_id) for row in rows[:MAX_INHERITED]]
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
        visible = visible_ids_of(actor, [each.source.securable_id for _, each in shown])
        names = _names(name_objects, visible, (each.source for _, each in shown))
        entries = [each for _, each in shown if each.source.securable_id in names.objects]
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
        visible = visible_ids_of(actor, list(dict.fromkeys([*(own_id for own_id, _ in found), *sorted(on_paths)])))
        names = _names(name_objects, visible, (source for _, rights in found for source in rights.sources))
        return ReachableChunk([each for each in found if each[0] in names.objects], names), end

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
    visible, last = visible_ids_of(actor, own_ids), own_ids[-1]
    found = dict(name_objects([*visible, *([] if last in visible else [last])]))
    if last in found and last not in visible:
        found[last] = found[last].without_names()
    return found


def visible_ids_of(actor: Actor, own_ids: Collection[str]) -> list[str]:
    """Return the ids of objects that `actor` may see. One request to the authorization backend."""
    refs = {each: parse_securable_id(each) for each in own_ids}
    hideable = [each for each, ref in refs.items() if ref.type in SEEN_BY]
    verdicts = check_permissions(actor, [(SEEN_BY[refs[each].type], refs[each]) for each in hideable])
    hidden = {each for each, is_seen in zip(hideable, verdicts, strict=True) if not is_seen}
    return [each for each in own_ids if each not in hidden]


def _names(name_objects: NameObjects, visible: Collection[str], sources: Iterable[Source]) -> Names:
    """Return the names of visible objects, and of the roles in the sources, whose names are visible to every caller who
    sees their ids. One statement."""
    roles = {securable_id(Securable.Type.ROLE, role_id): role_id for each in sources for role_id in each.through}
    named = name_objects([*visible, *roles])
    return Names(
        {own_id: named[own_id] for own_id in visible if own_id in named},
        {role_id: named[own_id].name or "" for own_id, role_id in roles.items() if own_id in named},
    )
