"""Proposed changes of tables, views and generic tables, built by the services that write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any
from uuid import UUID

from catalog.identifiers import Identifier
from catalog.models import GenericTable, Namespace, Tabular
from catalog.selectors.tables.metadata_cache import Version, metadata_of, read_metadata_document
from catalog.selectors.tables.targets import CurrentTabular, Target
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction, Metadata, ProposedChange
from catalog.services.approval.tags import TagReader
from icekeeper.kernel.db.sql import batches
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.models.securable import securable_id

BATCH_SIZE = 500
"""Rows that one statement reads."""


def require_approved_creation(
    actor: Actor, target: Target, kind: Tabular.Kind, metadata: Metadata, *, action: ChangeAction = ChangeAction.CREATE
) -> None:
    """Require the approval of the creation of the tabular that `target` names. Raises as `require_approval`."""
    require_approval(
        target.rules_version,
        lambda: [propose_creation(actor, target, kind, metadata, action=action)],
        warehouse_id=target.warehouse_id,
    )


def propose_creation(
    actor: Actor, target: Target, kind: Tabular.Kind, metadata: Metadata, *, action: ChangeAction = ChangeAction.CREATE
) -> ProposedChange:
    """Return the creation of the tabular that `target` names, which does not exist."""
    return _of_target(action, actor, target, Securable.Type(kind.value), proposed=metadata)


def propose_commit(
    actor: Actor,
    target: Target,
    current: CurrentTabular,
    base: Metadata,
    metadata: Metadata,
    *,
    updates: Sequence[Any],
    removed_snapshot_ids: Sequence[int] = (),
) -> ProposedChange:
    """Return the new version `metadata` of `current`, whose metadata is `base`."""
    return _of_current(
        ChangeAction.COMMIT, actor, target, current, read_current=lambda: base, proposed=metadata, updates=updates,
        find_removed_snapshots=lambda: removed_snapshot_ids,
    )  # fmt: skip


def propose_replacement(actor: Actor, target: Target, current: CurrentTabular, metadata: Metadata) -> ProposedChange:
    """Return the replacement of `current` by a registered metadata file."""
    read_current = cache(partial(read_current_metadata, current.id))

    def find_removed_snapshots() -> list[int]:
        kept = {each["snapshot-id"] for each in metadata.get("snapshots") or ()}
        before = (read_current() or {}).get("snapshots") or ()
        return [each["snapshot-id"] for each in before if each["snapshot-id"] not in kept]

    return _of_current(
        ChangeAction.REGISTER, actor, target, current, read_current=read_current, proposed=metadata,
        find_removed_snapshots=find_removed_snapshots,
    )  # fmt: skip


def propose_drop(actor: Actor, target: Target, current: CurrentTabular) -> ProposedChange:
    return _of_current(
        ChangeAction.DROP, actor, target, current, read_current=partial(read_current_metadata, current.id)
    )


def propose_rename(
    actor: Actor, target: Target, current: CurrentTabular, destination: Identifier, namespace_id: UUID
) -> ProposedChange:
    return _of_current(
        ChangeAction.RENAME, actor, target, current, read_current=partial(read_current_metadata, current.id),
        destination=(destination.levels, destination.name), destination_namespace_id=namespace_id,
    )  # fmt: skip


def _of_current(
    action: ChangeAction,
    actor: Actor,
    target: Target,
    current: CurrentTabular,
    *,
    read_current: Callable[[], Metadata | None],
    **more: Any,
) -> ProposedChange:
    return _of_target(
        action, actor, target, Securable.Type(current.kind), object_id=current.id, uuid=current.uuid,
        read_current=read_current, **{"namespace_id": current.namespace_id} | more,
    )  # fmt: skip


def _of_target(
    action: ChangeAction, actor: Actor, target: Target, object_type: Securable.Type, **more: Any
) -> ProposedChange:
    return ProposedChange(
        action=action,
        object_type=object_type,
        actor=actor,
        project_id=target.project_id,
        warehouse_id=target.warehouse_id,
        levels=target.identifier.levels,
        name=target.identifier.name,
        **{"namespace_id": target.namespace_id} | more,
    )


def propose_each(
    action: ChangeAction,
    actor: Actor,
    own_ids: Sequence[UUID],
    *,
    new_names: Mapping[UUID, str] | None = None,
    is_nested: bool = False,
) -> Iterator[ProposedChange]:
    """Yield a change for each of the tabulars that still exist, dropped or not, in the order of their ids.

    `new_names` are those of tabulars that are restored under another name. One statement for each `BATCH_SIZE`.
    """
    rows: list[Tabular] = []
    for batch in batches(own_ids, BATCH_SIZE):
        found = Tabular.objects.filter(pk__in=batch).select_related("namespace", "warehouse").order_by("pk")
        rows += found.defer("namespace__properties", "warehouse__storage_profile")
    tags = TagReader([securable_id(Securable.Type(row.kind), row.pk) for row in rows])
    for row in rows:
        new_name = (new_names or {}).get(row.pk)
        yield ProposedChange(
            action=action,
            object_type=Securable.Type(row.kind),
            actor=actor,
            project_id=row.warehouse.project_id,
            warehouse_id=row.warehouse_id,
            levels=row.namespace.levels,
            name=row.name,
            object_id=row.pk,
            uuid=row.uuid,
            namespace_id=row.namespace_id,
            destination=None if new_name is None else (row.namespace.levels, new_name),
            read_current=partial(read_current_metadata, row.pk),
            is_nested=is_nested,
            tags=tags,
        )


def read_current_metadata(tabular_id: UUID) -> Metadata | None:
    """Return the current metadata of a tabular, of a generic table its description; None if it does not exist any more.

    It must not be modified. One statement; large metadata is read from the object store.
    """
    row = Tabular.objects.select_related("warehouse", "current_metadata").filter(pk=tabular_id).first()
    if row is None:
        return None
    if row.kind == Tabular.Kind.GENERIC_TABLE:
        described = GenericTable.objects.filter(pk=tabular_id).first()
        return None if described is None else describe_generic_table(described)
    version = Version(row.pk, row.metadata_location)
    return metadata_of(version, read_metadata_document(row.warehouse.storage, version, row.current_metadata.document))


def describe_generic_table(described: GenericTable) -> dict[str, Any]:
    """Return what rules see of a generic table."""
    return {"format": described.format, "doc": described.doc, "properties": described.properties}


def propose_namespace(
    action: ChangeAction,
    actor: Actor,
    warehouse_id: UUID,
    levels: tuple[str, ...],
    *,
    namespace_id: UUID | None,
    parent_id: UUID | None = None,
    properties: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None,
    **more: Any,
) -> ProposedChange:
    """Return a change of a namespace; without `namespace_id` its creation below `parent_id`, None for the top.

    `properties` returns the properties after the change, given those before. One statement, two for an existing one.
    """
    project_id = Warehouse.objects.filter(pk=warehouse_id).values_list("project_id", flat=True).first() or ""
    before: Mapping[str, str] | None = None
    if namespace_id is not None:
        before = Namespace.objects.filter(pk=namespace_id).values_list("properties", flat=True).first() or {}
    return _of_namespace(
        action,
        actor,
        warehouse_id,
        levels,
        before,
        project_id=project_id,
        object_id=namespace_id,
        namespace_id=parent_id if namespace_id is None else namespace_id,
        proposed=None if properties is None else {"properties": properties(before or {})},
        **more,
    )


def _of_namespace(
    action: ChangeAction,
    actor: Actor,
    warehouse_id: UUID,
    levels: tuple[str, ...],
    before: Mapping[str, str] | None,
    *,
    object_id: UUID | None,
    **more: Any,
) -> ProposedChange:
    """Return a change of a namespace with the properties `before`, None for one that does not exist. No statement."""
    return ProposedChange(
        action=action,
        object_type=Securable.Type.NAMESPACE,
        actor=actor,
        warehouse_id=warehouse_id,
        levels=levels,
        object_id=object_id,
        uuid=object_id,
        read_current=lambda: None if before is None else {"properties": before},
        **more,
    )


MAX_NAMED = 1_000
"""Names of what is dropped with a namespace that a change lists."""


class SubtreeDrop:
    """The drop of a namespace with everything in it, as it was when the rules were asked about it."""

    def __init__(self, actor: Actor, warehouse_id: UUID, namespace_id: UUID) -> None:
        self._actor, self._warehouse_id, self._namespace_id = actor, warehouse_id, namespace_id
        self._asked: set[UUID] | None = None

    def propose(self) -> list[ProposedChange]:
        """Return the drop of the namespace, then those of the namespaces and tabulars below.

        Three statements, and some for each `BATCH_SIZE` namespaces and tabulars.
        """
        top = Namespace.objects.select_related("warehouse").filter(pk=self._namespace_id).first()
        if top is None:  # dropped concurrently
            return []
        subtree = Namespace.objects.in_warehouse(self._warehouse_id).in_subtree(top.path_key).order_by("path_key", "pk")
        below = [each for each in subtree if each.pk != top.pk]
        namespace_ids = [top.pk, *(each.pk for each in below)]
        own_ids: list[UUID] = []
        for batch in batches(namespace_ids, BATCH_SIZE):
            own_ids += Tabular.objects.filter(namespace_id__in=batch).values_list("pk", flat=True)
        tabulars = list(propose_each(ChangeAction.DROP, self._actor, sorted(own_ids), is_nested=True))
        self._asked = {*namespace_ids, *own_ids}
        names = [".".join((*each.levels, each.name or "")) for each in tabulars[:MAX_NAMED]]
        project_id = top.warehouse.project_id
        first = self._drop(top, project_id=project_id, contents=names, content_count=len(tabulars))
        tags = TagReader([securable_id(Securable.Type.NAMESPACE, each.pk) for each in below])
        nested = [self._drop(each, project_id=project_id, is_nested=True, tags=tags) for each in below]
        return [first, *nested, *tabulars]

    def _drop(self, row: Namespace, **more: Any) -> ProposedChange:
        return _of_namespace(
            ChangeAction.DROP, self._actor, self._warehouse_id, row.levels, row.properties, object_id=row.pk,
            namespace_id=row.pk, **more,
        )  # fmt: skip

    def includes(self, own_ids: Sequence[UUID]) -> bool:
        """Return whether the rules were asked about all of these, or no rule can apply."""
        return self._asked is None or self._asked.issuperset(own_ids)
