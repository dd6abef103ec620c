"""Drops of namespaces: an empty one, or one with everything in it."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError
from django.db.models import RestrictedError

from catalog.errors import (
    ChildNamespaceProtected,
    ChildTabularProtected,
    NamespaceDeleteNotAllowed,
    NamespaceHasRunningTabularExpirations,
    NamespaceProtected,
    PreviewOutdated,
    no_such_namespace,
)
from catalog.identifiers import Levels, dotted
from catalog.models import Namespace, Tabular
from catalog.selectors.namespaces import find_namespace_for, lock_namespace
from catalog.selectors.subtree_preview import subtree_digest
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import SubtreeDrop, propose_namespace
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import lock_warehouse
from catalog.services.namespaces.create import require_not_reserved
from catalog.services.tables.drop import BATCH_SIZE, cancel_expirations, queue_purges, record_drop, retire
from icekeeper.kernel import request_context
from icekeeper.kernel.db.sql import batches
from icekeeper.kernel.errors.types import Busy, NamespaceNotEmpty
from icekeeper.kernel.names import path_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import EndedGrants, lock_securable_tree, remove_securable, remove_securables
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


def drop_namespace(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    force: bool = False,
    expected_id: UUID | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Drop an empty namespace. Soft-deleted tabulars count as its content.

    With `expected_id` another namespace that has the path by now is not dropped. Raises `NoSuchNamespace`,
    `ReservedNamespace`, `NamespaceNotEmpty`, `ContractViolation` (409), `NamespaceProtected` unless `force`.
    """
    require_not_reserved(levels)
    namespace_id = find_namespace_for(actor, Can.DELETE, warehouse_id, levels)
    if expected_id is not None and namespace_id != expected_id:
        raise no_such_namespace(levels)
    require_approval(
        recent_rules_version(),
        lambda: [propose_namespace(ChangeAction.DROP, actor, warehouse_id, levels, namespace_id=namespace_id)],
        warehouse_id=warehouse_id,
    )
    try:
        with change(actor, idempotency_key) as tx:
            namespace = lock_namespace(warehouse_id, namespace_id, levels)
            if namespace.protected and not force:
                raise NamespaceProtected(f"Namespace is protected: {namespace}")
            if namespace.children.exists() or Tabular.objects.filter(namespace_id=namespace.pk).exists():
                raise NamespaceNotEmpty(f"Namespace {namespace} is not empty")
            ended = remove_securable(Securable.Type.NAMESPACE, namespace.pk)
            _record_drop(tx, namespace, project=namespace.warehouse.project_id, ended=ended)
            namespace.delete()
    except (RestrictedError, IntegrityError):
        # Something was moved into it between check and delete: the foreign keys decide.
        raise NamespaceNotEmpty(f"Namespace {dotted(levels)} is not empty") from None


def drop_subtree(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    purge: bool,
    force: bool = False,
    digest: str | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Drop a namespace, those below it, and every table, view and generic table in them, including soft-deleted ones.

    All in one transaction; nothing can be restored. With `purge` tasks delete the files. Locks are taken in the fixed
    order: warehouse, namespaces, tabulars, securables, grants, each by id.

    Raises `NoSuchNamespace`, `ReservedNamespace` (400); unless `force`, `NamespaceDeleteNotAllowed` (400) in a
    soft-delete warehouse and `NamespaceProtected`, `ChildNamespaceProtected`, `ChildTabularProtected` (409); and
    `NamespaceHasRunningTabularExpirations` (409) while a soft-deleted tabular is being deleted permanently. With the
    `digest` of a preview (`subtree_digest`), `PreviewOutdated` (409) when the preview would show something else now;
    `ContractViolation` (409); `Busy` (503) if something is added while rules are asked.
    """
    require_not_reserved(levels)
    # Checked before anything is locked, so that denied requests block no other client. The permission to delete a
    # namespace includes that to drop everything in it, as `modify` is inherited on all levels.
    top_id = find_namespace_for(actor, Can.DELETE, warehouse_id, levels)
    proposed = SubtreeDrop(actor, warehouse_id, top_id)
    require_approval(recent_rules_version(), proposed.propose, warehouse_id=warehouse_id)
    with change(actor, idempotency_key) as tx:
        warehouse = lock_warehouse(warehouse_id)
        if warehouse is None or warehouse.status != Warehouse.Status.ACTIVE:
            raise no_such_warehouse(warehouse_id)
        namespaces = _lock_subtree(warehouse_id, levels)
        top = namespaces[0]
        if top.pk != top_id:  # replaced concurrently
            raise no_such_namespace(levels)
        if warehouse.has_soft_delete and not force:
            raise NamespaceDeleteNotAllowed(
                f"Namespace {top} cannot be dropped recursively in a warehouse with soft delete unless forced"
            )
        tabulars = _lock_tabulars(namespaces)
        request_context.recheck_permissions()
        if not proposed.includes([each.pk for each in (*namespaces, *tabulars)]):
            raise Busy(f"Something was added to namespace {top} meanwhile: nothing was dropped, try again")
        if digest is not None and digest != subtree_digest(warehouse, top.pk, namespaces, tabulars):
            raise PreviewOutdated("Something has changed since the preview")
        if not force:
            _require_unprotected(namespaces, tabulars)
        _cancel_expirations(warehouse_id, tabulars)
        lock_securable_tree(Securable.Type.NAMESPACE, top.pk)
        paths = {namespace.pk: namespace.levels for namespace in namespaces}
        if purge:
            queue_purges(tabulars, paths, project=warehouse.project_id, created_by=actor.user_id)
        ended = retire(tabulars)
        ended.merge(_delete_namespaces(namespaces))
        for row in tabulars:
            record_drop(tx, row, paths[row.namespace_id], project=warehouse.project_id, purge=purge)
        for namespace in reversed(namespaces):
            _record_drop(tx, namespace, project=warehouse.project_id, ended=ended if namespace is top else None)


def _record_drop(tx: ChangeTransaction, namespace: Namespace, *, project: str, ended: EndedGrants | None) -> None:
    tx.record(
        Change.NAMESPACE_DROPPED, subject=namespace.pk, project=project, warehouse=namespace.warehouse_id,
        levels=namespace.levels, **({} if ended is None else ended.as_details()),
    )  # fmt: skip


def _lock_subtree(warehouse_id: UUID, levels: Levels) -> list[Namespace]:
    """Lock the namespace and those below it; the namespace itself comes first in the result."""
    key = path_key(levels)
    subtree = Namespace.objects.in_warehouse(warehouse_id).in_subtree(key).select_for_update().order_by("id")
    found = sorted(subtree, key=lambda namespace: len(namespace.levels))
    if not found or found[0].path_key != key:  # dropped or moved concurrently
        raise no_such_namespace(levels)
    return found


def _lock_tabulars(namespaces: list[Namespace]) -> list[Tabular]:
    """Lock all tabulars in the order of their ids. None can be added to the locked namespaces, but a rename may move
    one out until it is locked."""
    namespace_ids = [namespace.pk for namespace in namespaces]
    ids: list[UUID] = []
    for batch in batches(namespace_ids, BATCH_SIZE):
        ids += Tabular.objects.filter(namespace_id__in=batch).values_list("id", flat=True)
    ids.sort()
    found: list[Tabular] = []
    for batch in batches(ids, BATCH_SIZE):
        found += Tabular.objects.select_for_update().filter(pk__in=batch).order_by("id")
    inside = set(namespace_ids)
    return [tabular for tabular in found if tabular.namespace_id in inside]


def _require_unprotected(namespaces: list[Namespace], tabulars: list[Tabular]) -> None:
    top, *below = namespaces
    if top.protected:
        raise NamespaceProtected(f"Namespace is protected: {top}")
    for namespace in below:
        if namespace.protected:
            raise ChildNamespaceProtected(f"Namespace {top} holds a protected namespace: {namespace}")
    for tabular in tabulars:
        if tabular.protected:
            raise ChildTabularProtected(
                f"Namespace {top} holds a protected {tabular.kind.replace('-', ' ')}: {tabular}"
            )


def _cancel_expirations(warehouse_id: UUID, tabulars: list[Tabular]) -> None:
    hidden = [tabular.pk for tabular in tabulars if tabular.deleted_at is not None]
    if not cancel_expirations(warehouse_id, hidden):
        raise NamespaceHasRunningTabularExpirations("A soft-deleted table is being deleted permanently; try again")


def _delete_namespaces(namespaces: list[Namespace]) -> EndedGrants:
    """Delete the deepest first, as each is referenced by those below it."""
    ended = EndedGrants()
    for depth in sorted({len(namespace.levels) for namespace in namespaces}, reverse=True):
        ids = [namespace.pk for namespace in namespaces if len(namespace.levels) == depth]
        for batch in batches(ids, BATCH_SIZE):
            ended.merge(remove_securables(ObjectRef(Securable.Type.NAMESPACE, each) for each in batch))
            Namespace.objects.filter(pk__in=batch).delete()
    return ended
