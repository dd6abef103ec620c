"""Dropped tabulars of a warehouse by the time of their expiration, and which can be deleted permanently now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from catalog.identifiers import Levels
from catalog.models import Tabular
from catalog.selectors.candidates import candidate_tabulars
from catalog.selectors.tables.undrop_preview import MAX_PREVIEWED, Named, Obstacle
from catalog.selectors.visible_pages import batch_size, open_page_token, scan_visible, seal_page_token
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key, path_key
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permissions import action_forbidden, check_permissions, visible_objects
from tenancy.authz.port import PermissionCheck
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

PURGE: Final = "purge"
"""The `deletion_kind` of an expiration that is followed by a purge."""


@dataclass(frozen=True, slots=True)
class DeletedFilters:
    """Tabulars in the namespace `levels` or below it (none: in any), whose name contains `name`."""

    levels: Levels = ()
    name: str = ""


class Dropped(NamedTuple):
    """A dropped tabular; `uuid` is the id that clients see. What its expiration is not known of is None.

    `expires_at` is when it is deleted permanently, or the time of its drop when its expiration has failed. Lists have
    whether the caller is allowed to restore it, and to delete it permanently.
    """

    id: UUID
    kind: str
    uuid: UUID
    levels: Levels
    name: str
    deleted_at: datetime
    expires_at: datetime
    files_size: int | None
    dropped_by: str | None = None
    deletes_files: bool | None = None
    can_restore: bool = False
    can_expire: bool = False


def list_expiring_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, filters: DeletedFilters, page: Page
) -> tuple[list[Dropped], str | None]:
    """Return dropped tabulars, the next to expire first, and the next page's token.

    All dropped rows that the caller sees are sorted for a page. Raises `NoSuchWarehouse`, `Forbidden`.
    """
    may_list, sees_everything, controls_all = require_on_warehouse(
        actor, warehouse_id, Can.USE, [Can.LIST_DELETED_TABULARS, Can.LIST_EVERYTHING, Can.CONTROL_ALL_TASKS]
    )
    if not may_list:
        raise action_forbidden(actor, Can.LIST_DELETED_TABULARS, ObjectRef(Securable.Type.WAREHOUSE, warehouse_id))
    after = None
    if page.token:
        at, own_id = open_page_token(page.token, page.kind)
        after = datetime.fromisoformat(at), UUID(own_id)
    visible = None if sees_everything else visible_objects(actor)
    size = batch_size(page, visible, sees_everything=sees_everything)
    found = scan_visible(
        actor=actor,
        batches=_batches(_dropped(warehouse_id).filter(candidate_tabulars(visible)), filters, after, size),
        ref=lambda row: ObjectRef(Securable.Type(row.kind), row.pk),
        sees_everything=sees_everything,
        wanted=page.sql_limit,
    )
    shown, cursor = found.truncated(page.size)
    token = None if cursor is None else seal_page_token(page.kind, cursor.expires_at.isoformat(), str(cursor.pk))
    return _with_permissions(actor, _with_tasks(warehouse_id, shown), controls_all=controls_all), token


def _dropped(warehouse_id: UUID) -> QuerySet[Any]:
    expiration = Task.objects.live().filter(
        queue=Task.Queue.SOFT_DELETION, warehouse_id=OuterRef("warehouse_id"), entity_id=OuterRef("pk")
    )
    return (
        Tabular.objects.using(settings.READ_DATABASE)
        .in_warehouse(warehouse_id)
        .dropped()
        .annotate(expires_at=Coalesce(Subquery(expiration.values("scheduled_for")[:1]), F("deleted_at")))
        .select_related("namespace", "totals")
        .defer("namespace__properties")
    )


def _batches(
    dropped: QuerySet[Any], filters: DeletedFilters, after: tuple[datetime, UUID] | None, size: int
) -> Iterator[list[Any]]:
    rows = dropped.order_by("expires_at", "pk")
    if filters.levels:
        key = path_key(filters.levels)
        rows = rows.filter(Q(namespace__path_key=key) | Q(namespace__path_key__startswith=f"{key}{LEVEL_SEPARATOR}"))
    if filters.name:
        rows = rows.filter(name_key__contains=lookup_key(filters.name))
    while True:
        found = list((rows if after is None else rows.filter(_following(*after)))[:size])
        yield found
        if len(found) < size:
            return
        after = found[-1].expires_at, found[-1].pk


def _following(at: datetime, own_id: UUID) -> Q:
    return Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=own_id)


def _with_tasks(warehouse_id: UUID, rows: Sequence[Any]) -> list[Dropped]:
    """Add who dropped the tabulars, and what happens to their files. One statement."""
    found = Task.objects.using(settings.READ_DATABASE).of_entities(
        Task.Queue.SOFT_DELETION, warehouse_id, [row.pk for row in rows]
    )
    tasks = {task.entity_id: task for task in found} if rows else {}
    dropped = []
    for row in rows:
        task, totals = tasks.get(row.pk), getattr(row, "totals", None)
        dropped.append(
            Dropped(
                row.pk, row.kind, row.uuid, row.namespace.levels, row.name, row.deleted_at, row.expires_at,
                None if totals is None else totals.files_size,
                None if task is None else task.created_by,
                None if task is None else task.payload.get("deletion_kind") == PURGE,
            )
        )  # fmt: skip
    return dropped


def _with_permissions(actor: Actor, dropped: Sequence[Dropped], *, controls_all: bool) -> list[Dropped]:
    """Add what the caller is allowed to do with the tabulars. One permission check."""
    refs: list[ObjectRef] = [ObjectRef(Securable.Type(each.kind), each.id) for each in dropped]
    checks: list[PermissionCheck] = [(action, ref) for ref in refs for action in (Can.UNDROP, Can.CONTROL_TASKS)]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True)) if checks else {}
    return [
        each._replace(can_restore=allowed[Can.UNDROP, ref], can_expire=controls_all or allowed[Can.CONTROL_TASKS, ref])
        for each, ref in zip(dropped, refs, strict=True)
    ]


class ExpirationStep(NamedTuple):
    """What happens to one target: its task `task_id` deletes it now, unless there is an `obstacle`."""

    kind: str
    uuid: UUID
    dropped: Dropped | None = None
    task_id: UUID | None = None
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class ExpirationPreview:
    """The steps in the order of the targets. `digest` changes with what would be deleted."""

    steps: tuple[ExpirationStep, ...]

    @property
    def task_ids(self) -> list[UUID]:
        return [each.task_id for each in self.steps if each.obstacle is None and each.task_id is not None]

    @property
    def digest(self) -> str:
        shown = sorted((each.kind, str(each.uuid), str(each.obstacle), str(each.task_id)) for each in self.steps)
        return sha256(repr(shown).encode()).hexdigest()


def preview_expiration_for(*, actor: Actor, warehouse_id: UUID, targets: Sequence[Named]) -> ExpirationPreview:
    """Return which of the targets can be deleted permanently now, by running their expirations; nothing is changed.

    Raises `NoSuchWarehouse`, `Forbidden`, and `BadRequest` for more than `MAX_PREVIEWED` targets.
    """
    wanted = list(dict.fromkeys(targets))
    if len(wanted) > MAX_PREVIEWED:
        raise BadRequest(f"targets: more than {MAX_PREVIEWED} at once")
    (controls_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.CONTROL_ALL_TASKS])
    rows = {
        (Tabular.Kind(row.kind), row.uuid): row
        for row in _dropped(warehouse_id).filter(uuid__in={uuid for _, uuid in wanted})
    }
    refs: dict[Named, ObjectRef] = {named: ObjectRef(Securable.Type(row.kind), row.pk) for named, row in rows.items()}
    checks: list[PermissionCheck] = []
    for ref in refs.values():
        checks += [(Can.CONTROL_TASKS, ref), (SEEN_BY[ref.type], ref)]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True)) if checks else {}
    dropped = {each.id: each for each in _with_tasks(warehouse_id, list(rows.values()))}
    expirations = Task.objects.of_entities(Task.Queue.SOFT_DELETION, warehouse_id, list(dropped))
    scheduled = dict(expirations.filter(status=Task.Status.SCHEDULED).values_list("entity_id", "pk"))
    steps = []
    for named in wanted:
        row = rows.get(named)
        if row is None or not allowed[SEEN_BY[refs[named].type], refs[named]]:
            steps.append(ExpirationStep(named[0].value, named[1], obstacle=Obstacle.NOT_FOUND))
            continue
        task_id, obstacle = scheduled.get(row.pk), None
        if not (controls_all or allowed[Can.CONTROL_TASKS, refs[named]]):
            obstacle = Obstacle.FORBIDDEN
        elif task_id is None:
            obstacle = Obstacle.EXPIRING
        steps.append(ExpirationStep(row.kind, row.uuid, dropped[row.pk], task_id, obstacle))
    return ExpirationPreview(tuple(steps))
