"""Writes of users: they are registered and provisioned by others, and are deleted without a trace of rights."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.hashers import make_password

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.ended_grants import delete_grants_of_user
from tenancy.authz.openfga.outbox import enqueue_user_deletion
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.authz.permissions import is_allowed, require_permission
from tenancy.models import RoleMember, Securable, User
from tenancy.selectors.server import get_server
from tenancy.selectors.users import require_for_user, user_not_found, users
from tenancy.services.access_tokens import revoke_tokens_of
from tenancy.services.administrators import administrated_by, keeping_administrators, lock_roles
from tenancy.services.cascaded_grants import rights_of_user
from tenancy.services.registered_users import registered_users
from tenancy.services.registration import (
    CREATED,
    Person,
    checked_email,
    checked_name,
    is_named_by_provider,
    lock_user,
    own_person,
    put_user,
    write_person,
)
from tenancy.user_ids import OWN_PROVIDERS, InvalidUserId, require_new_user_id


class MissingUserName(BadRequest):
    wire_type = "MissingUserName"


class MissingUserType(BadRequest):
    wire_type = "MissingUserType"


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

    What is not given of the caller comes from the token; so do name and mail of users of an identity provider whatever
    is given, unless the caller may update users. Raises `Forbidden` (403) for others without the right to
    provision users; `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName` and what
    `tenancy.user_ids.require_new_user_id` raises (400); `UserExists` (409) unless `update_if_exists`;
    `AuthenticationFailed` (401) for oneself with an access token that has ended.
    """
    if user_id is None or user_id == actor.user_id:
        person = _oneself(actor, name, email, user_type)
    else:
        person = _somebody_else(actor, user_id, name, email, user_type)
    return put_user(person, by=CREATED, if_there="update" if update_if_exists else "refuse", told_of=actor)


def update_user(*, actor: Actor, user_id: str, name: str, email: str | None, user_type: str) -> None:
    """Replace what is known of a user; of oneself as `register_user`.

    Raises `UserNotFound` (404), `EmptyName`, `BadRequest` (400).
    """
    require_for_user(actor, Can.UPDATE, user_id)
    if actor.user_id == user_id:
        person = _oneself(actor, name, email or "", user_type)
    else:
        origin = User.Origin.ADMINISTRATOR
        person = Person(user_id, checked_name(name), checked_email(email), user_type, origin)
    with write_transaction():
        user = lock_user(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        write_person(user, person, by=User.Provenance.UPDATE_ENDPOINT)
        record(Event.USER_UPDATED, actor=actor, subject=user_id)


def delete_user(*, actor: Actor, user_id: str) -> None:
    """End a user and all that they may do: memberships, grants and access tokens.

    The row stays, since others name who it was. If the user comes again, it is a new beginning without rights. Raises
    `UserNotFound` (404), `LastAdministrator` (409).
    """
    require_for_user(actor, Can.DELETE, user_id)
    at = now()
    with write_transaction():
        user = lock_user(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        lock_roles(user_id=user_id)
        with keeping_administrators(administrated_by(user_id=user_id)):
            gone = rights_of_user(user_id)
            enqueue_user_deletion(user_id)
            RoleMember.objects.filter(user_id=user_id).delete()
            delete_grants_of_user(user_id)
            ended = revoke_tokens_of(user_id=user_id)
            rows = User.objects.filter(pk=user_id)
            rows.update(deleted_at=at, updated_at=at, password=make_password(None))
        record(Event.USER_DELETED, actor=actor, subject=user_id, tokens_revoked=ended, **gone)
        bump_permission_epoch()
    registered_users.forget(user_id)


def _somebody_else(actor: Actor, user_id: str, name: str | None, email: str | None, user_type: str | None) -> Person:
    require_new_user_id(user_id)
    if user_id != user_id.strip():  # a provider may have such users; who types one has mistyped it
        raise InvalidUserId("The id of another user must not end with a space")
    require_permission(actor, Can.PROVISION_USERS, Securable.Type.SERVER, get_server().server_id)
    if name is None:
        raise MissingUserName("The name of another user must be given")
    if user_type is None:
        raise MissingUserType("The type of another user must be given")
    return Person(user_id, checked_name(name), checked_email(email), user_type, User.Origin.ADMINISTRATOR)


def _oneself(actor: Actor, name: str | None, email: str | None, user_type: str | None) -> Person:
    """What is to be known of the caller, who may say their name and mail if no identity provider knows them.

    Else others could take them for somebody else. What the token does not say stays as it is stored. Who may update
    users may say their own name, too.
    """
    given = own_person(actor, name=name, email=email, user_type=user_type)
    if actor.identity is None or given.user_id.partition("~")[0] in OWN_PROVIDERS:
        return given
    by_token = own_person(actor, user_type=user_type)
    is_proven = is_named_by_provider(actor.identity)
    is_renamed = (given.name, given.email) != (by_token.name, by_token.email)
    if is_proven and not is_renamed:
        return by_token
    if is_renamed and is_allowed(actor, Can.UPDATE_USERS, Securable.Type.SERVER, get_server().server_id):
        return replace(given, origin=User.Origin.ADMINISTRATOR)
    stored = users().filter(pk=given.user_id).first()
    if stored is None or not stored.has_called:
        return by_token
    if not is_proven:
        return replace(by_token, name=stored.name, email=stored.email, origin=User.Origin(stored.origin))
    kept_email = "" if stored.origin == User.Origin.USER else stored.email
    return replace(by_token, email=by_token.email or kept_email)
