"""Objects of the catalog by the ids in addresses of the console: their path and their facts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import F
from django.db.models.lookups import IsNull

from catalog.errors import no_such_object
from catalog.identifiers import Identifier, Levels
from catalog.models import Namespace, Snapshot, Tabular
from catalog.objects import ObjectKey, client_uuids, resolve_object_key
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable

NAMESPACE: Final = "namespace"


@dataclass(frozen=True, slots=True)
class PathStep:
    """An object above another one: its kind (`project`, `warehouse`, `namespace`), id and name."""

    kind: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class LocatedNamespace:
    """A namespace and the objects above it, the project first. `levels` are in its own spelling."""

    namespace: Namespace
    levels: Levels
    path: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class LocatedTabular:
    """A live table, view or generic table and the objects above it, the project first."""

    tabular: Tabular
    identifier: Identifier
    path: tuple[PathStep, ...]


def warehouse_path(warehouse: Warehouse, project: Project) -> tuple[PathStep, ...]:
    return (
        PathStep("project", project.pk, project.name),
        PathStep("warehouse", str(warehouse.pk), warehouse.name),
    )


def locate_namespace_for(*, actor: Actor, warehouse_id: UUID, namespace_id: UUID) -> LocatedNamespace:
    """Return a namespace of an active warehouse. Two statements. Raises `NoSuchNamespace` (404), `Forbidden`."""
    rows = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id)
    missing = no_such_object(NAMESPACE, namespace_id)
    namespace = rows.select_related("warehouse__project").filter(pk=namespace_id).first()
    if namespace is None or namespace.warehouse.status != Warehouse.Status.ACTIVE:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.NAMESPACE, namespace.pk, missing=missing)
    return LocatedNamespace(namespace, namespace.levels, _path_to(namespace, has_itself=False))


def locate_tabular_for(*, actor: Actor, warehouse_id: UUID, kind: Tabular.Kind, uuid: UUID) -> LocatedTabular:
    """Return a live tabular of an active warehouse by the id that clients see.

    Two statements. Raises the `NoSuch...` of the kind (404), `Forbidden`.
    """
    rows = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).live().of_kind(kind)
    missing = no_such_object(kind.value, uuid)
    tabular = rows.select_related("namespace__warehouse__project").filter(uuid=uuid).first()
    if tabular is None or tabular.namespace.warehouse.status != Warehouse.Status.ACTIVE:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type(kind.value), tabular.pk, missing=missing)
    namespace = tabular.namespace
    return LocatedTabular(tabular, Identifier(namespace.levels, tabular.name), _path_to(namespace, has_itself=True))


def find_object_for(*, actor: Actor, warehouse_id: UUID, kind: str, levels: Levels, name: str) -> UUID:
    """Return the id that clients see of a namespace (`levels`), or of the live tabular `name` in it.

    Two statements. Raises the `NoSuch...` of the kind (404), `Forbidden`.
    """
    key = ObjectKey(Securable.Type(kind), warehouse_id, levels=levels, name=name)
    missing = key.missing()
    ref = resolve_object_key(key)
    if ref is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, *ref, missing=missing)
    own_id = UUID(str(ref.id))
    return own_id if kind == NAMESPACE else client_uuids([own_id])[own_id]


def _path_to(namespace: Namespace, *, has_itself: bool) -> tuple[PathStep, ...]:
    """Return the project, the warehouse, and the namespaces above; with `has_itself` also the namespace."""
    warehouse = namespace.warehouse
    keys = namespace.path_key.split(LEVEL_SEPARATOR)
    above = [LEVEL_SEPARATOR.join(keys[:depth]) for depth in range(1, len(keys) + has_itself)]
    rows = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(warehouse.pk).filter(path_key__in=above)
    found = sorted(rows.only("id", "path"), key=lambda each: len(each.levels)) if above else []
    steps = (PathStep(NAMESPACE, str(each.pk), each.levels[-1]) for each in found)
    return (*warehouse_path(warehouse, warehouse.project), *steps)


@dataclass(frozen=True, slots=True)
class TabularFacts:
    """The totals of a table and who committed to it last; None where it is not known.

    `is_large` is set if the metadata is in the object store only.
    """

    is_large: bool
    records: int | None
    files_size: int | None
    data_files: int | None
    delete_files: int | None
    snapshot_count: int | None
    ref_count: int | None
    committed_at: datetime | None
    committed_by: str | None
    engine: str | None


def find_facts(*, warehouse_id: UUID, uuids: Collection[UUID]) -> dict[UUID, TabularFacts]:
    """Return the facts of tables and views by the ids that clients see. One statement.

    For tabulars that the caller has listed or located, and so may see.
    """
    rows = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id)
    rows = rows.of_kind(Tabular.Kind.TABLE, Tabular.Kind.VIEW).filter(uuid__in=uuids)
    rows = rows.annotate(is_large=IsNull(F("current_metadata__document"), True))  # noqa: FBT003 - Django's signature
    totals = ("records", "files_size", "data_files", "delete_files", "snapshot_count", "ref_count")
    columns = ("uuid", "is_large", *(f"totals__{each}" for each in totals), "committed_at", "committed_by", "engine")
    if not uuids:
        return {}
    return {uuid: TabularFacts(bool(is_large), *facts) for uuid, is_large, *facts in rows.values_list(*columns)}


def find_committers(*, tabular_id: UUID, snapshot_ids: Collection[int]) -> dict[int, str]:
    """Return who committed these snapshots of a table, as far as it was recorded. One statement."""
    rows = Snapshot.objects.using(settings.READ_DATABASE).filter(
        tabular_id=tabular_id, snapshot_id__in=snapshot_ids, committed_by__isnull=False
    )
    return {snapshot_id: str(by) for snapshot_id, by in rows.values_list("snapshot_id", "committed_by")}
