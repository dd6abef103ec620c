"""Updates of a warehouse's row: name, status, delete profile, format versions, protection, management."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import Conflict, Forbidden, NotFound
from icekeeper.kernel.names import name_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from storage.services.warehouses import (
    name_taken,
    validate_delete_profile,
    validate_format_policy,
    validate_warehouse_name,
)
from tenancy.actor import Actor, is_instance_admin, require_instance_admin
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change


class WarehouseManaged(Forbidden):
    wire_type = "WarehouseManaged"


class WarehouseNotActive(NotFound):
    wire_type = "WarehouseNotActive"


class WarehouseChanged(Conflict):
    """The warehouse has another version than the caller expects: it was changed since they read it."""

    wire_type = "WarehouseChanged"


@contextmanager
def changing_warehouse(
    *, actor: Actor, action: Can, warehouse_id: UUID, expected_version: int | None = None, deletes: bool = False
) -> Iterator[tuple[Warehouse, ChangeTransaction]]:
    """Authorize a change, and lock the row of the warehouse, active or not; yield it with the change.

    Permissions are checked before the lock, as others must not wait for denied requests, and again under it. Raises
    `NoSuchWarehouse`, `Forbidden`, `WarehouseManaged` (403) when only instance admins may change it, and
    `WarehouseChanged` (409) when it does not have the `expected_version`.
    """
    get_warehouse_for(actor=actor, action=action, warehouse_id=warehouse_id)
    with change(actor) as tx:
        yield (
            lock_changeable(actor=actor, warehouse_id=warehouse_id, expected_version=expected_version, deletes=deletes),
            tx,
        )


def lock_changeable(
    *, actor: Actor, warehouse_id: UUID, expected_version: int | None = None, deletes: bool = False
) -> Warehouse:
    """Lock the row of a warehouse that `get_warehouse_for` has returned.

    Raises `NoSuchWarehouse`, `WarehouseChanged` (409), `WarehouseManaged` (403), and as `get_warehouse_for` if
    permissions have changed.
    """
    warehouse = _lock(warehouse_id, expected_version, deletes=deletes)
    require_not_managed(actor, warehouse)
    return warehouse


def require_not_managed(actor: Actor, warehouse: Warehouse) -> None:
    """Raise `WarehouseManaged` (403) if only instance admins may change the warehouse."""
    if warehouse.managed_by == Warehouse.ManagedBy.INSTANCE_ADMIN and not is_instance_admin(actor):
        raise WarehouseManaged(f"Warehouse {warehouse.name} is changed by instance admins only")


def save_change(tx: ChangeTransaction, warehouse: Warehouse, *fields: str, details: dict[str, Any]) -> None:
    """Under the lock of the row, save changed `fields`; the audit log records `details`."""
    warehouse.version += 1
    warehouse.save(update_fields=[*fields, "version", "updated_at"])
    tx.record(
        Change.WAREHOUSE_UPDATED, subject=warehouse.pk, project=warehouse.project_id, named=warehouse.name,
        changed=details,
    )  # fmt: skip


def rename_warehouse(
    *, actor: Actor, warehouse_id: UUID, new_name: str, expected_version: int | None = None
) -> Warehouse:
    """Rename a warehouse; clients that use the former name no longer find it.

    Raises `WarehouseExists` (409), `WarehouseNotActive` (404), and as `changing_warehouse`.
    """
    checked = validate_warehouse_name(new_name)
    try:
        changing = changing_warehouse(
            actor=actor, action=Can.RENAME, warehouse_id=warehouse_id, expected_version=expected_version
        )
        with changing as (warehouse, tx):
            if warehouse.status != Warehouse.Status.ACTIVE:
                raise WarehouseNotActive(f"Warehouse is not active: {warehouse.name}")
            _set(tx, warehouse, name=checked, name_key=name_key(checked))
    except IntegrityError:
        raise name_taken(checked) from None
    return warehouse


def activate_warehouse(*, actor: Actor, warehouse_id: UUID, expected_version: int | None = None) -> Warehouse:
    changing = changing_warehouse(
        actor=actor, action=Can.ACTIVATE, warehouse_id=warehouse_id, expected_version=expected_version
    )
    with changing as (warehouse, tx):
        _set(tx, warehouse, status=Warehouse.Status.ACTIVE)
    return warehouse


def deactivate_warehouse(*, actor: Actor, warehouse_id: UUID, expected_version: int | None = None) -> Warehouse:
    """Hide a warehouse from catalog requests; queued tasks are still executed."""
    changing = changing_warehouse(
        actor=actor, action=Can.DEACTIVATE, warehouse_id=warehouse_id, expected_version=expected_version
    )
    with changing as (warehouse, tx):
        _set(tx, warehouse, status=Warehouse.Status.INACTIVE)
    return warehouse


def set_delete_profile(
    *, actor: Actor, warehouse_id: UUID, delete_profile: dict[str, Any], expected_version: int | None = None
) -> Warehouse:
    """Set the delete profile of later drops."""
    checked = validate_delete_profile(delete_profile)
    changing = changing_warehouse(
        actor=actor, action=Can.MODIFY_SOFT_DELETION, warehouse_id=warehouse_id, expected_version=expected_version
    )
    with changing as (warehouse, tx):
        _set(tx, warehouse, delete_profile=checked)
    return warehouse


def set_format_version_policy(
    *, actor: Actor, warehouse_id: UUID, allowed: list[int], default: int | None, expected_version: int | None = None
) -> Warehouse:
    """Set the format versions of tables that are created or upgraded later. Default: 2 if allowed, else the highest."""
    versions, checked_default = validate_format_policy(allowed, default)
    changing = changing_warehouse(
        actor=actor,
        action=Can.SET_FORMAT_VERSION_POLICY,
        warehouse_id=warehouse_id,
        expected_version=expected_version,
    )
    with changing as (warehouse, tx):
        _set(tx, warehouse, allowed_format_versions=versions, default_format_version=checked_default)
    return warehouse


def set_warehouse_protection(
    *, actor: Actor, warehouse_id: UUID, is_protected: bool, expected_version: int | None = None
) -> Warehouse:
    changing = changing_warehouse(
        actor=actor, action=Can.SET_PROTECTION, warehouse_id=warehouse_id, expected_version=expected_version
    )
    with changing as (warehouse, tx):
        _set(tx, warehouse, protected=is_protected)
    return warehouse


def set_managed_by(
    *, actor: Actor, warehouse_id: UUID, managed_by: str, expected_version: int | None = None
) -> Warehouse:
    """Set who manages the warehouse. Raises `InstanceAdminRequired` (403), whatever the grants."""
    require_instance_admin(actor)
    with change(actor) as tx:
        warehouse = _lock(warehouse_id, expected_version)
        _set(tx, warehouse, managed_by=managed_by)
    return warehouse


def _lock(warehouse_id: UUID, expected_version: int | None, *, deletes: bool = False) -> Warehouse:
    """Raises `NoSuchWarehouse`, and `WarehouseChanged` (409) for another version."""
    where, params = "id = %s", [warehouse_id, *([] if expected_version is None else [expected_version])]
    if expected_version is not None:
        where += " AND version = %s"
    warehouse = lock_row(Warehouse, where, params, mode="UPDATE" if deletes else "NO KEY UPDATE")
    if warehouse is not None:
        return warehouse
    if expected_version is not None and Warehouse.objects.filter(pk=warehouse_id).exists():
        raise WarehouseChanged("The warehouse was changed by another request")
    raise no_such_warehouse(warehouse_id)


def _set(tx: ChangeTransaction, warehouse: Warehouse, **changes: Any) -> None:
    """Under the lock of the row, save what differs; without a difference nothing is written."""
    changed = [field for field, value in changes.items() if getattr(warehouse, field) != value]
    if changed:
        for field in changed:
            setattr(warehouse, field, changes[field])
        details = {field: changes[field] for field in changed if field != "name_key"}
        save_change(tx, warehouse, *changed, details=details)
