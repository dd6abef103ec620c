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

from tenancy.authz.actions import privilege_names
from tenancy.authz.model import MANAGED_ACCESS, UP
from tenancy.authz.openfga.authorization_model import EXPIRES_AT, UNEXPIRED, implied
from tenancy.models import Grant, RoleMember, Securable

ASSIGNEE: Final = "assignee"


EVERYBODY: Final = "user:*"


FOREVER: Final = "9999-12-31T23:59:59Z"


HASHED: Final = "user:sha256="
"""Prefix of subjects for users whose ids are too long."""


MAX_SUBJECT_LENGTH: Final = 512
"""Maximum bytes of a subject in OpenFGA."""


class TupleKey(NamedTuple):
    """Identifies a tuple."""

    object: str
    relation: str
    subject: str


class Condition(NamedTuple):
    """`expires_at` is None for a permanent grant; links and flags have no condition at all."""

    expires_at: datetime | None


def user_subject(user_id: str) -> str:
    """Return the subject of a user. Percent-encoding leaves no `=`, which marks other subjects."""
    subject = f"user:{quote(user_id, safe='')}"
    if len(subject) <= MAX_SUBJECT_LENGTH:
        return subject
    return f"{HASHED}{sha256(user_id.encode()).hexdigest()}"


def user_of(subject: str) -> str | None:
    """Return the user id of a subject; None for other subjects and for hashed ids."""
    user_id = unquote(subject.removeprefix("user:"))
    return user_id if user_subject(user_id) == subject else None


def members_subject(role_id: object) -> str:
    return f"role:{role_id}#{ASSIGNEE}"


def role_of(subject: str) -> UUID | None:
    """Return the role of a subject of `members_subject`; None for other subjects."""
    try:
        role_id = UUID(subject.removeprefix("role:").removesuffix(f"#{ASSIGNEE}"))
    except ValueError:
        return None
    return role_id if members_subject(role_id) == subject else None


def assumed_subject(role_id: object) -> str:
    """Return the subject of an assumed role: a user who is a member of that role only."""
    return f"user:role={role_id}"


def grant_key(securable_id: str, privilege: str, *, user_id: str | None, role_id: object | None) -> TupleKey:
    """Return the tuple of a grant to a user or a role; exactly one of the two is given."""
    return TupleKey(securable_id, privilege, members_subject(role_id) if user_id is None else user_subject(user_id))


def grant_keys(securable_id: str, privilege: str, *, user_id: str | None, role_id: object | None) -> list[TupleKey]:
    """Return all tuples of one grant: owners of roles also get the tuple of a member."""
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
    """Return the JSON form of a tuple in OpenFGA's API."""
    written: dict[str, Any] = {"user": key.subject, "relation": key.relation, "object": key.object}
    if condition is not None:
        written["condition"] = {"name": UNEXPIRED, "context": {EXPIRES_AT: end_of(condition)}}
    return written


def end_of(condition: Condition | None) -> str | None:
    """Return the expiry as OpenFGA stores it; None without a condition."""
    if condition is None:
        return None
    return FOREVER if condition.expires_at is None else as_time(condition.expires_at)


def as_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


DesiredTuples = dict[TupleKey, Condition | None]
"""Tuples with their conditions, None for tuples without one."""


def desired_tuples(keys: Collection[TupleKey]) -> DesiredTuples:
    """Return those of the tuples that OpenFGA should have. At most three statements."""
    links = {key.object for key in keys if key.relation in {UP, MANAGED_ACCESS}}
    granted = [key for key in keys if key.relation not in {UP, MANAGED_ACCESS}]
    found: DesiredTuples = {}
    if links:
        found |= _of_securables(Securable.objects.filter(pk__in=links).values_list("pk", "parent_id", "managed_access"))
    if granted:
        objects = {key.object for key in granted}
        users = {user_id for key in granted if (user_id := user_of(key.subject)) is not None}
        roles = {role_id for key in granted if (role_id := role_of(key.subject)) is not None}
        is_any_user = Q(user__isnull=False) if any(key.subject.startswith(HASHED) for key in granted) else Q(pk__in=[])
        to_grantees = Q(user__in=users) | Q(role__in=roles) | is_any_user
        grants = _of_grants(Grant.objects.filter(to_grantees, securable__in=objects))
        groups = [role_id for each in objects if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
        to_members = Q(user__in=users) | Q(member_role__in=roles) | is_any_user
        members = _of_members(RoleMember.objects.filter(to_members, role__in=groups)) if groups else {}
        found |= _merge(grants, members)
    wanted = set(keys)
    return {key: condition for key, condition in found.items() if key in wanted}


def desired_tuples_on(securable_ids: Collection[str]) -> DesiredTuples:
    """Return all tuples that OpenFGA should have on these objects. Three statements."""
    links = _of_securables(
        Securable.objects.filter(pk__in=securable_ids).values_list("pk", "parent_id", "managed_access")
    )
    grants = _of_grants(Grant.objects.filter(securable__in=securable_ids))
    groups = [role_id for each in securable_ids if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
    members = _of_members(RoleMember.objects.filter(role__in=groups)) if groups else {}
    return links | _merge(grants, members)


def _merge(grants: DesiredTuples, members: DesiredTuples) -> DesiredTuples:
    """Merge tuples of owners and members: a subject that is both is a member until the later expiry."""
    found = dict(grants)
    for key, condition in members.items():
        found[key] = _later(found.get(key, condition), condition)
    return found


def _later(one: Condition | None, other: Condition | None) -> Condition:
    ends = [each.expires_at for each in (one, other) if each is not None]
    known = [each for each in ends if each is not None]
    return Condition(max(known) if len(known) == len(ends) else None)


def _of_securables(rows: Iterable[tuple[str, str | None, bool]]) -> DesiredTuples:
    found: DesiredTuples = {}
    for own_id, parent_id, is_managed in rows:
        if parent_id is not None:
            found[parent_key(own_id, parent_id)] = None
        if is_managed:
            found[managed_access_key(own_id)] = None
    return found


def _of_grants(grants: Iterable[Grant]) -> DesiredTuples:
    """Return the tuples of grants, without removed privileges."""
    return {
        key: Condition(each.expires_at)
        for each in grants
        if each.privilege in privilege_names(each.securable_id.partition(":")[0])
        for key in grant_keys(each.securable_id, each.privilege, user_id=each.user_id, role_id=each.role_id)
    }


def _of_members(members: Iterable[RoleMember]) -> DesiredTuples:
    return {
        member_key(each.role_id, user_id=each.user_id, member_role_id=each.member_role_id): Condition(each.expires_at)
        for each in members
    }
