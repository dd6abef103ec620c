"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.request import permission_recheck
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_override
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.errors import AuthorizationBackendError, action_forbidden, deny_as_missing
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.port import PermissionCheck, require_decision_for_each
from tenancy.authz.securables import are_registered
from tenancy.instance_admins import is_instance_admin
from tenancy.models import Securable
from tenancy.refs import ObjectRef

NOT_BY_OVERRIDE: Final = frozenset(
    {Can.READ_DATA, Can.WRITE_DATA, Can.SELECT, Can.ASSUME, Can.CHANGE_OWNERSHIP, Can.SET_MANAGED_ACCESS}
    | {action for action in Can if action.value.startswith("grant_")}
)
"""What an instance admin needs grants for like everybody: data, roles, and the grants of others."""


class Standing(StrEnum):
    """What settles whether somebody may, whatever is granted."""

    INTERNAL = "internal"
    BLOCKED = "blocked"
    EVERYBODY = "everybody"
    INSTANCE_ADMIN = "instance-admin"


def standing_right(actor: Actor, action: Can, ref: ObjectRef) -> bool | None:
    """Whether `actor` may do `action` on the object, None where that is the backend's to say."""
    reason = standing_reason(actor, action, ref)
    return None if reason is None else reason is not Standing.BLOCKED


def standing_reason(actor: Actor, action: Can, ref: ObjectRef) -> Standing | None:
    """What settles whether `actor` may do `action` on the object, None where that is the backend's to say."""
    if actor.is_internal:
        return Standing.INTERNAL
    if actor.is_blocked:
        return Standing.BLOCKED
    if ref.type is Securable.Type.ROLE and action is Can.READ_METADATA:
        return Standing.EVERYBODY  # whoever meets a role's id may learn its name
    if action not in NOT_BY_OVERRIDE and is_instance_admin(actor):
        return Standing.INSTANCE_ADMIN
    return None


def check_permissions(actor: Actor, questions: Sequence[PermissionCheck]) -> list[bool]:
    """Whether `actor` may, for each of the questions, in their order; the backend is asked once.

    Raises `AuthorizationBackendError` (503) when it cannot be.
    """
    return _answers(actor, questions, lambda rest: port.authorizer().decide(actor, rest))


def check_permissions_at(actor: Actor, questions: Sequence[PermissionCheck], at: datetime) -> list[bool]:
    """As `check_permissions`, at a later moment, by the current grants. An assumed role must be assumable then."""
    if actor.assumed_role is not None:
        in_person = replace(actor, assumed_role=None)
        assuming: PermissionCheck = (Can.ASSUME, ObjectRef(Securable.Type.ROLE, actor.assumed_role))
        if not check_permissions_at(in_person, [assuming], at)[0]:
            return [False] * len(questions)
    return _answers(actor, questions, lambda rest: port.authorizer().decide_at(actor, rest, at))


def is_allowed(actor: Actor, action: Can, securable_type: Securable.Type, object_id: object) -> bool:
    """`require` as a question, for what shows less to some."""
    return check_permissions(actor, [(action, ObjectRef(securable_type, object_id))])[0]


def are_allowed(actor: Actor, action: Can, objects: Sequence[ObjectRef]) -> Iterator[bool]:
    """Whether `actor` may do `action` on each of the objects, in their order; for lists that may end before.

    The backend is asked as answers are come to. Raises `AuthorizationBackendError` (503) then when it cannot be.
    """
    answers = [standing_right(actor, action, ref) for ref in objects]
    open_questions = [(action, ref) for ref, answer in zip(objects, answers, strict=True) if answer is None]
    decided = port.authorizer().decide_in_turn(actor, open_questions) if open_questions else iter(())
    yield from (next(decided) if answer is None else answer for answer in answers)


def require_permission(
    actor: Actor, action: Can, securable_type: Securable.Type, object_id: object, *, missing: CatalogError | None = None
) -> None:
    """Raises `Forbidden` (403) unless `actor` may do `action` on the object.

    Where even that the object exists must stay hidden from the actor, it raises `missing` instead: what the caller
    would raise if there were none.
    """
    require_permission_and_check(actor, action, ObjectRef(securable_type, object_id), (), missing=missing)


def require_permission_and_check(
    actor: Actor, action: Can, ref: ObjectRef, more: Sequence[Can], *, missing: CatalogError | None = None
) -> list[bool]:
    """As `require`, and whether `actor` may do each of `more` on the object; the backend is asked once."""
    stamp = permission_epoch.current()
    seen_by = SEEN_BY.get(ref.type, action)
    asked = list(dict.fromkeys((action, seen_by, *more)))
    answers = dict(zip(asked, check_permissions(actor, [(each, ref) for each in asked]), strict=True))
    if answers[action]:
        recheck_before_write(actor, [(action, ref)], stamp, missing)
        return [answers[each] for each in more]
    if missing is not None and not answers[seen_by] and ref.type in SEEN_BY:
        raise deny_as_missing(actor, action, ref, missing)
    raise action_forbidden(actor, action, ref, missing)


class _Permit(NamedTuple):
    actor: Actor
    question: PermissionCheck
    stamp: int
    missing: CatalogError | None


def recheck_before_write(
    actor: Actor, questions: Sequence[PermissionCheck], stamp: int, missing: CatalogError | None = None
) -> None:
    """That the request goes on because `actor` may do these; `stamp` is that of before they were asked.

    `missing` is as of `require`, for questions about one object.
    """
    record_overrides(actor, [each for each in questions if standing_reason(actor, *each) is Standing.INSTANCE_ADMIN])
    for question in questions:
        permission_recheck.record(_ask_again, _Permit(actor, question, stamp, missing))


def record_overrides(actor: Actor, questions: Sequence[PermissionCheck]) -> None:
    """Record in the audit trail which of these an instance admin may do as such alone: by no grant.

    One more question to the backend. While it cannot be asked, the override alone counts.
    """
    if not questions or actor.is_internal:
        return
    try:
        granted = port.authorizer().decide(actor, questions)
    except AuthorizationBackendError:
        granted = [False] * len(questions)
    for (action, (securable_type, object_id)), is_granted in zip(questions, granted, strict=True):
        if not is_granted:
            record_override(actor=actor, action=action, object_type=securable_type.value, object_id=object_id)


def required_permissions(actor: Actor) -> list[PermissionCheck]:
    """What the request at hand goes on because `actor` may do, each once; nothing outside requests."""
    permits = permission_recheck.recorded(_ask_again)
    return list(dict.fromkeys(each.question for each in permits if each.actor == actor))


def _ask_again(permits: list[_Permit]) -> None:
    """Raises `Forbidden` (403) for what has been taken away. No question as long as no rights have changed.

    What is gone is not judged: whoever wants it finds that out.
    """
    stamp = permission_epoch.current()
    old = [each for each in permits if each.stamp != stamp]
    for actor in {id(each.actor): each.actor for each in old}.values():
        asked = {each.question: each.missing for each in old if each.actor is actor}
        answers = zip(asked, check_permissions(actor, list(asked)), strict=True)
        refused = [question for question, answer in answers if not answer]
        there = are_registered([ref for _, ref in refused]) if refused else []
        for (action, ref), is_there in zip(refused, there, strict=True):
            if is_there:
                raise action_forbidden(actor, action, ref, asked[action, ref])
    permits[:] = [each._replace(stamp=stamp) for each in permits]


def _answers(
    actor: Actor, questions: Sequence[PermissionCheck], decide: Callable[[Sequence[PermissionCheck]], list[bool]]
) -> list[bool]:
    """What is settled whoever decides, and of the rest what `decide` says."""
    answers: list[bool | None] = [standing_right(actor, action, ref) for action, ref in questions]
    open_questions = [question for question, answer in zip(questions, answers, strict=True) if answer is None]
    if not open_questions:
        return [bool(answer) for answer in answers]
    rest = iter(require_decision_for_each(decide(open_questions), open_questions))
    return [next(rest) if answer is None else answer for answer in answers]
