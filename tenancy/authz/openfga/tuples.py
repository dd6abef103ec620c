"""Relation tuples: how our rows are named in OpenFGA, and the tuples that it should have (`desired_tuples`).

Objects are the ids of securables (`table:<uuid>`), users are `user:<id, percent-encoded>`, members of a role are
`role:<uuid>#assignee`. Every grant has the condition `unexpired`; without expiry it is that of the year 9999, since
OpenFGA evaluates a relation twice that accepts tuples with and without a condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from django.db.models import Q

from tenancy.authz.model import MANAGED_ACCESS, UP, rights_model
from tenancy.authz.openfga.authorization_model import EXPIRES_AT, UNEXPIRED, implied
from tenancy.models import Grant, RoleMember, Securable

ASSIGNEE: Final = "assignee"


EVERYBODY: Final = "user:*"


FOREVER: Final = "9999-12-31T23:59:59Z"


HASHED: Final = "user:sha256="
"""How subjects begin that stand for users whose ids are too long."""


MAX_SUBJECT_LENGTH: Final = 512
"""Bytes that OpenFGA takes."""


class TupleKey(NamedTuple):
    """What a tuple is told apart by."""

    object: str
    relation: str
    subject: str


class Condition(NamedTuple):
    """`expires_at` is None for what does not end; links and flags have no condition at all."""

    expires_at: datetime | None


def user_subject(user_id: str) -> str:
    """Nothing that it encodes has a `=`, which marks subjects that are no users of ours."""
    subject = f"user:{quote(user_id, safe='')}"
    if len(subject) <= MAX_SUBJECT_LENGTH:
        return subject
    return f"{HASHED}{sha256(user_id.encode()).hexdigest()}"


def user_of(subject: str) -> str | None:
    """The id that `user_subject` was given, None if it was given none, or one that was too long."""
    user_id = unquote(subject.removeprefix("user:"))
    return user_id if user_subject(user_id) == subject else None


def members_subject(role_id: object) -> str:
    return f"role:{role_id}#{ASSIGNEE}"


def role_of(subject: str) -> UUID | None:
    """The role that `members_subject` was given, None if it was given none."""
    try:
        role_id = UUID(subject.removeprefix("role:").removesuffix(f"#{ASSIGNEE}"))
    except ValueError:
        return None
    return role_id if members_subject(role_id) == subject else None


def assumed_subject(role_id: object) -> str:
    """Somebody who is in that role and nothing else: managed access, which is for users, holds for them, too."""
    return f"user:role={role_id}"


def grant_key(securable_id: str, privilege: str, *, user_id: str | None, role_id: object | None) -> TupleKey:
    """Exactly one of user and role is not None."""
    return TupleKey(securable_id, privilege, members_subject(role_id) if user_id is None else user_subject(user_id))


def grant_keys(securable_id: str, privilege: str, *, user_id: str | None, role_id: object | None) -> list[TupleKey]:
    """All tuples that there are because of one grant: owners of roles are members of them."""
    object_type = securable_id.partition(":")[0]
    relations = [privilege, *implied(object_type, privilege)]
    return [grant_key(securable_id, each, user_id=user_id, role_id=role_id) for each in relations]


def member_key(role_id: object, *, user_id: str | None, member_role_id: object | None) -> TupleKey:
    return grant_key(f"role:{role_id}", ASSIGNEE, user_id=user_id, role_id=member_role_id)


def parent_key(securable_id: str, parent_id: str) -> TupleKey:
    return TupleKey(securable_id, UP, parent_id)


def managed_access_key(securable_id: str) -> TupleKey:
    return TupleKey(securable_id, MANAGED_ACCESS, EVERYBODY)


def as_tuple(key: TupleKey, condition: Condition | None = None) -> dict[str, Any]:
    """As OpenFGA's API has it."""
    written: dict[str, Any] = {"user": key.subject, "relation": key.relation, "object": key.object}
    if condition is not None:
        written["condition"] = {"name": UNEXPIRED, "context": {EXPIRES_AT: end_of(condition)}}
    return written


def end_of(condition: Condition | None) -> str | None:
    """When it ends, as OpenFGA is told and keeps it; None without a condition."""
    if condition is None:
        return None
    return FOREVER if condition.expires_at is None else as_time(condition.expires_at)


def as_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def holding_now(key: TupleKey) -> dict[str, Any]:
    """A tuple that is told with a question."""
    return as_tuple(key, Condition(None))


Recorded = dict[TupleKey, Condition | None]
"""Tuples with their conditions, None for those that have none."""


def desired_tuples(keys: Collection[TupleKey]) -> Recorded:
    """Of these tuples those that should be there: at most three statements."""
    links = {key.object for key in keys if key.relation in {UP, MANAGED_ACCESS}}
    granted = [key for key in keys if key.relation not in {UP, MANAGED_ACCESS}]
    found: Recorded = {}
    if links:
        found |= _of_securables(Securable.objects.filter(pk__in=links).values_list("pk", "parent_id", "managed_access"))
    if granted:
        objects = {key.object for key in granted}
        users = {user_id for key in granted if (user_id := user_of(key.subject)) is not None}
        roles = {role_id for key in granted if (role_id := role_of(key.subject)) is not None}
        is_any_user = Q(user__isnull=False) if any(key.subject.startswith(HASHED) for key in granted) else Q(pk__in=[])
        to_whom = Q(user__in=users) | Q(role__in=roles) | is_any_user
        grants = _of_grants(Grant.objects.filter(to_whom, securable__in=objects))
        groups = [role_id for each in objects if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
        whom = Q(user__in=users) | Q(member_role__in=roles) | is_any_user
        members = _of_members(RoleMember.objects.filter(whom, role__in=groups)) if groups else {}
        found |= _together(grants, members)
    wanted = set(keys)
    return {key: condition for key, condition in found.items() if key in wanted}


def desired_tuples_on(securable_ids: Collection[str]) -> Recorded:
    """All tuples that should be on these objects: three statements."""
    links = _of_securables(
        Securable.objects.filter(pk__in=securable_ids).values_list("pk", "parent_id", "managed_access")
    )
    grants = _of_grants(Grant.objects.filter(securable__in=securable_ids))
    groups = [role_id for each in securable_ids if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
    members = _of_members(RoleMember.objects.filter(role__in=groups)) if groups else {}
    return links | _together(grants, members)


def _together(grants: Recorded, members: Recorded) -> Recorded:
    """Who is in a role as its owner and as a member is so until the later end."""
    found = dict(grants)
    for key, condition in members.items():
        found[key] = _later(found.get(key, condition), condition)
    return found


def _later(one: Condition | None, other: Condition | None) -> Condition:
    ends = [each.expires_at for each in (one, other) if each is not None]
    known = [each for each in ends if each is not None]
    return Condition(max(known) if len(known) == len(ends) else None)


def _of_securables(rows: Iterable[tuple[str, str | None, bool]]) -> Recorded:
    found: Recorded = {}
    for own_id, parent_id, is_managed in rows:
        if parent_id is not None:
            found[parent_key(own_id, parent_id)] = None
        if is_managed:
            found[managed_access_key(own_id)] = None
    return found


def _of_grants(grants: Iterable[Grant]) -> Recorded:
    """Without what nobody can be granted any more."""
    return {
        key: Condition(each.expires_at)
        for each in grants
        if each.privilege in rights_model().privileges(each.securable_id.partition(":")[0])
        for key in grant_keys(each.securable_id, each.privilege, user_id=each.user_id, role_id=each.role_id)
    }


def _of_members(members: Iterable[RoleMember]) -> Recorded:
    return {
        member_key(each.role_id, user_id=each.user_id, member_role_id=each.member_role_id): Condition(each.expires_at)
        for each in members
    }
