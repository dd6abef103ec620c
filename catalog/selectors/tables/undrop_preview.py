"""What a restore of soft-deleted tabulars would do: which are restored, and why others are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from catalog.identifiers import Levels
from catalog.models import Tabular
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can, reads_grants
from tenancy.authz.permissions import check_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id

MAX_PREVIEWED: Final = 100
"""Tabulars of one preview."""

Named = tuple[Tabular.Kind, UUID]
"""A tabular by its kind and the id that clients see."""


class Obstacle(StrEnum):
    """Why a tabular is not restored. `NOT_FOUND`: it does not exist, or is hidden from the caller."""

    NOT_FOUND = "not-found"
    FORBIDDEN = "forbidden"
    NOT_DROPPED = "not-dropped"
    EXPIRING = "expiring"
    NAME_TAKEN = "name-taken"
    NAME_TWICE = "name-twice"


NAME_OBSTACLES: Final = frozenset({Obstacle.NAME_TAKEN, Obstacle.NAME_TWICE})
"""Obstacles that another name removes."""


class Occupant(NamedTuple):
    """The tabular that has the name by now; None for one that is hidden from the caller."""

    kind: str
    uuid: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UndropStep:
    """What happens to one target: it is restored unless there is an `obstacle`.

    `grants` are those on it, which are in force again; None if the caller may not read them. With `can_rename` one
    whose name is taken can be restored under another name.
    """

    kind: str
    uuid: UUID
    levels: Levels = ()
    name: str = ""
    deleted_at: datetime | None = None
    expires_at: datetime | None = None
    obstacle: Obstacle | None = None
    occupant: Occupant | None = None
    grants: int | None = None
    can_rename: bool = False


@dataclass(frozen=True, slots=True)
class UndropPreview:
    """The steps in the order of the targets. `digest` changes with what would be restored and left out."""

    steps: tuple[UndropStep, ...]

    @property
    def restored(self) -> list[Named]:
        return [(Tabular.Kind(each.kind), each.uuid) for each in self.steps if each.obstacle is None]

    @property
    def digest(self) -> str:
        shown = sorted((each.kind, str(each.uuid), str(each.obstacle), str(each.deleted_at)) for each in self.steps)
        return sha256(repr(shown).encode()).hexdigest()


def preview_undrop_for(*, actor: Actor, warehouse_id: UUID, targets: Sequence[Named]) -> UndropPreview:
    """Return what `undrop_tabulars` does with those of the targets that can be restored; nothing is changed.

    Of several dropped tabulars with one name the one that was dropped last is restored. Raises `NoSuchWarehouse`,
    `Forbidden`, and `BadRequest` for more than `MAX_PREVIEWED` targets.
    """
    wanted = list(dict.fromkeys(targets))
    if len(wanted) > MAX_PREVIEWED:
        raise BadRequest(f"targets: more than {MAX_PREVIEWED} at once")
    require_on_warehouse(actor, warehouse_id, Can.USE)
    rows = _rows(warehouse_id, wanted)
    allowed = _permissions(actor, rows.values())
    occupants = _occupants(actor, rows.values())
    expirations = Task.objects.of_entities(Task.Queue.SOFT_DELETION, warehouse_id, [row.pk for row in rows.values()])
    running = set(expirations.running().values_list("entity_id", flat=True))
    names: set[tuple[UUID, str]] = set()
    obstacles: dict[Named, Obstacle | None] = {}
    latest_first = sorted(wanted, key=lambda each: _dropped_at(rows.get(each)), reverse=True)
    for named in latest_first:
        row = rows.get(named)
        obstacles[named] = obstacle = _obstacle(row, allowed, occupants, names, running)
        if row is not None and obstacle is None:
            names.add((row.namespace_id, row.name_key))
    steps: list[UndropStep] = []
    counts = _count_grants(rows.values(), allowed)
    for named in wanted:
        obstacle = obstacles[named]
        row = rows.get(named)
        if row is None or obstacle is Obstacle.NOT_FOUND:
            steps.append(UndropStep(named[0].value, named[1], obstacle=Obstacle.NOT_FOUND))
            continue
        steps.append(
            UndropStep(
                row.kind,
                row.uuid,
                row.namespace.levels,
                row.name,
                row.deleted_at,
                row.expires_at,  # type: ignore[attr-defined]  # annotated
                obstacle,
                occupants.get((row.namespace_id, row.name_key)) if obstacle is Obstacle.NAME_TAKEN else None,
                counts.get(row.pk) if obstacle is None else None,
                obstacle in NAME_OBSTACLES and allowed[Can.RENAME, _ref(row)],
            )
        )
    return UndropPreview(tuple(steps))


def _rows(warehouse_id: UUID, wanted: Sequence[Named]) -> dict[Named, Tabular]:
    expirations = Task.objects.live().filter(
        queue=Task.Queue.SOFT_DELETION, warehouse_id=OuterRef("warehouse_id"), entity_id=OuterRef("pk")
    )
    found = (
        Tabular.objects.in_warehouse(warehouse_id)
        .filter(uuid__in={uuid for _, uuid in wanted})
        .select_related("namespace")
        .defer("namespace__properties")
        .annotate(
            expires_at=Coalesce(Subquery(expirations.values("scheduled_for")[:1]), F("deleted_at")),
        )
    )
    named = {(Tabular.Kind(row.kind), row.uuid): row for row in found}
    return {each: named[each] for each in wanted if each in named}


Allowed = Mapping[PermissionCheck, bool]


def _ref(row: Tabular) -> ObjectRef:
    return ObjectRef(Securable.Type(row.kind), row.pk)


def _permissions(actor: Actor, rows: Iterable[Tabular]) -> Allowed:
    refs = [_ref(row) for row in rows]
    checks = [
        (action, ref) for ref in refs for action in (Can.UNDROP, Can.RENAME, SEEN_BY[ref.type], reads_grants(ref))
    ]
    return dict(zip(checks, check_permissions(actor, checks), strict=True)) if checks else {}


def _dropped_at(row: Tabular | None) -> datetime:
    return (row.deleted_at if row is not None else None) or datetime.min.replace(tzinfo=now().tzinfo)


def _obstacle(
    row: Tabular | None,
    allowed: Allowed,
    occupants: Mapping[tuple[UUID, str], Occupant | None],
    names: set[tuple[UUID, str]],
    running: Collection[UUID],
) -> Obstacle | None:
    if row is None or not allowed[SEEN_BY[_ref(row).type], _ref(row)]:
        return Obstacle.NOT_FOUND
    name = (row.namespace_id, row.name_key)
    if row.deleted_at is None:
        return Obstacle.NOT_DROPPED
    for obstacle, applies in (
        (Obstacle.FORBIDDEN, not allowed[Can.UNDROP, _ref(row)]),
        (Obstacle.EXPIRING, row.pk in running),
        (Obstacle.NAME_TAKEN, name in occupants),
        (Obstacle.NAME_TWICE, name in names),
    ):
        if applies:
            return obstacle
    return None


def _occupants(actor: Actor, rows: Iterable[Tabular]) -> dict[tuple[UUID, str], Occupant | None]:
    """Return the live tabulars that have the names of dropped ones, by namespace and name key."""
    dropped = [row for row in rows if row.deleted_at is not None]
    live = Tabular.objects.live().filter(
        namespace_id__in={row.namespace_id for row in dropped}, name_key__in={row.name_key for row in dropped}
    )
    found = list(live.only("kind", "uuid", "namespace_id", "name_key", "created_at"))
    checks: list[PermissionCheck] = [(SEEN_BY[_ref(row).type], _ref(row)) for row in found]
    seen = check_permissions(actor, checks) if checks else []
    return {
        (row.namespace_id, row.name_key): Occupant(row.kind, row.uuid, row.created_at) if is_seen else None
        for row, is_seen in zip(found, seen, strict=True)
    }


def _count_grants(rows: Iterable[Tabular], allowed: Allowed) -> dict[UUID, int]:
    """Return the number of grants on each tabular whose grants the caller may read."""
    readable = {securable_id(*_ref(row)): row.pk for row in rows if allowed[reads_grants(_ref(row)), _ref(row)]}
    counts = dict.fromkeys(readable.values(), 0)
    grants = Grant.objects.unexpired(now()).filter(securable_id__in=readable)
    for own_id in grants.values_list("securable_id", flat=True):
        counts[readable[own_id]] += 1
    return counts
