"""What a change of several tabulars would do: a drop of live ones, or a change of their protection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Levels
from catalog.models import Tabular
from icekeeper.kernel.errors.types import BadRequest
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.authz.port import PermissionCheck
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

MAX_CHANGED: Final = 100
"""Tabulars of one preview, and of one change."""

Named = tuple[Tabular.Kind, UUID]
"""A tabular by its kind and the id that clients see."""


class TabularChange(StrEnum):
    DROP = "drop"
    PROTECT = "protect"
    REMOVE_PROTECTION = "remove-protection"

    @property
    def action(self) -> Can:
        return Can.DROP if self is TabularChange.DROP else Can.SET_PROTECTION


class ChangeObstacle(StrEnum):
    """Why a tabular is left out. `NOT_FOUND`: it does not exist, or is hidden from the caller."""

    NOT_FOUND = "not-found"
    FORBIDDEN = "forbidden"
    PROTECTED = "protected"
    UNCHANGED = "unchanged"


class ChangeStep(NamedTuple):
    """What happens to one target: it is changed unless there is an `obstacle`. `files_size` is None if unknown."""

    kind: str
    uuid: UUID
    levels: Levels = ()
    name: str = ""
    is_protected: bool = False
    files_size: int | None = None
    obstacle: ChangeObstacle | None = None


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """The steps in the order of the targets. `digest` changes with what would be changed, and how."""

    warehouse: Warehouse
    steps: tuple[ChangeStep, ...]
    digest: str

    @property
    def changed(self) -> list[Named]:
        return [(Tabular.Kind(each.kind), each.uuid) for each in self.steps if each.obstacle is None]


def change_digest(change: TabularChange, warehouse: Warehouse, rows: Iterable[Tabular]) -> str:
    """Return the digest of a change of these rows: their names, their protection, and for drops how they drop."""
    profile = sorted(warehouse.delete_profile.items()) if change is TabularChange.DROP else []
    shown = sorted((str(row.pk), str(row.namespace_id), row.name, row.protected) for row in rows)
    return sha256(repr((change.value, profile, shown)).encode()).hexdigest()


def preview_change_for(
    *, actor: Actor, warehouse_id: UUID, namespace_id: UUID, change: TabularChange, targets: Sequence[Named]
) -> ChangePreview:
    """Return what the change does with those of the targets in a namespace that can be changed; nothing is changed.

    Two statements and one permission check. Raises `NoSuchWarehouse`, `Forbidden`, and `BadRequest` for more than
    `MAX_CHANGED` targets.
    """
    wanted = list(dict.fromkeys(targets))
    if len(wanted) > MAX_CHANGED:
        raise BadRequest(f"targets: more than {MAX_CHANGED} at once")
    missing = no_such_warehouse(warehouse_id)
    warehouse = Warehouse.objects.using(settings.READ_DATABASE).filter(pk=warehouse_id).first()
    if warehouse is None or warehouse.status != Warehouse.Status.ACTIVE:
        raise missing
    require_permission(actor, Can.USE, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)
    rows = _rows(warehouse_id, namespace_id, wanted)
    refs: dict[Named, ObjectRef] = {each: ObjectRef(Securable.Type(row.kind), row.pk) for each, row in rows.items()}
    checks: list[PermissionCheck] = []
    for ref in refs.values():
        checks += [(change.action, ref), (SEEN_BY[ref.type], ref)]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True)) if checks else {}
    steps, changed = [], []
    for named in wanted:
        row, obstacle = rows.get(named), None
        if row is None or not allowed[SEEN_BY[refs[named].type], refs[named]]:
            steps.append(ChangeStep(named[0].value, named[1], obstacle=ChangeObstacle.NOT_FOUND))
            continue
        if not allowed[change.action, refs[named]]:
            obstacle = ChangeObstacle.FORBIDDEN
        elif change is TabularChange.DROP and row.protected:
            obstacle = ChangeObstacle.PROTECTED
        elif change is not TabularChange.DROP and row.protected == (change is TabularChange.PROTECT):
            obstacle = ChangeObstacle.UNCHANGED
        else:
            changed.append(row)
        totals = getattr(row, "totals", None)
        size = None if totals is None else totals.files_size
        steps.append(ChangeStep(row.kind, row.uuid, row.namespace.levels, row.name, row.protected, size, obstacle))
    return ChangePreview(warehouse, tuple(steps), change_digest(change, warehouse, changed))


class Changeable(NamedTuple):
    """The tabulars among some, by the ids that clients see, that the caller may drop or protect."""

    droppable: frozenset[UUID]
    protectable: frozenset[UUID]

    @property
    def any(self) -> frozenset[UUID]:
        return self.droppable | self.protectable


def find_changeable_for(*, actor: Actor, warehouse_id: UUID, uuids: Collection[UUID]) -> Changeable:
    """Return which of the live tabulars that the caller has listed may be changed. One statement, one check."""
    rows = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).live().filter(uuid__in=uuids)
    found = list(rows.values_list("uuid", "kind", "pk")) if uuids else []
    named: list[tuple[UUID, ObjectRef]] = [(uuid, ObjectRef(Securable.Type(kind), pk)) for uuid, kind, pk in found]
    checks: list[PermissionCheck] = [(action, ref) for action in (Can.DROP, Can.SET_PROTECTION) for _, ref in named]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True)) if checks else {}
    return Changeable(
        frozenset(uuid for uuid, ref in named if allowed[Can.DROP, ref]),
        frozenset(uuid for uuid, ref in named if allowed[Can.SET_PROTECTION, ref]),
    )


def _rows(warehouse_id: UUID, namespace_id: UUID, wanted: Sequence[Named]) -> dict[Named, Tabular]:
    found = (
        Tabular.objects.using(settings.READ_DATABASE)
        .in_warehouse(warehouse_id)
        .live()
        .filter(namespace_id=namespace_id, uuid__in={uuid for _, uuid in wanted})
        .select_related("namespace", "totals")
        .defer("namespace__properties")
    )
    named = {(Tabular.Kind(row.kind), row.uuid): row for row in found}
    return {each: named[each] for each in wanted if each in named}
