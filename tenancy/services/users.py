"""Services that register, provision, update, block and delete users, and that create and delete service accounts.

Service accounts are users of type application that exist on this server only.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import IntegrityError
from django.utils.module_loading import import_string

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.names import name_key, require_description, require_trimmed_name
from tenancy.actor import (
    OWN_PROVIDERS,
    Actor,
    InvalidUserId,
    require_local_user_id,
    require_new_user_id,
    require_user_id,
)
from tenancy.authz.actions import Can
from tenancy.authz.openfga.outbox import enqueue_user_deletion
from tenancy.authz.permissions import is_allowed, require_permission
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import RoleMember, ServiceAccount, User
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.projects import server_ref
from tenancy.selectors.users import (
    require_permission_on_server,
    require_permission_on_user,
    service_account_not_found,
    user_not_found,
)
from tenancy.services.access_tokens import revoke_tokens_of
from tenancy.services.administrators import administrated_by, keeping_administrators, lock_roles
from tenancy.services.automatic_grants import delete_grants_of_user, rights_of_user
from tenancy.services.registration import (
    CREATED,
    UserProfile,
    checked_email,
    checked_name,
    is_named_by_provider,
    lock_user,
    own_profile,
    put_user,
    registered_users,
    write_profile,
)


class MissingUserName(BadRequest):
    wire_type = "MissingUserName"


class MissingUserType(BadRequest):
    wire_type = "MissingUserType"


class UserChanged(Conflict):
    wire_type = "UserChanged"


def register_user(
    *,
    actor: Actor,
    user_id: str | None = None,
    name: str | None = None,
    email: str | None = None,
    user_type: str | None = None,
    update_if_exists: bool = False,
) -> tuple[User, bool]:
    """Register the user `user_id`, by default the caller; return the row and whether it is new or was restored.

    Attributes of the caller that are not given come from the token; so do name and email of users of an identity
    provider in any case, unless the caller may update users. Raises `Forbidden` (403) for another user without the
    right to provision users; `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName` and the errors of
    `tenancy.actor.require_new_user_id` (400); `UserExists` (409) unless `update_if_exists`; `AuthenticationFailed`
    (401) for the caller's own expired or revoked access token.
    """
    if user_id is None or user_id == actor.user_id:
        profile = _caller_profile(actor, name, email, user_type)
    else:
        profile = _other_profile(actor, user_id, name, email, user_type)
    return put_user(profile, actor=actor, by=CREATED, if_exists="update" if update_if_exists else "refuse")


def update_user(
    *,
    actor: Actor,
    user_id: str,
    name: str,
    email: str | None,
    user_type: str,
    unchanged_since: datetime | None = None,
) -> None:
    """Replace the attributes of a user; for the caller with the precedence of `register_user`.

    Raises `UserNotFound` (404), `EmptyName`, `BadRequest` (400), and `UserChanged` (409) if `updated_at` of the user is
    not `unchanged_since`.
    """
    require_permission_on_user(actor, Can.UPDATE, user_id)
    if actor.user_id == user_id:
        profile = _caller_profile(actor, name, email or "", user_type)
    else:
        origin = User.Origin.ADMINISTRATOR
        profile = UserProfile(user_id, checked_name(name), checked_email(email), user_type, origin)
    with change(actor) as tx:
        user = lock_user(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        if unchanged_since is not None and user.updated_at != unchanged_since:
            raise UserChanged("The user was changed meanwhile")
        write_profile(user, profile, by=User.Provenance.UPDATE_ENDPOINT)
        tx.record(Change.USER_UPDATED, subject=user_id)


def delete_user(*, actor: Actor, user_id: str) -> None:
    """Delete a user with their memberships and grants, and revoke their access tokens.

    The row stays as deleted, since other rows refer to it. A user who returns is registered again without grants.
    Raises `UserNotFound` (404), `LastAdministrator` (409).
    """
    require_permission_on_user(actor, Can.DELETE, user_id)
    at = now()
    with change(actor) as tx:
        user = lock_user(user_id)
        if user is None or user.deleted_at is not None:
            raise user_not_found(user_id)
        lock_roles(user_id=user_id)
        with keeping_administrators(administrated_by(user_id=user_id)):
            revoked = rights_of_user(user_id)
            enqueue_user_deletion(user_id)
            RoleMember.objects.filter(user_id=user_id).delete()
            delete_grants_of_user(user_id)
            revoked_tokens = revoke_tokens_of(user_id=user_id)
            rows = User.objects.filter(pk=user_id)
            rows.update(deleted_at=at, updated_at=at, password=make_password(None))
        _call_hooks(user_id)
        tx.record(Change.USER_DELETED, subject=user_id, tokens_revoked=revoked_tokens, **revoked)
    registered_users.evict(user_id)


def _other_profile(
    actor: Actor, user_id: str, name: str | None, email: str | None, user_type: str | None
) -> UserProfile:
    require_new_user_id(user_id)
    if user_id != user_id.strip():  # possible at a provider, but here most likely a typing error
        raise InvalidUserId("The id of another user must not end with a space", field="id")
    require_permission(actor, Can.PROVISION_USERS, *server_ref())
    if name is None:
        raise MissingUserName("The name of another user must be given", field="name")
    if user_type is None:
        raise MissingUserType("The type of another user must be given", field="user-type")
    return UserProfile(user_id, checked_name(name), checked_email(email), user_type, User.Origin.ADMINISTRATOR)


def _caller_profile(actor: Actor, name: str | None, email: str | None, user_type: str | None) -> UserProfile:
    """Return the profile to store for the caller, who may choose name and email only without an identity provider.

    Otherwise a caller could impersonate another user. Attributes that the token lacks keep their stored values.
    Callers who may update users may also choose their own name.
    """
    given = own_profile(actor, name=name, email=email, user_type=user_type)
    if actor.identity is None or given.user_id.partition("~")[0] in OWN_PROVIDERS:
        return given
    by_token = own_profile(actor, user_type=user_type)
    is_proven = is_named_by_provider(actor.identity)
    is_renamed = (given.name, given.email) != (by_token.name, by_token.email)
    if is_proven and not is_renamed:
        return by_token
    if is_renamed and is_allowed(actor, Can.UPDATE_USERS, *server_ref()):
        return replace(given, origin=User.Origin.ADMINISTRATOR)
    stored = User.objects.existing().filter(pk=given.user_id).first()
    if stored is None or not stored.has_called:
        return by_token
    if not is_proven:
        return replace(by_token, name=stored.name, email=stored.email, origin=User.Origin(stored.origin))
    kept_email = "" if stored.origin == User.Origin.USER else stored.email
    return replace(by_token, email=by_token.email or kept_email)


def block_user(*, actor: Actor, user_id: str) -> bool:
    """Reject all tokens of a user; return whether the user was not blocked before. Grants and tokens are kept.

    The last administrator can be blocked, too: blocking must not depend on others. A deleted user can be blocked and
    then cannot register again. Tokens of this server are rejected immediately in this process and within 5 seconds
    elsewhere, those of identity providers within a minute, at their next verification.
    Raises `InvalidUserId` (400), `UserNotFound` (404).
    """
    return _set_active(actor, user_id, is_active=False)


def unblock_user(*, actor: Actor, user_id: str) -> bool:
    """Unblock a user; return whether the user was blocked. Raises as `block_user`."""
    return _set_active(actor, user_id, is_active=True)


def _set_active(actor: Actor, user_id: str, *, is_active: bool) -> bool:
    require_user_id(user_id)
    require_permission_on_user(actor, Can.DELETE, user_id)
    with change(actor) as tx:
        rows = User.objects.filter(pk=user_id)
        changed = bool(rows.exclude(is_active=is_active).update(is_active=is_active))
        if not changed and not rows.exists():
            raise user_not_found(user_id)
        if changed and not is_active:
            _call_hooks(user_id)
        if changed:
            tx.record(Change.USER_UNBLOCKED if is_active else Change.USER_BLOCKED, subject=user_id)
    return changed


def _call_hooks(user_id: str) -> None:
    """Call `settings.BLOCKED_USER_HOOKS`, in the transaction of the change."""
    for path in settings.BLOCKED_USER_HOOKS:
        import_string(path)(user_id)


LOCAL_PREFIX: Final = "local~"


def create_local_user(*, actor: Actor, user_id: str) -> bool:
    """Create the user `local~<name>` unless it exists; return whether it was created or restored.

    A deleted user is restored without its earlier grants and tokens. Raises `InvalidUserId` (400).
    """
    require_permission_on_server(actor, Can.PROVISION_USERS)
    require_local_user_id(user_id)
    name = user_id.removeprefix(LOCAL_PREFIX)
    with change(actor) as tx:
        _, is_new = User.objects.get_or_create(pk=user_id, defaults={"name": name, "password": make_password(None)})
        is_new = is_new or bool(User.objects.exclude(deleted_at=None).filter(pk=user_id).update(deleted_at=None))
        if is_new:
            tx.record(Change.USER_CREATED, subject=user_id)
    return is_new


MAX_DESCRIPTION_LENGTH: Final = 1000


class ServiceAccountExists(Conflict):
    wire_type = "ServiceAccountAlreadyExists"


def service_account_id(text: str) -> UUID | None:
    """Parse `icekeeper~<uuid>` or a bare UUID; None for anything else."""
    return parse_id(text.removeprefix(SERVICE_ACCOUNT_PREFIX))


def create_service_account(*, actor: Actor, name: object, description: str = "") -> ServiceAccount:
    """Create a service account.

    Raises `ServiceAccountExists` (409), `BadRequest` (400) for an invalid name or too long a description.
    """
    require_permission_on_server(actor, Can.PROVISION_USERS)
    checked = require_trimmed_name(name, "service account name")
    require_description(description, max_length=MAX_DESCRIPTION_LENGTH)
    account_id, at = new_id(), now()
    try:
        with change(actor) as tx:
            ServiceAccount.objects.named(checked).exclude(user__deleted_at=None).delete()
            user = User(id=f"{SERVICE_ACCOUNT_PREFIX}{account_id}", name=checked, user_type=User.Type.APPLICATION)
            user.origin = User.Origin.ADMINISTRATOR
            user.set_unusable_password()
            user.save(force_insert=True)
            account = ServiceAccount.objects.create(
                id=account_id,
                user=user,
                name=checked,
                name_key=name_key(checked),
                description=description,
                created_at=at,
                created_by=actor.user_id or actor.name,
            )
            tx.record(Change.SERVICE_ACCOUNT_CREATED, subject=account.user_id, named=checked)
    except IntegrityError:
        raise ServiceAccountExists(f"A service account named {checked!r} already exists", field="name") from None
    return account


def delete_service_account(*, actor: Actor, account_id: UUID) -> None:
    """Delete a service account with its grants and memberships, and revoke its tokens; its user row stays as deleted.

    Raises `ServiceAccountNotFound` (404), `LastAdministrator` (409).
    """
    require_permission_on_server(actor, Can.DELETE_USERS)
    user_id = f"{SERVICE_ACCOUNT_PREFIX}{account_id}"
    with change(actor) as tx:
        lock_user(user_id)  # before any securable, in the lock order of grants
        if not ServiceAccount.objects.existing().filter(pk=account_id).exists():
            raise service_account_not_found(account_id)
        lock_roles(user_id=user_id)
        with keeping_administrators(administrated_by(user_id=user_id)):
            User.objects.filter(pk=user_id).update(deleted_at=now())
            revoked_tokens = revoke_tokens_of(user_id=user_id)
            revoked = rights_of_user(user_id)
            enqueue_user_deletion(user_id)
            RoleMember.objects.filter(user_id=user_id).delete()
            delete_grants_of_user(user_id)
        tx.record(Change.SERVICE_ACCOUNT_DELETED, subject=user_id, tokens_revoked=revoked_tokens, **revoked)
