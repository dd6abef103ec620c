"""Writes of warehouses that need to look at nothing but warehouses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from icekeeper.kernel.errors import BadRequest, Conflict, NoSuchWarehouse
from icekeeper.kernel.names import name_key
from icekeeper.kernel.write_transaction import write_transaction
from storage.io.stores import store_for
from storage.models import Warehouse
from storage.profiles.local import read_local_profile
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable, Server

SUPPORTED_FORMAT_VERSIONS = (1, 2, 3, 4)
ALLOWED_UNLESS_CHOSEN = (1, 2, 3)
"""Version 4 is not finished, so a warehouse must ask for it."""

MAX_NAME_BYTES = 128
LONGEST_EXPIRATION_SECONDS = 3_155_760_000
"""A hundred years."""


class WarehouseExists(Conflict):
    wire_type = "WarehouseAlreadyExists"


class WarehouseOverlap(BadRequest):
    wire_type = "CreateWarehouseStorageProfileOverlap"


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
) -> Warehouse:
    """Make a warehouse in `project`; its folder is there on return.

    Raises `WarehouseExists` (409) for a taken name, `WarehouseOverlap` (400) when its location is in, around or equal
    to another warehouse's, `BadRequest` for a wrong name, profile, delete profile or format policy.
    """
    require(actor, Can.CREATE_WAREHOUSE, Securable.Type.PROJECT, project.pk)
    name = _checked_name(name)
    if storage_profile.get("type") != "local":
        raise BadRequest(
            f"storage-profile: type {storage_profile.get('type')!r} is not supported; this version has: local"
        )
    if storage_credential is not None:
        raise BadRequest("storage-credential: a local warehouse takes none")
    profile, location = read_local_profile(storage_profile, root=settings.ICEKEEPER.local_storage_root)
    allowed, default = _format_policy(allowed_format_versions, default_format_version)
    checked_delete_profile = _delete_profile(delete_profile)
    _require_free(project, name, location)
    store_for(profile).make_folder(location)
    try:
        with write_transaction():
            # One writer at a time, whatever its project: the server's row is the lock. Then looked at again.
            Server.objects.select_for_update().get()
            _require_free(project, name, location)
            warehouse = Warehouse.objects.create(
                project=project,
                name=name,
                name_key=name_key(name),
                storage_profile=profile,
                location=location,
                delete_profile=checked_delete_profile,
                allowed_format_versions=allowed,
                default_format_version=default,
            )
            add_securable(Securable.Type.WAREHOUSE, warehouse.pk, parent=(Securable.Type.PROJECT, project.pk))
    except IntegrityError:
        raise WarehouseExists(f"A warehouse named {name!r} already exists in this project") from None
    return warehouse


def _require_free(project: Project, name: str, location: str) -> None:
    if Warehouse.objects.filter(project=project, name_key=name_key(name)).exists():
        raise WarehouseExists(f"A warehouse named {name!r} already exists in this project")
    for other in Warehouse.objects.values_list("location", flat=True):
        if f"{location}/".startswith(f"{other}/") or f"{other}/".startswith(f"{location}/"):
            raise WarehouseOverlap(f"Storage profile overlaps with that of another warehouse: {location}")


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BadRequest("warehouse-name: must be a string that is not empty")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise BadRequest(f"warehouse-name: longer than {MAX_NAME_BYTES} bytes")
    if "/" in name or any(ord(character) < 32 for character in name):  # noqa: PLR2004
        raise BadRequest("warehouse-name: must not hold a slash or a control character")
    return name


def _delete_profile(profile: dict[str, Any] | None) -> dict[str, Any]:
    if not profile or profile == {"type": "hard"}:
        return {"type": "hard"}
    if profile.get("type") != "soft" or profile.keys() != {"type", "expiration-seconds"}:
        raise BadRequest('delete-profile: must be {"type": "hard"} or {"type": "soft", "expiration-seconds": ...}')
    seconds = profile["expiration-seconds"]
    if type(seconds) is not int or not 0 <= seconds <= LONGEST_EXPIRATION_SECONDS:
        raise BadRequest(f"delete-profile: expiration-seconds must be a number from 0 to {LONGEST_EXPIRATION_SECONDS}")
    return {"type": "soft", "expiration-seconds": seconds}


def _format_policy(allowed: list[int] | None, default: int | None) -> tuple[list[int], int | None]:
    versions = sorted(set(ALLOWED_UNLESS_CHOSEN if allowed is None else allowed))
    if not versions or not set(versions) <= set(SUPPORTED_FORMAT_VERSIONS):
        raise BadRequest("allowed-format-versions: must be a non-empty subset of [1, 2, 3, 4]")
    if default is not None and default not in versions:
        raise BadRequest("default-format-version: must be one of allowed-format-versions")
    return versions, default


def rename_warehouse(*, actor: Actor, warehouse_id: UUID, new_name: str) -> Warehouse:
    """Raises `NoSuchWarehouse`, `WarehouseExists` (409), `BadRequest`."""
    require(actor, Can.RENAME, Securable.Type.WAREHOUSE, warehouse_id)
    name = _checked_name(new_name)
    try:
        return _change(warehouse_id, name=name, name_key=name_key(name))
    except IntegrityError:
        raise WarehouseExists(f"A warehouse named {name!r} already exists in this project") from None


def set_delete_profile(*, actor: Actor, warehouse_id: UUID, delete_profile: dict[str, Any]) -> Warehouse:
    """What later drops do. Raises `NoSuchWarehouse`, `BadRequest`."""
    require(actor, Can.MODIFY_SOFT_DELETION, Securable.Type.WAREHOUSE, warehouse_id)
    return _change(warehouse_id, delete_profile=_delete_profile(delete_profile))


def set_format_version_policy(
    *, actor: Actor, warehouse_id: UUID, allowed_format_versions: list[int], default_format_version: int | None
) -> Warehouse:
    """Which versions tables may be made in or upgraded to. Raises `NoSuchWarehouse`, `BadRequest`."""
    require(actor, Can.SET_FORMAT_VERSION_POLICY, Securable.Type.WAREHOUSE, warehouse_id)
    allowed, default = _format_policy(allowed_format_versions, default_format_version)
    return _change(warehouse_id, allowed_format_versions=allowed, default_format_version=default)


def set_warehouse_protection(*, actor: Actor, warehouse_id: UUID, is_protected: bool) -> Warehouse:
    """Whether it is deleted by force only. Raises `NoSuchWarehouse`."""
    require(actor, Can.SET_PROTECTION, Securable.Type.WAREHOUSE, warehouse_id)
    return _change(warehouse_id, protected=is_protected)


def _change(warehouse_id: UUID, **fields: Any) -> Warehouse:
    with write_transaction():
        warehouse = Warehouse.objects.select_for_update().filter(pk=warehouse_id).first()
        if warehouse is None:
            raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
        for field, value in fields.items():
            setattr(warehouse, field, value)
        warehouse.version += 1
        warehouse.save()
    return warehouse
