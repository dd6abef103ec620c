"""Relation tuples: how rows of ours are named in OpenFGA.

Objects are the ids of securables (`table:<uuid>`), users `user:<id, percent-encoded>`, members of a role
`role:<uuid>#assignee`. Every grant has the condition `unexpired`; one that does not end, ends in the year 9999, since
OpenFGA follows a relation twice that takes tuples with and without, and roles in roles twice at each step.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from tenancy.authz.model import MANAGED_ACCESS, UP
from tenancy.authz.openfga.translation import EXPIRES_AT, UNEXPIRED
from tenancy.authz.openfga.unfolding import implied

ASSIGNEE: Final = "assignee"
EVERYBODY: Final = "user:*"
FOREVER: Final = "9999-12-31T23:59:59Z"
HASHED: Final = "user:sha256="
"""How subjects begin that stand for users whose ids are too long."""
LONGEST_SUBJECT: Final = 512
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
    if len(subject) <= LONGEST_SUBJECT:
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
