"""Rename of namespaces and moves below another parent, with everything in them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import F, Value
from django.db.models.functions import Concat, Substr

from catalog.errors import ChildNamespaceProtected, NamespaceProtected, no_such_namespace, no_such_object
from catalog.identifiers import MAX_DEPTH, MAX_KEY_BYTES, Levels, NamespaceDepthExceeded, dotted, require_levels
from catalog.models import Namespace
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction, ProposedChange
from catalog.services.approval.proposals import propose_namespace
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.locations.claims import lock_warehouse
from catalog.services.namespaces.create import require_not_reserved
from catalog.services.namespaces.versions import require_version
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import AlreadyExists, BadRequest
from icekeeper.kernel.names import LEVEL_SEPARATOR, path_key
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import move_securable_tree
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

_FIND = """
SELECT n.id
  FROM storage_warehouse w LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.id = %s
 WHERE w.id = %s
"""


class NamespaceEmpty(BadRequest):
    wire_type = "NamespaceEmpty"


class NamespaceCannotMoveIntoSelf(BadRequest):
    wire_type = "NamespaceCannotMoveIntoSelf"


class StorageLayoutForbidsNamespaceMove(BadRequest):
    wire_type = "StorageLayoutForbidsNamespaceMove"


def move_namespace(
    *,
    actor: Actor,
    warehouse_id: UUID,
    namespace_id: UUID,
    destination: object,
    force: bool = False,
    expected_version: int | None = None,
) -> Namespace:
    """Move a namespace to the path `destination`, with all namespaces below it.

    Ids, properties, locations and files do not change, so writers of its tables are not interrupted. The levels above
    keep their own spelling. A move to the current path is a no-op.

    Raises `NoSuchNamespace` (also for the new parent), `AlreadyExists`, `ReservedNamespace`, `NamespaceDepthExceeded`,
    `NamespaceCannotMoveIntoSelf`, `StorageLayoutForbidsNamespaceMove`; unless `force`, `NamespaceProtected` and
    `ChildNamespaceProtected` (409); `ContractViolation` (409); `NamespaceChanged` (409) when it has another version
    than `expected_version`.
    """
    if destination == []:
        raise NamespaceEmpty("destination: must have at least one level")
    levels = require_levels(destination)
    require_not_reserved(levels)
    _require_to_move(actor, warehouse_id, namespace_id)
    require_approval(
        recent_rules_version(), lambda: _propose(actor, warehouse_id, namespace_id, levels), warehouse_id=warehouse_id
    )
    try:
        with change(actor) as tx:
            # All transactions that create, move or recursively drop namespaces take this lock: no path changes now.
            warehouse = lock_warehouse(warehouse_id)
            if warehouse is None:
                raise no_such_warehouse(warehouse_id)
            moved, below, parent = _lock(warehouse_id, namespace_id, levels)
            request_context.recheck_permissions()
            require_version(moved, expected_version)
            if path_key(levels).startswith(f"{moved.path_key}{LEVEL_SEPARATOR}"):
                raise NamespaceCannotMoveIntoSelf(f"Namespace {moved} cannot be moved into itself: {dotted(levels)}")
            if parent is None and levels[1:]:
                raise no_such_namespace(levels[:-1])
            path = levels[-1] if parent is None else f"{parent.path}{LEVEL_SEPARATOR}{levels[-1]}"
            if path == moved.path:
                return moved
            _require_accepting_parent(actor, moved, parent, levels)
            _require_layout_permits(warehouse.storage_profile, moved, parent, levels[-1])
            if not force:
                _require_unprotected(moved, below)
            _require_free_path(moved, below, levels)
            former = moved.levels
            if _rewrite(moved, parent, path, path_key(levels)):
                tx.change_permissions()
            tx.record(
                Change.NAMESPACE_MOVED, subject=namespace_id, project=warehouse.project_id, warehouse=warehouse_id,
                levels=moved.levels, formerly=former,
            )  # fmt: skip
    except IntegrityError:
        raise _taken(levels) from None
    return moved


def _propose(actor: Actor, warehouse_id: UUID, namespace_id: UUID, levels: Levels) -> list[ProposedChange]:
    rows = Namespace.objects.in_warehouse(warehouse_id)
    moved = rows.filter(pk=namespace_id).only("path").first()
    if moved is None:  # dropped concurrently
        return []
    parent_id = rows.filter(path_key=path_key(levels[:-1])).values_list("pk", flat=True).first()
    return [
        propose_namespace(
            ChangeAction.RENAME, actor, warehouse_id, moved.levels, namespace_id=namespace_id,
            destination=(levels, None), destination_namespace_id=parent_id,
        )
    ]  # fmt: skip


def _require_to_move(actor: Actor, warehouse_id: UUID, namespace_id: UUID) -> None:
    """Check the permission before anything is locked, so that denied requests block no other client."""
    row = fetch_one("default", _FIND, [namespace_id, warehouse_id])
    if row is None:
        raise no_such_warehouse(warehouse_id)
    missing = no_such_object("namespace", namespace_id)
    (found_id,) = row
    if found_id is None:
        raise missing
    require_permission(actor, Can.MOVE, Securable.Type.NAMESPACE, namespace_id, missing=missing)


def _lock(
    warehouse_id: UUID, namespace_id: UUID, levels: Levels
) -> tuple[Namespace, list[Namespace], Namespace | None]:
    """Lock the namespace, those below it and its new parent, in the order of their ids."""
    moved = Namespace.objects.in_warehouse(warehouse_id).filter(pk=namespace_id).first()
    if moved is None:  # dropped concurrently
        raise no_such_object("namespace", namespace_id)
    above = path_key(levels[:-1])
    wanted = Namespace.objects.in_warehouse(warehouse_id).in_subtree(moved.path_key)
    if above:
        wanted |= Namespace.objects.in_warehouse(warehouse_id).filter(path_key=above)
    found = {each.pk: each for each in wanted.defer("properties").select_for_update().order_by("id")}
    locked = found.get(namespace_id)
    if locked is None:  # dropped concurrently
        raise no_such_object("namespace", namespace_id)
    prefix = f"{locked.path_key}{LEVEL_SEPARATOR}"
    below = [each for each in found.values() if each.path_key.startswith(prefix)]
    return locked, below, next((each for each in found.values() if each.path_key == above), None)


def _require_accepting_parent(actor: Actor, moved: Namespace, parent: Namespace | None, levels: Levels) -> None:
    missing = None if parent is None else no_such_namespace(levels[:-1])
    for action in (Can.CREATE_NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE):
        require_permission(actor, action, *_above(moved, parent), missing=missing)


def _require_layout_permits(profile: dict[str, Any], moved: Namespace, parent: Namespace | None, name: str) -> None:
    """In a layout with a folder for each level, the folders must keep matching the hierarchy."""
    layout = profile.get("storage-layout") or {}
    if layout.get("type") != "full-hierarchy":
        return
    if _parent_id(parent) != moved.parent_id:
        raise StorageLayoutForbidsNamespaceMove(
            "In this warehouse the folder of a namespace is in that of its parent, so it stays below that"
        )
    if "{name}" in layout.get("namespace", "") and name != moved.levels[-1]:
        raise StorageLayoutForbidsNamespaceMove(
            "In this warehouse the folder of a namespace has its name, so it keeps that"
        )


def _require_unprotected(moved: Namespace, below: list[Namespace]) -> None:
    if moved.protected:
        raise NamespaceProtected(f"Namespace is protected: {moved}")
    for namespace in below:
        if namespace.protected:
            raise ChildNamespaceProtected(f"Namespace {moved} holds a protected namespace: {namespace}")


def _require_free_path(moved: Namespace, below: list[Namespace], levels: Levels) -> None:
    """Under the locks: raises `AlreadyExists`, and `BadRequest` when a path below would be too deep or too long."""
    key = path_key(levels)
    others = Namespace.objects.in_warehouse(moved.warehouse_id).filter(path_key=key).exclude(pk=moved.pk)
    if others.exists():
        raise _taken(levels)
    for namespace in below:
        if len(namespace.levels) - len(moved.levels) + len(levels) > MAX_DEPTH:
            raise NamespaceDepthExceeded(f"Invalid namespace: {namespace} exceeds maximum depth of {MAX_DEPTH} levels")
        if len(f"{key}{namespace.path_key[len(moved.path_key) :]}".encode()) > MAX_KEY_BYTES:
            raise BadRequest(f"Invalid namespace: the path of {namespace} would be longer than {MAX_KEY_BYTES} bytes")


def _rewrite(moved: Namespace, parent: Namespace | None, path: str, key: str) -> bool:
    """Update all paths in one statement, and the securables, which refer to ids, only when the parent changes.

    Returns whether it does: then permissions change, too.
    """
    Namespace.objects.in_warehouse(moved.warehouse_id).in_subtree(moved.path_key).update(
        path=Concat(Value(path), Substr("path", len(moved.path) + 1)),
        path_key=Concat(Value(key), Substr("path_key", len(moved.path_key) + 1)),
        version=F("version") + 1,
        updated_at=now(),
    )
    moved.path, moved.path_key, moved.version = path, key, moved.version + 1
    if _parent_id(parent) == moved.parent_id:
        return False
    moved.parent = parent
    Namespace.objects.filter(pk=moved.pk).update(parent=parent)
    move_securable_tree(Securable.Type.NAMESPACE, moved.pk, parent=_above(moved, parent))
    return True


def _above(moved: Namespace, parent: Namespace | None) -> ObjectRef:
    if parent is None:
        return ObjectRef(Securable.Type.WAREHOUSE, moved.warehouse_id)
    return ObjectRef(Securable.Type.NAMESPACE, parent.pk)


def _parent_id(parent: Namespace | None) -> UUID | None:
    return None if parent is None else parent.pk


def _taken(levels: Levels) -> AlreadyExists:
    return AlreadyExists(f"Namespace already exists: {dotted(levels)}")
