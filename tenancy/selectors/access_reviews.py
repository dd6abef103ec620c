"""Access reviews for who may ask: who has rights on an object, and what somebody can reach in a project.

What may not be known to who asks is left out of what somebody reaches, and goes without its name and its id where it is
the place of a grant. Whoever asks is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.page_tokens import write_page_token
from icekeeper.kernel.http.paging import FIRST, Page
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.access_review import Rights, Source
from tenancy.authz.actions import SEEN_BY
from tenancy.authz.errors import deny_as_missing
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.authz.privileges import reads_grants
from tenancy.authz.subject import Subject
from tenancy.grantee import Grantee, acting_as
from tenancy.models import Project, Role, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.allowed_actions import actor_of
from tenancy.selectors.object_names import NamedObject, NameObjects
from tenancy.selectors.object_reviews import ObjectReview, Principal
from tenancy.selectors.principal_reviews import HeldPlace, PrincipalReview
from tenancy.selectors.rights_targets import RightsTarget, target_project
from tenancy.selectors.visible_grants import require_to_read

LARGEST_REVIEW_PAGE: Final = 1_000
CHUNK: Final = 500
"""Entries that are read at once where all of them are wanted."""

P = TypeVar("P")


class ReviewNotFinished(CatalogError):
    """The time of a request was over: what was sent is not all, and the answer breaks off."""

    status, wire_type = 503, "ReviewNotFinished"


@dataclass(frozen=True, slots=True)
class Names:
    """Of what a page speaks of: objects by securable id, without those that are hidden, and roles."""

    objects: Mapping[str, NamedObject]
    roles: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A part of the review of an object."""

    entries: Sequence[tuple[Principal, Rights]]
    names: Names


@dataclass(frozen=True, slots=True)
class Held:
    """A part of the places where a principal holds something."""

    entries: Sequence[HeldPlace]
    names: Names


@dataclass(frozen=True, slots=True)
class Reached:
    """A part of the objects that a principal reaches."""

    entries: Sequence[tuple[str, Rights]]
    names: Names


Chunk = Callable[[str, int], tuple[P, str | None]]
"""A part behind a key, with as many entries at most, and the key that the next one starts behind."""


def review_object_for(
    *, actor: Actor, target: RightsTarget, project: Project | None, is_export: bool, name_objects: NameObjects
) -> Chunk[Reviewed]:
    """Who has rights on an object, from which grants.

    Raises the target's `missing` (404) for who may not know of it, the type's refusal (403) for who does and may not
    read the grants on it.
    """
    require_permission(actor, reads_grants(target.ref), *target.ref, missing=target.missing)
    _tell(actor, target.ref, project, {"export": is_export})
    review = ObjectReview(target.ref)
    objects: dict[str, NamedObject] = {}

    def chunk(after: str, limit: int) -> tuple[Reviewed, str | None]:
        entries, end = review.page(after=after, limit=limit)
        if not objects:  # those on the way are the same in each chunk
            objects.update(_named_path(actor, [node.id for node in review.path], name_objects))
        return Reviewed(entries, Names(objects, _roles(rights.sources for _, rights in entries))), end

    return chunk


def review_places_for(
    *, actor: Actor, project: Project, grantee: Grantee, is_export: bool, name_objects: NameObjects
) -> Chunk[Held]:
    """Where a principal holds something in a project or on the server, themselves or through roles.

    Objects that the caller may not know of are left out. Raises `GrantActionForbidden` (403) and what
    `actor_of` raises.
    """
    review = _of_principal(actor, project, grantee, {"export": is_export})

    def chunk(after: str, limit: int) -> tuple[Held, str | None]:
        found = review.places(project, after=UUID(after) if after else FIRST, limit=limit + 1)
        shown = found[:limit]
        objects = name_objects(_visible(actor, [each.source.securable_id for _, each in shown]))
        entries = [each for _, each in shown if each.source.securable_id in objects]
        names = Names(objects, _roles((each.source,) for each in entries))
        return Held(entries, names), str(shown[-1][0]) if len(found) > limit else None

    return chunk


def review_objects_for(
    *,
    actor: Actor,
    project: Project,
    grantee: Grantee,
    warehouse: RightsTarget,
    is_export: bool,
    name_objects: NameObjects,
) -> Chunk[Reached]:
    """The warehouse and the objects in it on which a principal has any right.

    Those that the caller may not know of are left out. Raises the target's `missing` (404), `GrantActionForbidden`
    (403) and what `actor_of` raises.
    """
    told = {"warehouse": str(warehouse.ref.id), "export": is_export}
    if not check_permissions(actor, [(SEEN_BY[Securable.Type.WAREHOUSE], warehouse.ref)])[0]:
        raise deny_as_missing(actor, SEEN_BY[Securable.Type.WAREHOUSE], warehouse.ref, warehouse.missing)
    review = _of_principal(actor, project, grantee, told)

    def chunk(after: str, limit: int) -> tuple[Reached, str | None]:
        found, end = review.objects(warehouse.ref, after=after, limit=limit)
        on_paths = {source.securable_id for _, rights in found for source in rights.sources}
        visible = _visible(actor, list(dict.fromkeys([*(own_id for own_id, _ in found), *sorted(on_paths)])))
        objects = name_objects(visible)
        entries = [(own_id, rights) for own_id, rights in found if own_id in objects]
        return Reached(entries, Names(objects, _roles(rights.sources for _, rights in entries))), end

    return chunk


def page_from(chunk: Chunk[P], page: Page, after: str) -> tuple[P, str | None]:
    """One page, and the next one's token."""
    found, end = chunk(after, min(page.size or LARGEST_REVIEW_PAGE, LARGEST_REVIEW_PAGE))
    return found, None if end is None else write_page_token(page.kind, end)


def all_from(chunk: Chunk[P]) -> Iterator[P]:
    """All of it, part by part; the first is read at once, so that what fails then is answered.

    Raises `ReviewNotFinished` when the time of a request is over before the end is come to.
    """
    ends = monotonic() + settings.ICEKEEPER.max_request_time
    return _rest(chunk, *chunk("", CHUNK), ends)


def _rest(chunk: Chunk[P], found: P, end: str | None, ends: float) -> Iterator[P]:
    yield found
    while end is not None:
        if monotonic() >= ends:
            raise ReviewNotFinished("The review takes longer than a request may")
        found, end = chunk(end, CHUNK)
        yield found


def _of_principal(actor: Actor, project: Project, grantee: Grantee, told: dict[str, object]) -> PrincipalReview:
    target = target_project(project)
    require_to_read(actor, target, grantee)
    asked = actor if grantee == acting_as(actor) else actor_of(grantee)
    _tell(actor, target.ref, project, {"principal": str(grantee), **told})
    return PrincipalReview(Subject.of(asked))


def _tell(actor: Actor, ref: ObjectRef, project: Project | None, told: Mapping[str, object]) -> None:
    own_project = None if project is None else project.pk
    record_access_review(actor=actor, ref=(ref.type.value, ref.id), project=own_project, details=told)


def _named_path(actor: Actor, own_ids: Sequence[str], name_objects: NameObjects) -> dict[str, NamedObject]:
    """What `actor` sees on the way to the last of the ids, and that one: without its name where they do not see it."""
    visible, last = _visible(actor, own_ids), own_ids[-1]
    found = dict(name_objects([*visible, *([] if last in visible else [last])]))
    if last in found and last not in visible:
        found[last] = found[last].without_names()
    return found


def _visible(actor: Actor, own_ids: Collection[str]) -> list[str]:
    """Those of which `actor` may know; the backend is asked once."""
    open_ids = [each for each in own_ids if _kind(each) in SEEN_BY]
    questions = [(SEEN_BY[_kind(each)], ObjectRef(_kind(each), each.partition(":")[2])) for each in open_ids]
    answers = check_permissions(actor, questions) if questions else []
    hidden = {each for each, answer in zip(open_ids, answers, strict=True) if not answer}
    return [each for each in own_ids if each not in hidden]


def _kind(own_id: str) -> Securable.Type:
    return Securable.Type(own_id.partition(":")[0])


def _roles(sources: Iterable[Sequence[Source]]) -> dict[UUID, str]:
    """What the roles on the ways are called: everybody who meets a role's id may know."""
    ids = {role_id for each in sources for source in each for role_id in source.through}
    return dict(Role.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}
