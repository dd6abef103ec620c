"""New warehouses."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from storage.io.stores import create_base_folder
from storage.models import Warehouse
from storage.secrets.keeping import NewSecret
from storage.services.location_overlap import lock_locations, name_taken
from storage.services.warehouse_drafts import WarehouseDraft
from storage.services.warehouse_storage import store_credential, storing_credential
from storage.validation.examination import Guard
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.projects import no_such_project
from tenancy.services.creator_grants import grant_creator


def create_warehouse(
    *,
    actor: Actor,
    project: Project,
    name: str,
    storage_profile: dict[str, Any],
    storage_credential: dict[str, Any] | None = None,
    delete_profile: dict[str, Any] | None = None,
    allowed_format_versions: list[int] | None = None,
    default_format_version: int | None = None,
    managed_by: str = Warehouse.ManagedBy.SELF_MANAGED,
) -> Warehouse:
    """Create a warehouse in `project` after its store has passed validation (`storage.validation`).

    Its folder, if it is local, is there on return. Its creator owns it.

    Raises `WarehouseExists` (409) for a taken name, `WarehouseOverlap` (400) when its location is in,
    around or equal to another warehouse's, `BadRequest` for a wrong name, profile, credential, delete profile or
    format policy, `SecretStoreNotConfigured` (412), `InstanceAdminRequired` (403) for a managed
    one, and `StorageValidationFailed`.
    """
    draft = WarehouseDraft(
        actor=actor,
        project=project,
        name=name,
        storage_profile=storage_profile,
        storage_credential=storage_credential,
        delete_profile=delete_profile,
        allowed_format_versions=allowed_format_versions,
        default_format_version=default_format_version,
        managed_by=managed_by,
    )
    guard, warehouse = Guard(), draft.warehouse
    draft.examine(guard)
    guard.require_passed()
    try:
        with create_base_folder(warehouse.storage_profile, warehouse.location):
            draft.examine_store(guard)
            guard.require_passed()
            with storing_credential(draft.credential) as secret, write_transaction():
                _insert(actor, draft, secret)
    except IntegrityError:
        if Warehouse.objects.filter(project=project, name_key=warehouse.name_key).exists():
            raise name_taken(warehouse.name) from None
        raise
    return warehouse


def _insert(actor: Actor, draft: WarehouseDraft, secret: NewSecret | None) -> None:
    """One writer at a time, whatever its project. What was looked at before is looked at again."""
    warehouse = draft.warehouse
    lock_locations()
    if lock_row(Project, "id = %s", [warehouse.project_id]) is None:
        raise no_such_project(warehouse.project_id)
    draft.require_free_name()
    draft.require_free_location()
    store_credential(warehouse, draft.credential, secret)
    warehouse.save(force_insert=True)
    warehouse_ref = ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk)
    add_securable(*warehouse_ref, parent=ObjectRef(Securable.Type.PROJECT, warehouse.project_id))
    granted = grant_creator(actor, OWNERSHIP, warehouse_ref)
    record(
        Event.WAREHOUSE_CREATED, actor=actor, subject=warehouse.pk, project=warehouse.project_id, named=warehouse.name,
        location=warehouse.location, credential_type=warehouse.credential_type, **granted,
    )  # fmt: skip
