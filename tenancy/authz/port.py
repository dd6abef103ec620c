"""The one question about rights, and who answers it.

Services and selectors call `require`, listings `are_allowed`, `visible_ids` and `all_visible`. Required permissions are
checked again before a write if grants changed meanwhile (`icekeeper.kernel.request.permission_recheck`).
`LAKEKEEPER__AUTHZ_BACKEND` selects the backend; `tenancy.authz.standing_rights` holds what is true for every backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import ClassVar, NamedTuple
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import EVERYTHING
from icekeeper.kernel.request import permission_recheck
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_override
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.changes import rights_changes
from tenancy.authz.refusals import AuthorizationBackendError, action_forbidden, hidden
from tenancy.authz.securables import are_registered
from tenancy.authz.standing_rights import Standing, standing_reason, standing_right
from tenancy.models import Securable
from tenancy.refs import ObjectRef

Question = tuple[Can, ObjectRef]
"""Whether somebody may do something on an object."""

NO_OBJECT = UUID(int=0)
"""The id of no object of any type."""


class Authorizer(ABC):
    """Who decides. A class of a deployment's own is named by `LAKEKEEPER__AUTHZ_BACKEND` with its dotted path.

    It raises `AuthorizationBackendError` when it cannot tell: what is not known to be allowed is not.
    """

    name: ClassVar[str]
    """Shown by `GET /management/v1/info`."""

    @abstractmethod
    def decide(self, actor: Actor, questions: Sequence[Question]) -> list[bool]:
        """An answer for each question, in their order. Objects that there are not answer no."""

    def decide_in_turn(self, actor: Actor, questions: Sequence[Question]) -> Iterator[bool]:
        """As `decide`, for lists, which may end before the last answer: what costs much is asked as it is come to."""
        yield from _counted(self.decide(actor, questions), questions)

    def decide_at(self, actor: Actor, questions: Sequence[Question], at: datetime) -> list[bool]:
        """As `decide`, of a moment to come and by what is granted now: for backends whose rights end to say.

        Asked only about what `actor` may do now.
        """
        return self.decide(actor, questions)

    @abstractmethod
    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        """The first `limit` ids behind `after` of what `actor` sees of the direct children of `parent`, in order.

        Asked only for who may not do `Can.LIST_EVERYTHING` on the parent.
        """

    def all_visible(self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID) -> set[int]:
        """All that `visible_ids` would find, by `UUID.int`: numbers are made and compared in a fraction of the time."""
        ids = self.visible_ids(actor, parent=parent, child_type=child_type, after=after, limit=EVERYTHING)
        return {each.int for each in ids}

    def all_visible_of(self, actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
        """As `all_visible`, of the children of several objects, and of a type that has no children itself."""
        found: set[int] = set()
        for parent in parents:
            found |= self.all_visible(actor, parent=parent, child_type=child_type, after=NO_OBJECT)
        return found


class AllowAll(Authorizer):
    """Everybody may do everything: for laptops, and for networks that guard the server themselves."""

    name = "allowall"

    def decide(self, actor: Actor, questions: Sequence[Question]) -> list[bool]:
        return [True] * len(questions)

    def visible_ids(
        self, actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int
    ) -> list[UUID]:
        raise RuntimeError("nobody's view is asked for: everybody may list everything")


_BACKENDS = {
    "allowall": "tenancy.authz.port.AllowAll",
    "builtin": "tenancy.authz.builtin.backend.BuiltinAuthorizer",
    "openfga": "tenancy.authz.openfga.backend.OpenFgaAuthorizer",
}


@cache
def authorizer() -> Authorizer:
    chosen: str = settings.ICEKEEPER.effective_authz_backend
    made: Authorizer = import_string(_BACKENDS.get(chosen, chosen))()
    return made


def allowed_many(actor: Actor, questions: Sequence[Question]) -> list[bool]:
    """Whether `actor` may, for each of the questions, in their order; the backend is asked once.

    Raises `AuthorizationBackendError` (503) when it cannot be.
    """
    return _answers(actor, questions, lambda rest: authorizer().decide(actor, rest))


def allowed_many_at(actor: Actor, questions: Sequence[Question], at: datetime) -> list[bool]:
    """As `allowed_many`, of a moment to come and by what is granted now. Who acts in a role must be in it by then."""
    if actor.assumed_role is not None:
        in_person = replace(actor, assumed_role=None)
        assuming: Question = (Can.ASSUME, ObjectRef(Securable.Type.ROLE, actor.assumed_role))
        if not allowed_many_at(in_person, [assuming], at)[0]:
            return [False] * len(questions)
    return _answers(actor, questions, lambda rest: authorizer().decide_at(actor, rest, at))


def is_allowed(actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
    """`require` as a question, for what shows less to some."""
    return allowed_many(actor, [(action, ObjectRef(securable_type, object_id))])[0]


def are_allowed(actor: Actor, action: Can, objects: Sequence[ObjectRef]) -> Iterator[bool]:
    """Whether `actor` may do `action` on each of the objects, in their order; for lists that may end before.

    The backend is asked as answers are come to. Raises `AuthorizationBackendError` (503) then when it cannot be.
    """
    answers = [standing_right(actor, action, ref) for ref in objects]
    open_questions = [(action, ref) for ref, answer in zip(objects, answers, strict=True) if answer is None]
    decided = authorizer().decide_in_turn(actor, open_questions) if open_questions else iter(())
    yield from (next(decided) if answer is None else answer for answer in answers)


def require(
    actor: Actor, action: Can, securable_type: Securable.Type, object_id: object, *, missing: CatalogError | None = None
) -> None:
    """Raises `Forbidden` (403) unless `actor` may do `action` on the object.

    Where even that the object exists must stay hidden from the actor, it raises `missing` instead: what the caller
    would raise if there were none.
    """
    require_and_ask(actor, action, ObjectRef(securable_type, object_id), (), missing=missing)


def require_and_ask(
    actor: Actor, action: Can, ref: ObjectRef, more: Sequence[Can], *, missing: CatalogError | None = None
) -> list[bool]:
    """As `require`, and whether `actor` may do each of `more` on the object; the backend is asked once."""
    stamp = rights_changes.stamp()
    seen_by = SEEN_BY.get(ref.type, action)
    asked = list(dict.fromkeys((action, seen_by, *more)))
    answers = dict(zip(asked, allowed_many(actor, [(each, ref) for each in asked]), strict=True))
    if answers[action]:
        rest_on_rights(actor, [(action, ref)], stamp, missing)
        return [answers[each] for each in more]
    if missing is not None and not answers[seen_by] and ref.type in SEEN_BY:
        raise hidden(actor, action, ref, missing)
    raise action_forbidden(actor, action, ref, missing)


class _Permit(NamedTuple):
    actor: Actor
    question: Question
    stamp: int
    missing: CatalogError | None


def rest_on_rights(
    actor: Actor, questions: Sequence[Question], stamp: int, missing: CatalogError | None = None
) -> None:
    """That the request goes on because `actor` may do these; `stamp` is that of before they were asked.

    `missing` is as of `require`, for questions about one object.
    """
    record_overrides(actor, [each for each in questions if standing_reason(actor, *each) is Standing.INSTANCE_ADMIN])
    for question in questions:
        permission_recheck.record(_ask_again, _Permit(actor, question, stamp, missing))


def record_overrides(actor: Actor, questions: Sequence[Question]) -> None:
    """Record in the audit trail which of these an instance admin may do as such alone: by no grant.

    One more question to the backend. While it cannot be asked, the override alone counts.
    """
    if not questions or actor.is_internal:
        return
    try:
        granted = authorizer().decide(actor, questions)
    except AuthorizationBackendError:
        granted = [False] * len(questions)
    for (action, (securable_type, object_id)), is_granted in zip(questions, granted, strict=True):
        if not is_granted:
            record_override(actor=actor, action=action, object_type=securable_type.value, object_id=object_id)


def rights_rested_on(actor: Actor) -> list[Question]:
    """What the request at hand goes on because `actor` may do, each once; nothing outside requests."""
    permits = permission_recheck.recorded(_ask_again)
    return list(dict.fromkeys(each.question for each in permits if each.actor == actor))


def _ask_again(permits: list[_Permit]) -> None:
    """Raises `Forbidden` (403) for what has been taken away. No question as long as no rights have changed.

    What is gone is not judged: whoever wants it finds that out.
    """
    stamp = rights_changes.stamp()
    old = [each for each in permits if each.stamp != stamp]
    for actor in {id(each.actor): each.actor for each in old}.values():
        asked = {each.question: each.missing for each in old if each.actor is actor}
        answers = zip(asked, allowed_many(actor, list(asked)), strict=True)
        refused = [question for question, answer in answers if not answer]
        there = are_registered([ref for _, ref in refused]) if refused else []
        for (action, ref), is_there in zip(refused, there, strict=True):
            if is_there:
                raise action_forbidden(actor, action, ref, asked[action, ref])
    permits[:] = [each._replace(stamp=stamp) for each in permits]


def visible_ids(actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID, limit: int) -> list[UUID]:
    """As `Authorizer.visible_ids`, of the backend of this deployment."""
    return authorizer().visible_ids(actor, parent=parent, child_type=child_type, after=after, limit=limit)


def all_visible(actor: Actor, *, parent: ObjectRef, child_type: Securable.Type, after: UUID) -> set[int]:
    """As `Authorizer.all_visible`, of the backend of this deployment."""
    return authorizer().all_visible(actor, parent=parent, child_type=child_type, after=after)


def all_visible_of(actor: Actor, *, parents: Sequence[ObjectRef], child_type: Securable.Type) -> set[int]:
    """As `Authorizer.all_visible_of`, of the backend of this deployment."""
    return authorizer().all_visible_of(actor, parents=parents, child_type=child_type) if parents else set()


def _answers(
    actor: Actor, questions: Sequence[Question], decide: Callable[[Sequence[Question]], list[bool]]
) -> list[bool]:
    """What is settled whoever decides, and of the rest what `decide` says."""
    answers: list[bool | None] = [standing_right(actor, action, ref) for action, ref in questions]
    open_questions = [question for question, answer in zip(questions, answers, strict=True) if answer is None]
    if not open_questions:
        return [bool(answer) for answer in answers]
    rest = iter(_counted(decide(open_questions), open_questions))
    return [next(rest) if answer is None else answer for answer in answers]


def _counted(decided: list[bool], questions: Sequence[Question]) -> list[bool]:
    if len(decided) != len(questions):
        raise RuntimeError("the authorizer did not answer each question")
    return decided
