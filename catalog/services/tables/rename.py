"""Rename of tables, views and generic tables, also to another namespace."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError

from catalog.errors import already_exists, no_such_namespace, no_such_tabular, noun
from catalog.identifiers import Identifier
from catalog.models import Namespace, Tabular
from catalog.selectors.tables.targets import find_target
from catalog.services.approval.approve import require_approval
from catalog.services.approval.proposals import propose_rename
from catalog.services.idempotency import IdempotencyKey
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import is_foreign_key_violation
from icekeeper.kernel.errors.types import AlreadyExists, CatalogError
from icekeeper.kernel.names import lookup_key, path_key, require_name
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.authz.securables import are_registered, move_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.grants import is_access_managed


def rename_tabular(
    *,
    actor: Actor,
    warehouse_id: UUID,
    source: Identifier,
    destination: Identifier,
    kind: Tabular.Kind,
    expected_uuid: UUID | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Rename a tabular, in its namespace or to another one; its files and UUID do not change.

    With `expected_uuid` only the tabular with this id is renamed: another one with the name is not the one to rename.
    Raises `NoSuchTable` (or view, or generic table), `NoSuchNamespace` for the destination, `AlreadyExists` when the
    name is taken there, `ContractViolation` (409), and `Forbidden` when the caller would gain permissions on it through
    the new namespace, or would allow its owners to grant what managed access forbids them now.
    """
    origin = find_target(warehouse_id=warehouse_id, identifier=source)
    tabular = origin.tabular_for(actor, Can.RENAME, kind)
    if expected_uuid is not None and tabular.uuid != expected_uuid:
        raise no_such_tabular(kind, source)
    require_name(destination.name, f"{noun(kind).lower()} name")
    goal = find_target(warehouse_id=warehouse_id, identifier=destination)
    namespace_id = goal.namespace_to_create_in(actor, kind)
    if namespace_id != tabular.namespace_id:
        ref = ObjectRef(Securable.Type(kind.value), tabular.id)
        move = _NamespaceMove(actor, ref, tabular.namespace_id, namespace_id, no_such_tabular(kind, source))
        epoch = permission_epoch.current()
        _require_no_permission_gained(move)
        request_context.record_permission(_recheck_gained_permissions, (move, epoch))
    if goal.current is not None and goal.current.id != tabular.id:
        raise _name_taken(goal.current.kind, kind, source, destination)
    require_approval(
        origin.rules_version,
        lambda: [propose_rename(actor, origin, tabular, destination, namespace_id)],
        warehouse_id=origin.warehouse_id,
    )
    try:
        with change(actor, idempotency_key) as tx:
            if lock_row(Namespace, "id = %s AND path_key = %s", [namespace_id, path_key(destination.levels)]) is None:
                raise no_such_namespace(destination.levels)
            is_moved = namespace_id != tabular.namespace_id
            is_respelled = not is_moved and lookup_key(source.name) == lookup_key(destination.name)
            if is_respelled and _has_name(tabular.id, namespace_id, destination.name):
                return
            renamed = (
                Tabular.objects.live()
                .filter(pk=tabular.id, namespace_id=tabular.namespace_id, name_key=lookup_key(source.name))
                .update(
                    namespace_id=namespace_id,
                    name=destination.name,
                    name_key=lookup_key(destination.name),
                    updated_at=now(),
                )
            )
            if not renamed:
                raise no_such_tabular(kind, source)
            request_context.recheck_permissions()  # the update may have waited, too
            if is_moved:
                parent = ObjectRef(Securable.Type.NAMESPACE, namespace_id)
                move_securable(Securable.Type(kind.value), tabular.id, parent=parent)
            tx.record(
                Change.of_tabular(kind, "moved" if is_moved else "renamed"), subject=tabular.id,
                project=origin.project_id, warehouse=warehouse_id, uuid=tabular.uuid,
                data=_request(source, destination) if kind != Tabular.Kind.VIEW else None,
                levels=[*destination.levels, destination.name], formerly=[*source.levels, source.name],
            )  # fmt: skip
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise no_such_namespace(destination.levels) from None
        raise _name_taken(kind, kind, source, destination) from None


def _has_name(tabular_id: UUID, namespace_id: UUID, name: str) -> bool:
    """Return whether the tabular is there under exactly this name: then its rename changes nothing."""
    return Tabular.objects.live().filter(pk=tabular_id, namespace_id=namespace_id, name=name).exists()


def _request(source: Identifier, destination: Identifier) -> dict[str, Any]:
    """Return the RenameTableRequest."""
    return {"source": source.as_json(), "destination": destination.as_json()}


class _NamespaceMove(NamedTuple):
    """A move of a table by `actor` from one namespace to another."""

    actor: Actor
    ref: ObjectRef
    origin_id: UUID
    namespace_id: UUID
    missing: CatalogError


def _require_no_permission_gained(move: _NamespaceMove) -> None:
    """Check that the move gives `actor` no permission on the table that they did not have before.

    A caller who may rename a table can already read and write it. They could only gain the permissions that the new
    namespace gives on all its tables, and grants that managed access of the old one forbids to the table's owners.
    """
    parent: ObjectRef = ObjectRef(Securable.Type.NAMESPACE, move.namespace_id)
    gained = (Can.GRANT_MANAGE_GRANTS, Can.MANAGE_TAGS)
    allowed = check_permissions(move.actor, [(each, parent) for each in gained])
    for action, is_gained in zip(gained, allowed, strict=True):
        if is_gained:
            require_permission(move.actor, action, *move.ref, missing=move.missing)
    if is_access_managed(ObjectRef(Securable.Type.NAMESPACE, move.origin_id)) and not is_access_managed(parent):
        require_permission(move.actor, Can.GRANT_MANAGE_GRANTS, *move.ref, missing=move.missing)


def _recheck_gained_permissions(moves: list[tuple[_NamespaceMove, int]]) -> None:
    """Repeat the check if permissions changed meanwhile. Deleted tables are skipped."""
    epoch = permission_epoch.current()
    for move, seen in moves:
        if seen != epoch and all(are_registered([move.ref])):
            _require_no_permission_gained(move)
    moves[:] = [(move, epoch) for move, _ in moves]


def _name_taken(found: str, kind: Tabular.Kind, source: Identifier, destination: Identifier) -> AlreadyExists:
    if found == kind != Tabular.Kind.VIEW:
        return already_exists(found, kind, destination)
    return AlreadyExists(f"Cannot rename {source} to {destination}. {noun(found)} already exists")
