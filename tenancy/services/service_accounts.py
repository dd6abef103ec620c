"""Service accounts: users of type application that exist on this server only."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db import IntegrityError

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import Conflict, NotFound
from icekeeper.kernel.ids import new_id, parse_id
from icekeeper.kernel.names import name_key, require_description, require_trimmed_name
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.authn.own_tokens.stored_tokens import revocation_transaction
from tenancy.authz.actions import Can
from tenancy.authz.openfga.outbox import enqueue_user_deletion
from tenancy.authz.permission_epoch import bump_permission_epoch
from tenancy.models import RoleMember, ServiceAccount, User
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.access_tokens import require_permission_on_server
from tenancy.services.access_tokens import revoke_tokens_of
from tenancy.services.administrators import administrated_by, keeping_administrators, lock_roles
from tenancy.services.automatic_grants import delete_grants_of_user, rights_of_user
from tenancy.services.registration import lock_user

MAX_DESCRIPTION_LENGTH: Final = 1000


class ServiceAccountExists(Conflict):
    wire_type = "ServiceAccountAlreadyExists"


class ServiceAccountNotFound(NotFound):
    wire_type = "ServiceAccountNotFound"


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
        with write_transaction():
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
            record(Event.SERVICE_ACCOUNT_CREATED, actor=actor, subject=account.user_id, named=checked)
    except IntegrityError:
        raise ServiceAccountExists(f"A service account named {checked!r} already exists", field="name") from None
    return account


def delete_service_account(*, actor: Actor, account_id: UUID) -> None:
    """Delete a service account with its grants and memberships, and revoke its tokens; its user row stays as deleted.

    Raises `ServiceAccountNotFound` (404), `LastAdministrator` (409).
    """
    require_permission_on_server(actor, Can.DELETE_USERS)
    user_id = f"{SERVICE_ACCOUNT_PREFIX}{account_id}"
    with revocation_transaction():
        lock_user(user_id)  # before any securable, in the lock order of grants
        if not ServiceAccount.objects.existing().filter(pk=account_id).exists():
            raise ServiceAccountNotFound(f"Service account does not exist: {account_id}")
        lock_roles(user_id=user_id)
        with keeping_administrators(administrated_by(user_id=user_id)):
            User.objects.filter(pk=user_id).update(deleted_at=now())
            revoked_tokens = revoke_tokens_of(user_id=user_id)
            revoked = rights_of_user(user_id)
            enqueue_user_deletion(user_id)
            RoleMember.objects.filter(user_id=user_id).delete()
            delete_grants_of_user(user_id)
        record(Event.SERVICE_ACCOUNT_DELETED, actor=actor, subject=user_id, tokens_revoked=revoked_tokens, **revoked)
        bump_permission_epoch()
