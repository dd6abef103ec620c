"""Changes of where clients and server get at the files of a warehouse. The files themselves never move."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

from icekeeper.kernel.write_transaction import write_transaction
from storage.credentials.credential import Credential
from storage.credentials.kinds import read_credential
from storage.models import Warehouse
from storage.profiles.kinds import read_profile
from storage.profiles.place import place_of
from storage.profiles.profile import Profile
from storage.secrets.keeping import NewSecret, forget_secret, new_secret
from storage.secrets.stores import secret_store
from storage.services.occupancy import lock_places, require_free_place
from storage.services.warehouse_changes import count_change, locked_for, look_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can


def update_storage(
    *,
    actor: Actor,
    warehouse_id: UUID,
    storage_profile: dict[str, Any],
    storage_credential: dict[str, Any] | None,
) -> Warehouse:
    """Replace the storage profile and the credential; without a credential the warehouse has none from now on.

    A profile without `storage-layout` keeps the one that is there. Raises `IncompatibleProfiles` (400) for another
    type, `UpdateError` (400) when the files would have to move, and what `create_warehouse` raises of both.
    """
    credential = read_new_credential(storage_credential)
    seen = look_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
    read_profile(storage_profile, credential, before=seen.storage_profile)
    with new_credential(credential) as secret, write_transaction():
        lock_places()
        warehouse = locked_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
        profile = read_profile(storage_profile, credential, before=warehouse.storage_profile)
        require_free_place(profile, project_id=warehouse.project_id, owner=warehouse.pk)
        _save(actor, warehouse, profile, credential, secret)
    return warehouse


def update_storage_credential(
    *, actor: Actor, warehouse_id: UUID, storage_credential: dict[str, Any] | None
) -> Warehouse:
    """Replace the credential; None: the warehouse has none from now on. Raises as `update_storage`."""
    credential = read_new_credential(storage_credential)
    seen = look_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
    read_profile(seen.storage_profile, credential)
    with new_credential(credential) as secret, write_transaction():
        warehouse = locked_for(actor=actor, action=Can.UPDATE_STORAGE, warehouse_id=warehouse_id)
        _save(actor, warehouse, read_profile(warehouse.storage_profile, credential), credential, secret)
    return warehouse


def read_new_credential(document: dict[str, Any] | None) -> Credential | None:
    """A credential that is to be stored, which can be. Raises as `read_credential`, `SecretStoreNotConfigured`."""
    if document is None:
        return None
    credential = read_credential(document)
    secret_store().require_ready()
    return credential


def new_credential(credential: Credential | None) -> AbstractContextManager[NewSecret | None]:
    """Around the transaction that saves a warehouse with it, see `new_secret`."""
    return nullcontext() if credential is None else new_secret(credential.revealed())


def keep_credential(warehouse: Warehouse, credential: Credential | None, secret: NewSecret | None) -> None:
    """In the transaction that saves the warehouse: name the new secret, which holds `credential`, forget the former."""
    former = warehouse.secret_id
    warehouse.credential_type = warehouse.secret_id = None
    if credential is not None and secret is not None:
        secret.keep()
        warehouse.credential_type, warehouse.secret_id = credential.credential_type, secret.id
    if former is not None:
        forget_secret(former)


def _save(
    actor: Actor, warehouse: Warehouse, profile: Profile, credential: Credential | None, secret: NewSecret | None
) -> None:
    keep_credential(warehouse, credential, secret)
    former, new = warehouse.storage_profile, profile.as_json()
    members = sorted(each for each in {*former, *new} if former.get(each) != new.get(each))
    warehouse.storage_profile = new
    warehouse.place = place_of(warehouse.storage_profile, warehouse.location)
    told = {"credential_type": warehouse.credential_type, "storage_profile": members}
    count_change(actor, warehouse, "storage_profile", "place", "credential_type", "secret_id", told=told)
