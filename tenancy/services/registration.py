"""Registration of users: on their first call, when they return after deletion, and when grants or roles name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from django.db import IntegrityError

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from icekeeper.kernel.names import hidden_character
from tenancy import maintenance
from tenancy.actor import (
    OWN_PROVIDERS,
    Actor,
    AuthenticationFailed,
    Identity,
    InvalidUserId,
    require_new_user_id,
    require_user_id,
)
from tenancy.authn.providers import is_identity_provider
from tenancy.authn.requests import KnownIds
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import AccessToken, User
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX

CACHE_SECONDS: Final = 60.0


registered_users: Final[KnownIds[str]] = KnownIds(seconds=CACHE_SECONDS)
"""Users who are registered and not deleted."""


MAX_NAME_LENGTH, MAX_EMAIL_LENGTH = 255, 320
"""Characters."""

CREATED = User.Provenance.CREATE_ENDPOINT


class MissingUserId(BadRequest):
    wire_type = "MissingUserId"


class EmptyName(BadRequest):
    wire_type = "EmptyName"


class ServiceAccountIsNamed(BadRequest):
    """The name and type of a service account cannot change: it must not impersonate another user."""

    wire_type = "ServiceAccountIsNamed"


class UserExists(Conflict):
    wire_type = "UserAlreadyExists"


@dataclass(frozen=True, slots=True)
class UserProfile:
    """Stored attributes of a user. An empty `email` means none; `origin` is the source of name and email.

    `own_token` is the identity in the server's own token of this user. Such a token requires an existing user and
    never registers one.
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
    """Register the acting user, whatever role is assumed, and return their row.

    Arguments take precedence over stored values, and stored values over the token. Raises `EmptyName`, `BadRequest`
    (400) for values that cannot be stored, `AuthenticationFailed` (401) for an expired or revoked access token.
    """
    profile = own_profile(actor, name=name, email=email, user_type=user_type)
    user, is_new = put_user(profile, actor=actor, by=CREATED, if_exists="keep")
    wanted = UserProfile(
        user.pk,
        user.name if name is None else profile.name,
        user.email if email is None else profile.email,
        user.user_type if user_type is None else profile.user_type,
        User.Origin(user.origin) if name is None and email is None else User.Origin.ADMINISTRATOR,
    )
    if not is_new and (wanted.name, wanted.email, wanted.user_type) != (user.name, user.email, user.user_type):
        with change(actor) as tx:
            write_profile(user, wanted, by=CREATED)
            tx.record(Change.USER_UPDATED, subject=user.pk)
    return user


def register_caller(*, actor: Actor) -> None:
    """Register the caller if they have no row; no statement for callers that this process saw within the last minute.

    Name and email come from the token if the row has no name, or if an identity provider issued the token and the
    stored values were claimed by the user. Does nothing for callers without a token and in maintenance mode. Raises
    `AuthenticationFailed` (401) for an expired or revoked access token.
    """
    identity = actor.identity
    if identity is None or registered_users.contains(identity.user_id):
        return
    if maintenance.is_read_only():
        return
    require_user_id(identity.user_id)
    known = User.objects.filter(pk=identity.user_id).values_list("name", "deleted_at", "origin").first()
    if known is None or known[1] is not None or not known[0]:
        put_user(own_profile(actor), actor=actor, by=User.Provenance.CONFIG_CALL_CREATION, if_exists="keep")
    elif known[2] == User.Origin.USER and is_named_by_provider(identity):
        _replace_unproven_name(actor, own_profile(actor))
    registered_users.add(identity.user_id)


def is_named_by_provider(identity: Identity) -> bool:
    """Return whether the name in this token comes from an identity provider; own tokens repeat the stored name."""
    is_of_provider = identity.access_token_id is None and identity.user_id.partition("~")[0] not in OWN_PROVIDERS
    return is_of_provider and bool(_storable(identity.name, MAX_NAME_LENGTH))


def _replace_unproven_name(actor: Actor, profile: UserProfile) -> None:
    """Replace name and email, also by no email: users may have claimed them before tokens provided names."""
    with change(actor) as tx:
        user = lock_user(profile.user_id)
        if user is not None and user.deleted_at is None and user.origin == User.Origin.USER:
            proven = replace(profile, user_type=user.user_type)
            write_profile(user, proven, by=User.Provenance.CONFIG_CALL_CREATION)
            tx.record(Change.USER_UPDATED, subject=user.pk)


def own_profile(
    actor: Actor, *, name: str | None = None, email: str | None = None, user_type: str | None = None
) -> UserProfile:
    """Return the profile of the acting user; attributes that are not given come from the token.

    Raises `MissingUserId` (400) for anonymous callers, `EmptyName`, `BadRequest` and the errors of
    `require_user_id` (400).
    """
    if actor.user_id is None:
        raise MissingUserId("The caller is anonymous, so the id of the user must be given", field="id")
    user_id, own = require_user_id(actor.user_id), actor.identity
    known_name = own and _storable(own.name, MAX_NAME_LENGTH)
    known_email = own and _storable(own.email, MAX_EMAIL_LENGTH)
    known_type = own.user_type if own else User.Type.HUMAN.value
    return UserProfile(
        user_id,
        (known_name or _nameless(user_id)) if name is None else checked_name(name),
        (known_email or "") if email is None else checked_email(email),
        user_type or known_type,
        User.Origin.TOKEN if name is None and email is None else User.Origin.USER,
        own_token=own if own and own.access_token_id is not None else None,
    )


def put_user(
    profile: UserProfile,
    *,
    actor: Actor,
    by: User.Provenance,
    if_exists: Literal["refuse", "update", "keep"],
) -> tuple[User, bool]:
    """Create or restore a user, or handle an existing one as `if_exists` says; return it and whether it is new.

    Raises `UserExists` (409) for an existing user with `if_exists="refuse"`, `AuthenticationFailed` (401) for an
    expired or revoked access token, `InvalidUserId` (400) for a new user with an id that cannot be registered.
    """
    try:
        return _put_in_transaction(profile, actor, by, if_exists)
    except IntegrityError:  # another request created the row in between
        return _put_in_transaction(profile, actor, by, if_exists)


def _put_in_transaction(profile: UserProfile, actor: Actor, by: User.Provenance, if_exists: str) -> tuple[User, bool]:
    with change(actor) as tx:
        user, is_new = _put_once(profile, by, if_exists)
        if is_new or if_exists == "update":
            tx.record(Change.USER_CREATED if is_new else Change.USER_UPDATED, subject=user.pk)
        return user, is_new


def _put_once(profile: UserProfile, by: User.Provenance, if_exists: str) -> tuple[User, bool]:
    user = lock_user(profile.user_id)
    if profile.own_token is not None:
        _require_live(profile.own_token, user)
    is_registered = user is not None and user.deleted_at is None and user.has_called
    if not is_registered:
        require_new_user_id(profile.user_id)
    if user is None:
        user = User(id=profile.user_id, name=profile.name, email=profile.email, user_type=profile.user_type)
        user.last_updated_with, user.origin = by, profile.origin
        user.set_unusable_password()
        user.save(force_insert=True)
        return user, True
    if not is_registered:
        user.deleted_at = user.last_login = None
        user.created_at = now()
        write_profile(user, profile, by=by)
        return user, True
    if if_exists == "refuse":
        raise UserExists(f"User exists already: {profile.user_id}")
    if if_exists == "update":
        write_profile(user, profile, by=by)
    return user, False


def _require_live(token: Identity, user: User | None) -> None:
    """Recheck a token, which may have been revoked or expired since its verification was cached.

    Locks the token's row after that of the user, which serializes this with the deletion of the user.
    """
    row = lock_row(AccessToken, "id = %s", [token.access_token_id])
    is_live = row is not None and row.revoked_at is None and row.expires_at > now()
    if not is_live or user is None or user.deleted_at is not None:
        raise AuthenticationFailed("The token has expired or was revoked")


def write_profile(user: User, profile: UserProfile, *, by: User.Provenance) -> None:
    """Replace the attributes of a user whose row is locked. Raises `ServiceAccountIsNamed` (400)."""
    is_renamed = (profile.name, profile.user_type) != (user.name, user.user_type)
    if is_renamed and user.pk.startswith(SERVICE_ACCOUNT_PREFIX):
        raise ServiceAccountIsNamed(f"{user.pk} is a service account, whose name and type do not change")
    user.name, user.email, user.user_type = profile.name, profile.email, profile.user_type
    user.last_updated_with, user.origin = by, profile.origin
    user.save()


def lock_user(user_id: str) -> User | None:
    return lock_row(User, "id = %s", [user_id])


def checked_name(name: str) -> str:
    """Raises `EmptyName`, `BadRequest` (400)."""
    if not name.strip():
        raise EmptyName("The name of a user must not be empty", field="name")
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"name: longer than {MAX_NAME_LENGTH} characters", field="name")
    if hidden_character(name) is not None:
        raise BadRequest("name: must not contain control characters", field="name")
    return name


def checked_email(email: str | None) -> str:
    """Return a valid address, empty for none. Raises `BadRequest` (400)."""
    if not email or not email.strip():
        return ""
    if len(email) > MAX_EMAIL_LENGTH:
        raise BadRequest(f"email: longer than {MAX_EMAIL_LENGTH} characters", field="email")
    if hidden_character(email) is not None:
        raise BadRequest("email: must not contain control characters", field="email")
    return email


def _storable(text: str | None, max_length: int) -> str:
    """Remove what cannot be stored from a value of a token: such a value must not lock its user out."""
    return "".join(character for character in text or "" if hidden_character(character) is None)[:max_length].strip()


def _nameless(user_id: str) -> str:
    return f"Nameless App with ID {user_id}"[:MAX_NAME_LENGTH]


def lock_users(user_ids: Iterable[str]) -> set[str]:
    """Lock the rows of users who were not deleted, in the order of their ids, and return their ids."""
    return {user_id for user_id, is_deleted in _lock(user_ids).items() if not is_deleted}


def lock_or_add_users(user_ids: Collection[str], not_found: type[CatalogError]) -> None:
    """Lock the rows of users against deletion, and add rows for users who have not called yet.

    A deleted user is restored without attributes. New rows are written after all others are locked, in the order of
    their ids. Raises `not_found` for an unknown user whose id belongs to no configured identity provider, and
    `InvalidUserId` (400) for an invalid id.
    """
    rows = _lock(user_ids)
    unseen = sorted(user_id for user_id in user_ids if rows.get(user_id, True))
    for user_id in unseen:
        _require_of_provider(user_id, not_found)
    new = [user_id for user_id in unseen if user_id not in rows]
    if new:
        User.objects.bulk_create([_unseen(user_id) for user_id in new], ignore_conflicts=True)
        rows |= _lock(new)  # another request may have added them, and deleted them again
    deleted = [user_id for user_id in unseen if rows[user_id]]
    if deleted:
        User.objects.filter(pk__in=deleted).update(
            name="",
            name_key="",
            email="",
            deleted_at=None,
            last_login=None,
            created_at=now(),
            last_updated_with=User.Provenance.ROLE_PROVIDER,
        )


def _lock(user_ids: Iterable[str]) -> dict[str, bool]:
    """Lock existing rows and return, by user id, whether the user is deleted."""
    rows = User.objects.filter(pk__in=list(user_ids)).order_by("pk").select_for_update(no_key=True)
    return {user_id: deleted_at is not None for user_id, deleted_at in rows.values_list("pk", "deleted_at")}


def _require_of_provider(user_id: str, not_found: type[CatalogError]) -> None:
    provider = user_id.partition("~")[0]
    if not is_identity_provider(provider):
        raise not_found(
            f"User does not exist: {user_id[:200]}. Users are accepted before their first call only if their id begins "
            "with that of a configured identity provider"
        )
    require_new_user_id(user_id)
    if user_id != user_id.strip():  # possible at a provider, but here most likely a typing error
        raise InvalidUserId("The id of a user who never called must not end with a space")


def _unseen(user_id: str) -> User:
    user = User(id=user_id, last_updated_with=User.Provenance.ROLE_PROVIDER)
    user.set_unusable_password()
    return user
