"""Writes of users: they register themselves, are provisioned by others, and are deleted without a trace of rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors import BadRequest, Conflict
from icekeeper.kernel.sql import lock_row
from icekeeper.kernel.write_transaction import write_transaction
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.identity import Identity
from tenancy.models import Grant, RoleMember, Securable, User
from tenancy.selectors.server import get_server
from tenancy.selectors.users import require_for_user, user_not_found
from tenancy.services.access_tokens import revoke_tokens_of
from tenancy.services.registered_users import registered_users
from tenancy.user_ids import has_hidden_characters, require_user_id

LONGEST_NAME, LONGEST_EMAIL = 255, 320
"""Characters."""

_CREATED = User.Provenance.CREATE_ENDPOINT


class MissingUserId(BadRequest):
    wire_type = "MissingUserId"


class MissingUserName(BadRequest):
    wire_type = "MissingUserName"


class MissingUserType(BadRequest):
    wire_type = "MissingUserType"


class EmptyName(BadRequest):
    wire_type = "EmptyName"


class UserExists(Conflict):
    wire_type = "UserAlreadyExists"


@dataclass(frozen=True, slots=True)
class _Person:
    """What is to be known of a user. An empty `email` is none."""

    user_id: str
    name: str
    email: str
    user_type: str


def register_user(
    *,
    actor: Actor,
    user_id: str | None = None,
    name: str | None = None,
    email: str | None = None,
    user_type: str | None = None,
    update_if_exists: bool = False,
) -> tuple[User, bool]:
    """The user `user_id`, by default the caller, and whether they are new. One that was deleted is new again.

    What is not given of the caller comes from the token. Raises `Forbidden` (403) for others without the right to
    provision users; `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName` and what
    `tenancy.user_ids.require_user_id` raises (400); `UserExists` (409) unless `update_if_exists`.
    """
    person = _described(actor, user_id, name, email, user_type)
    return _put(person, by=_CREATED, if_there="update" if update_if_exists else "refuse")


def register_principal(*, actor: Actor, name: str | None, email: str | None, user_type: str | None) -> User:
    """The row of the user who acts, whatever role is assumed. What is given counts, then what is known, then the token.

    Raises `EmptyName`, `BadRequest` (400) for what cannot be stored.
    """
    user, is_new = _put(_described(actor, None, name, email, user_type), by=_CREATED, if_there="complete")
    given = {"name": name, "email": email, "user_type": user_type}
    changed = {field: value for field, value in given.items() if value is not None and value != getattr(user, field)}
    if changed and not is_new:
        for field, value in changed.items():
            setattr(user, field, value)
        user.last_updated_with = _CREATED
        user.save()
    return user


def register_caller(*, actor: Actor) -> None:
    """Make sure that whoever calls is registered; costs nothing for one who was seen here within the last minute.

    A row without a name takes name and mail from the token. Nothing is done for callers that no token speaks for, and
    in maintenance mode.
    """
    identity = actor.identity
    if identity is None or registered_users.holds(identity.user_id):
        return
    if maintenance.is_read_only():
        return
    require_user_id(identity.user_id)
    known = User.objects.filter(pk=identity.user_id).values_list("name", "deleted_at").first()
    if known is None or known[1] is not None or (not known[0] and identity.name):
        person = _Person(identity.user_id, _token_name(identity), _token_email(identity), identity.user_type)
        _put(person, by=User.Provenance.CONFIG_CALL_CREATION, if_there="complete")
    registered_users.add(identity.user_id)


def update_user(*, actor: Actor, user_id: str, name: str, email: str | None, user_type: str) -> None:
    """Replace what is known of a user. Raises `UserNotFound` (404), `EmptyName`, `BadRequest` (400)."""
    require_for_user(actor, Can.UPDATE, user_id)
    person = _Person(user_id, _checked_name(name), _checked_email(email), user_type)
    with write_transaction():
        user = _lock(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        _write(user, person, by=User.Provenance.UPDATE_ENDPOINT)


def delete_user(*, actor: Actor, user_id: str) -> None:
    """End a user and all that they may do: memberships, grants and access tokens. Raises `UserNotFound` (404).

    The row stays, since others name who it was. If the user comes again, it is a new beginning without rights.
    """
    require_for_user(actor, Can.DELETE, user_id)
    at = now()
    with write_transaction():
        user = _lock(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        RoleMember.objects.filter(user_id=user_id).delete()
        Grant.objects.filter(user_id=user_id).delete()
        revoke_tokens_of(user_id=user_id)
        rows = User.objects.filter(pk=user_id)
        rows.update(deleted_at=at, updated_at=at, password=make_password(None))
    registered_users.forget(user_id)


def _described(
    actor: Actor, user_id: str | None, name: str | None, email: str | None, user_type: str | None
) -> _Person:
    if user_id is None:
        if actor.user_id is None:
            raise MissingUserId("Nobody is known who asks, so the id of the user must be given")
        user_id = actor.user_id
    require_user_id(user_id)
    own = actor.identity
    if user_id != actor.user_id:
        require(actor, Can.PROVISION_USERS, Securable.Type.SERVER, get_server().server_id)
        if name is None:
            raise MissingUserName("The name of another user must be given")
        if user_type is None:
            raise MissingUserType("The type of another user must be given")
        own = None
    known_name = _token_name(own) if own else _nameless(user_id)
    known_email = _token_email(own) if own else ""
    return _Person(
        user_id,
        known_name if name is None else _checked_name(name),
        known_email if email is None else _checked_email(email),
        user_type or (own.user_type if own else User.Type.HUMAN.value),
    )


def _put(
    person: _Person, *, by: User.Provenance, if_there: Literal["refuse", "update", "complete"]
) -> tuple[User, bool]:
    """Write the row of a user: a new one, one that was deleted, or, as told, one that is there."""
    try:
        with write_transaction():
            return _put_once(person, by, if_there)
    except IntegrityError:  # another request made the row in between
        with write_transaction():
            return _put_once(person, by, if_there)


def _put_once(person: _Person, by: User.Provenance, if_there: str) -> tuple[User, bool]:
    user = _lock(person.user_id)
    if user is None:
        user = User(id=person.user_id, name=person.name, email=person.email, user_type=person.user_type)
        user.last_updated_with = by
        user.set_unusable_password()
        user.save(force_insert=True)
        return user, True
    if user.deleted_at is not None:
        user.deleted_at = user.last_login = None
        user.created_at = now()
        _write(user, person, by=by)
        return user, True
    if if_there == "refuse":
        raise UserExists(f"User exists already: {person.user_id}")
    if if_there == "update":
        _write(user, person, by=by)
    elif not user.name:
        _write(user, _Person(user.pk, person.name, user.email or person.email, user.user_type), by=by)
    return user, False


def _write(user: User, person: _Person, *, by: User.Provenance) -> None:
    user.name, user.email, user.user_type = person.name, person.email, person.user_type
    user.last_updated_with = by
    user.save()


def _lock(user_id: str) -> User | None:
    return lock_row(User, "id = %s", [user_id])


def _checked_name(name: str) -> str:
    if not name.strip():
        raise EmptyName("The name of a user must not be empty")
    if len(name) > LONGEST_NAME:
        raise BadRequest(f"name: longer than {LONGEST_NAME} characters")
    if has_hidden_characters(name):
        raise BadRequest("name: must not hold control characters")
    return name


def _checked_email(email: str | None) -> str:
    if not email or not email.strip():
        return ""
    if len(email) > LONGEST_EMAIL:
        raise BadRequest(f"email: longer than {LONGEST_EMAIL} characters")
    if has_hidden_characters(email):
        raise BadRequest("email: must not hold control characters")
    return email


def _token_name(identity: Identity) -> str:
    """Whatever the token says, it must not keep its user out: what cannot be stored is left out of it."""
    return _storable(identity.name, LONGEST_NAME) or _nameless(identity.user_id)


def _token_email(identity: Identity) -> str:
    return _storable(identity.email, LONGEST_EMAIL)


def _storable(text: str | None, longest: int) -> str:
    return "".join(character for character in text or "" if not has_hidden_characters(character))[:longest].strip()


def _nameless(user_id: str) -> str:
    return f"Nameless App with ID {user_id}"[:LONGEST_NAME]
