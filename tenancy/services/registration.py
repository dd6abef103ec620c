"""Registration of users: callers are registered by their first call, and users who were deleted begin anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from django.db import IntegrityError

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.names import hidden_character
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authentication_errors import AuthenticationFailed
from tenancy.identity import Identity
from tenancy.models import AccessToken, User
from tenancy.models.service_account import USER_ID_PREFIX as SERVICE_ACCOUNT_PREFIX
from tenancy.services.registered_users import registered_users
from tenancy.user_ids import OWN_PROVIDERS, require_new_user_id, require_user_id

MAX_NAME_LENGTH, MAX_EMAIL_LENGTH = 255, 320
"""Characters."""

CREATED = User.Provenance.CREATE_ENDPOINT


class MissingUserId(BadRequest):
    wire_type = "MissingUserId"


class EmptyName(BadRequest):
    wire_type = "EmptyName"


class ServiceAccountIsNamed(BadRequest):
    """A program must not pass for a person, nor for another program."""

    wire_type = "ServiceAccountIsNamed"


class UserExists(Conflict):
    wire_type = "UserAlreadyExists"


@dataclass(frozen=True, slots=True)
class Person:
    """What is to be known of a user. An empty `email` is none. `origin` is who says name and mail.

    `own_token` is what the server's token that speaks for this very user says. Such a token is of a user who is there:
    it registers nobody.
    """

    user_id: str
    name: str
    email: str
    user_type: str
    origin: User.Origin
    own_token: Identity | None = None


def register_principal(
    *, actor: Actor, name: str | None = None, email: str | None = None, user_type: str | None = None
) -> User:
    """The row of the user who acts, whatever role is assumed. What is given counts, then what is known, then the token.

    Raises `EmptyName`, `BadRequest` (400) for what cannot be stored, `AuthenticationFailed` (401) for an access token
    that has ended.
    """
    person = own_person(actor, name=name, email=email, user_type=user_type)
    user, is_new = put_user(person, by=CREATED, if_there="keep")
    wanted = Person(
        user.pk,
        user.name if name is None else person.name,
        user.email if email is None else person.email,
        user.user_type if user_type is None else person.user_type,
        User.Origin(user.origin) if name is None and email is None else User.Origin.ADMINISTRATOR,
    )
    if not is_new and (wanted.name, wanted.email, wanted.user_type) != (user.name, user.email, user.user_type):
        write_person(user, wanted, by=CREATED)
    return user


def register_caller(*, actor: Actor) -> None:
    """Make sure that whoever calls is registered; costs nothing for one who was seen here within the last minute.

    A row without a name takes name and mail from the token, and so does that of a user of an identity provider who is
    not known to have them from the token or an administrator. Nothing is done for callers that no token speaks for, and
    in maintenance mode. Raises `AuthenticationFailed` (401) for an access token that has ended.
    """
    identity = actor.identity
    if identity is None or registered_users.holds(identity.user_id):
        return
    if maintenance.is_read_only():
        return
    require_user_id(identity.user_id)
    known = User.objects.filter(pk=identity.user_id).values_list("name", "deleted_at", "origin").first()
    if known is None or known[1] is not None or not known[0]:
        put_user(own_person(actor), by=User.Provenance.CONFIG_CALL_CREATION, if_there="keep")
    elif known[2] == User.Origin.USER and is_named_by_provider(identity):
        _replace_unproven_name(own_person(actor))
    registered_users.add(identity.user_id)


def is_named_by_provider(identity: Identity) -> bool:
    """Whether an identity provider names the user in this token. Tokens of the server repeat the stored name."""
    is_of_provider = identity.access_token_id is None and identity.user_id.partition("~")[0] not in OWN_PROVIDERS
    return is_of_provider and bool(_storable(identity.name, MAX_NAME_LENGTH))


def _replace_unproven_name(person: Person) -> None:
    """Replace name and mail, the latter also by none: users may have claimed them before names came from tokens."""
    with write_transaction():
        user = lock_user(person.user_id)
        if user is not None and user.deleted_at is None and user.origin == User.Origin.USER:
            proven = replace(person, user_type=user.user_type)
            write_person(user, proven, by=User.Provenance.CONFIG_CALL_CREATION)


def own_person(
    actor: Actor, *, name: str | None = None, email: str | None = None, user_type: str | None = None
) -> Person:
    """Who acts; what is not given comes from the token.

    Raises `MissingUserId` (400) for nobody, `EmptyName`, `BadRequest` and what `require_user_id` raises (400).
    """
    if actor.user_id is None:
        raise MissingUserId("Nobody is known who asks, so the id of the user must be given")
    user_id, own = require_user_id(actor.user_id), actor.identity
    known_name = own and _storable(own.name, MAX_NAME_LENGTH)
    known_email = own and _storable(own.email, MAX_EMAIL_LENGTH)
    known_type = own.user_type if own else User.Type.HUMAN.value
    return Person(
        user_id,
        (known_name or _nameless(user_id)) if name is None else checked_name(name),
        (known_email or "") if email is None else checked_email(email),
        user_type or known_type,
        User.Origin.TOKEN if name is None and email is None else User.Origin.USER,
        own_token=own if own and own.access_token_id is not None else None,
    )


def put_user(
    person: Person,
    *,
    by: User.Provenance,
    if_there: Literal["refuse", "update", "keep"],
    told_of: Actor | None = None,
) -> tuple[User, bool]:
    """Write the row of a user: a new one, one that was deleted, or, as told, one that is there; whether it is new.

    With `told_of`, who did it, it is a change of the administration and is told of as one.

    Raises `UserExists` (409) if told to refuse, `AuthenticationFailed` (401) for an access token that has ended,
    `InvalidUserId` (400) for a new user who is not to be made so.
    """
    try:
        return _put_in_transaction(person, by, if_there, told_of)
    except IntegrityError:  # another request made the row in between
        return _put_in_transaction(person, by, if_there, told_of)


def _put_in_transaction(person: Person, by: User.Provenance, if_there: str, told_of: Actor | None) -> tuple[User, bool]:
    with write_transaction():
        user, is_new = _put_once(person, by, if_there)
        if told_of is not None:
            record(Event.USER_CREATED if is_new else Event.USER_UPDATED, actor=told_of, subject=user.pk)
    return user, is_new


def _put_once(person: Person, by: User.Provenance, if_there: str) -> tuple[User, bool]:
    user = lock_user(person.user_id)
    if person.own_token is not None:
        _require_live(person.own_token, user)
    is_registered = user is not None and user.deleted_at is None and user.has_called
    if not is_registered:
        require_new_user_id(person.user_id)
    if user is None:
        user = User(id=person.user_id, name=person.name, email=person.email, user_type=person.user_type)
        user.last_updated_with, user.origin = by, person.origin
        user.set_unusable_password()
        user.save(force_insert=True)
        return user, True
    if not is_registered:
        user.deleted_at = user.last_login = None
        user.created_at = now()
        write_person(user, person, by=by)
        return user, True
    if if_there == "refuse":
        raise UserExists(f"User exists already: {person.user_id}")
    if if_there == "update":
        write_person(user, person, by=by)
    return user, False


def _require_live(token: Identity, user: User | None) -> None:
    """The verification of a token is remembered for some seconds, in which it and its user may come to their end.

    Locks the token's row, behind that of the user: who deletes the user comes before this or after it.
    """
    row = lock_row(AccessToken, "id = %s", [token.access_token_id])
    is_live = row is not None and row.revoked_at is None and row.expires_at > now()
    if not is_live or user is None or user.deleted_at is not None:
        raise AuthenticationFailed("The token has ended")


def write_person(user: User, person: Person, *, by: User.Provenance) -> None:
    """Replace what is known of a user whose row is locked. Raises `ServiceAccountIsNamed` (400)."""
    is_renamed = (person.name, person.user_type) != (user.name, user.user_type)
    if is_renamed and user.pk.startswith(SERVICE_ACCOUNT_PREFIX):
        raise ServiceAccountIsNamed(f"{user.pk} is a service account, whose name and type do not change")
    user.name, user.email, user.user_type = person.name, person.email, person.user_type
    user.last_updated_with, user.origin = by, person.origin
    user.save()


def lock_user(user_id: str) -> User | None:
    return lock_row(User, "id = %s", [user_id])


def checked_name(name: str) -> str:
    """Raises `EmptyName`, `BadRequest` (400)."""
    if not name.strip():
        raise EmptyName("The name of a user must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"name: longer than {MAX_NAME_LENGTH} characters", field="name")
    if hidden_character(name) is not None:
        raise BadRequest("name: must not hold control characters", field="name")
    return name


def checked_email(email: str | None) -> str:
    """Empty for none. Raises `BadRequest` (400)."""
    if not email or not email.strip():
        return ""
    if len(email) > MAX_EMAIL_LENGTH:
        raise BadRequest(f"email: longer than {MAX_EMAIL_LENGTH} characters", field="email")
    if hidden_character(email) is not None:
        raise BadRequest("email: must not hold control characters", field="email")
    return email


def _storable(text: str | None, longest: int) -> str:
    """Whatever a token says, it must not keep its user out: what cannot be stored is left out of it."""
    return "".join(character for character in text or "" if hidden_character(character) is None)[:longest].strip()


def _nameless(user_id: str) -> str:
    return f"Nameless App with ID {user_id}"[:MAX_NAME_LENGTH]
