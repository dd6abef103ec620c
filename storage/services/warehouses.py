"""New warehouses."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError

from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key
from icekeeper.kernel.sql import lock_row
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.stores import made_base
from storage.models import Warehouse
from storage.profiles.kinds import read_profile
from storage.profiles.place import place_of
from storage.services.occupancy import lock_places, name_taken, require_free_name, require_free_place
from storage.services.warehouse_rules import checked_delete_profile, checked_format_policy, checked_warehouse_name
from storage.services.warehouse_storage import keep_credential, new_credential, read_new_credential
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.grants import OWNERSHIP, grant_creator
from tenancy.authz.instance_admins import require_instance_admin
from tenancy.authz.port import require
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable
from tenancy.selectors.projects import no_such_project


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
    """Make a warehouse in `project`; its folder, if it is local, is there on return. Nothing is asked of other stores.

    Its creator owns it. Raises `WarehouseExists` (409) for a taken name, `WarehouseOverlap` (400) when its location is
    in, around or equal to another warehouse's, `BadRequest` for a wrong name, profile, credential, delete profile or
    format policy, `SecretStoreNotConfigured` (412), `InstanceAdminRequired` (403) for a managed one.
    """
    require(actor, Can.CREATE_WAREHOUSE, Securable.Type.PROJECT, project.pk)
    if managed_by != Warehouse.ManagedBy.SELF_MANAGED:
        require_instance_admin(actor)
    warehouse = Warehouse(id=new_id(), project=project, name=checked_warehouse_name(name), managed_by=managed_by)
    warehouse.name_key = name_key(warehouse.name)
    warehouse.delete_profile = checked_delete_profile(delete_profile)
    policy = checked_format_policy(allowed_format_versions, default_format_version)
    warehouse.allowed_format_versions, warehouse.default_format_version = policy
    credential = read_new_credential(storage_credential)
    profile = read_profile(storage_profile, credential)
    warehouse.storage_profile, warehouse.location = profile.as_json(), profile.location
    warehouse.place = place_of(warehouse.storage_profile, warehouse.location)
    require_free_name(project.pk, warehouse.name)
    require_free_place(profile, project_id=project.pk, owner=warehouse.pk)
    try:
        with (
            made_base(warehouse.storage_profile, warehouse.location),
            new_credential(credential) as secret,
            write_transaction(),
        ):
            # One writer at a time, whatever its project. Then looked at again.
            lock_places()
            if lock_row(Project, "id = %s", [project.pk]) is None:
                raise no_such_project(project.pk)
            require_free_name(project.pk, warehouse.name)
            require_free_place(profile, project_id=project.pk, owner=warehouse.pk)
            keep_credential(warehouse, credential, secret)
            warehouse.save(force_insert=True)
            add_securable(Securable.Type.WAREHOUSE, warehouse.pk, parent=(Securable.Type.PROJECT, project.pk))
            grant_creator(actor, OWNERSHIP, (Securable.Type.WAREHOUSE, warehouse.pk))
    except IntegrityError:
        if Warehouse.objects.filter(project=project, name_key=warehouse.name_key).exists():
            raise name_taken(warehouse.name) from None
        raise
    record(
        Event.WAREHOUSE_CREATED, actor=actor, subject=warehouse.pk, project=project.pk, named=warehouse.name,
        location=warehouse.location, credential_type=warehouse.credential_type,
    )  # fmt: skip
    return warehouse
