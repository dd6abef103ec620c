"""Reads of the audit trail. Each read is itself recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.db.models import Q, Value
from django.db.models.functions import Coalesce

from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page, build_page, time_and_id_key
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_audit_read
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed, require_permission
from tenancy.models import AuditChain, AuditRecord, Project, Securable
from tenancy.models.audit_record import AuditRecordQuerySet
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import server_ref

CHUNK: Final = 200
"""Rows of an export that are in memory at once."""


class AuditRecordsDeleted(CatalogError):
    """Retention has deleted rows after the position from which an export was to continue."""

    status, wire_type = 410, "AuditRecordsDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilters:
    """Rows that equal all given values, from `start` inclusive to `end` exclusive.

    With `project`, the permission on that project is sufficient.
    """

    project: str | None = None
    actor: str | None = None
    assumed_role: UUID | None = None
    access_token_id: UUID | None = None
    event: str | None = None
    action: str | None = None
    outcome: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    request_id: UUID | None = None
    start: datetime | None = None
    end: datetime | None = None
    created_at: datetime | None = None
    """Creation of the project, for callers who may read its rows only: an older project may have had the same id."""
    own_ids: tuple[str, ...] = ()
    """Internal ids that rows may contain instead of the public `object_id`: rows with either are found."""

    def given(self) -> dict[str, Any]:
        internal = {"created_at", "own_ids"}
        return {name: value for name, value in asdict(self).items() if value is not None and name not in internal}

    def found(self) -> AuditRecordQuerySet:
        wanted = self.given()
        project, start, end = wanted.pop("project", None), wanted.pop("start", None), wanted.pop("end", None)
        kind = wanted.pop("object_type", None)
        if self.own_ids:
            wanted["object_id__in"] = {wanted.pop("object_id"), *self.own_ids}
        rows = AuditRecord.objects.using(settings.READ_DATABASE).filter(**wanted)
        if project is not None:
            rows = rows.filter(project_id=project)
        if kind is not None:
            is_alone = not wanted and project is None
            rows = rows.filter(object_type=kind) if is_alone else _of_type(rows, kind)
        # As in the conditions of the partial indexes, which SQLite does not use otherwise.
        if self.action is not None:
            rows = rows.exclude(action="")
        if self.outcome not in {None, AuditRecord.Outcome.ALLOWED}:
            rows = rows.exclude(outcome=AuditRecord.Outcome.ALLOWED)
        if self.created_at is not None:
            rows = rows.filter(at__gte=self.created_at)
        if start is not None:
            rows = rows.filter(at__gte=start)
        if end is not None:
            rows = rows.filter(at__lt=end)
        return rows


def _of_type(rows: AuditRecordQuerySet, kind: str) -> AuditRecordQuerySet:
    """Filter by type together with another filter. On SQLite without an index, since it would prefer the index of types
    to the more selective one of object ids."""
    if connections[rows.db].vendor != "sqlite":
        return rows.filter(object_type=kind)
    return rows.alias(type_text=Coalesce("object_type", Value(""))).filter(type_text=kind)


def list_audit_records_for(*, actor: Actor, filters: AuditFilters, page: Page) -> tuple[list[AuditRecord], str | None]:
    """Return rows, newest first, sealed or not, and the next page token. Raises `Forbidden`, `InvalidPageToken`."""
    filters = _authorize(actor, filters, is_export=False, details={} if not page.token else {"page": "next"})
    rows = filters.found().order_by("-at", "-id")
    if page.token:
        at, record_id = page.after_time_and_id()
        rows = rows.filter(at__lte=at).filter(Q(at__lt=at) | Q(id__lt=record_id))
    found = _newest(rows, page.sql_limit)
    return build_page([(time_and_id_key(row.at, row.id), row) for row in found], page)


def _newest(rows: AuditRecordQuerySet, limit: int) -> list[AuditRecord]:
    """Return the newest rows, from two statements: only sealed rows are in the indexes of the filters.

    The unsealed rows, which are few, are read first: a row that is sealed meanwhile is found twice, and not missed.
    """
    found = {row.id: row for row in [*rows.unsealed()[:limit], *rows.sealed()[:limit]]}
    return sorted(found.values(), key=lambda row: (row.at, row.id), reverse=True)[:limit]


def export_audit_records_for(
    *, actor: Actor, filters: AuditFilters, after: int, limit: int
) -> Iterator[list[AuditRecord]]:
    """Return sealed rows after the position `after`, in the order of the chain, at most `limit`, in chunks.

    The export also ends when the request reaches its time limit or when retention deletes rows ahead of it. Clients
    that continue after the last row that they received miss none. Raises `Forbidden`, and `AuditRecordsDeleted` (410)
    if retention has deleted rows after `after`; 0 starts with the oldest row that exists.
    """
    filters = _authorize(actor, filters, is_export=True, details={"after": after, "limit": limit})
    ends = monotonic() + settings.ICEKEEPER.max_request_time
    positions = _find_positions(filters, after, limit)
    first = _read(positions[:CHUNK])
    require_no_gap(after)
    return _chunks(first, positions, ends)


def read_chunk(filters: AuditFilters, *, after: int, limit: int) -> list[AuditRecord]:
    return list(filters.found().after_position(after)[:limit])


def _find_positions(filters: AuditFilters, after: int, limit: int) -> list[int]:
    """Return the positions of the rows of an export, found once and not per chunk, since the database may have to sort
    all rows that match the filters."""
    found = filters.found().after_position(after).values_list("position", flat=True)
    return [position for position in found[:limit] if position is not None]


def _read(positions: Sequence[int]) -> list[AuditRecord]:
    if not positions:
        return []
    rows = AuditRecord.objects.using(settings.READ_DATABASE).sealed().filter(position__in=positions)
    return list(rows.order_by("position"))


def _chunks(rows: list[AuditRecord], positions: Sequence[int], ends: float) -> Iterator[list[AuditRecord]]:
    """Yield chunks; end also after an incomplete one: a replica may lag behind the one that returned the positions."""
    for start in range(CHUNK, len(positions) + CHUNK, CHUNK):
        yield rows
        if len(rows) < CHUNK or start >= len(positions) or monotonic() >= ends:
            return
        rows = _read(positions[start : start + CHUNK])
        if _gap_after(positions[start - 1]) is not None:
            return


def _authorize(actor: Actor, filters: AuditFilters, *, is_export: bool, details: dict[str, Any]) -> AuditFilters:
    """Require the permission to read the filtered rows, record the read, and return the filters to apply.

    The permission on a project covers rows since its creation: clients choose ids of projects, and an earlier project
    may have had the same. Rows of a deleted project need the permission on the server. Raises `Forbidden`.
    """
    server: ObjectRef = server_ref()
    securable, created_at = server, None
    if filters.project is not None:
        created_at = Project.objects.filter(pk=filters.project).values_list("created_at", flat=True).first()
        if created_at is not None:
            securable = ObjectRef(Securable.Type.PROJECT, filters.project)
    require_permission(actor, Can.READ_AUDIT, *securable)
    if created_at is not None and is_allowed(actor, Can.READ_AUDIT, *server):
        created_at = None
    record_audit_read(
        actor=actor,
        is_export=is_export,
        object_type=securable.type.value,
        object_id=securable.id,
        project=filters.project,
        filters=filters.given() | details,
    )
    return replace(filters, created_at=created_at)


def require_no_gap(after: int) -> None:
    """Raise `AuditRecordsDeleted` if retention deleted rows after `after`. Call it after the read of those rows."""
    end = _gap_after(after)
    if end is not None:
        raise AuditRecordsDeleted(
            f"Rows {after + 1} to {end} were deleted by retention: continue after {end} to skip them"
        )


def _gap_after(after: int) -> int | None:
    """Return the last deleted position after `after`, None if there is none or `after` is 0."""
    chain = AuditChain.objects.using(settings.READ_DATABASE).first() if after else None
    return chain.anchor_position if chain is not None and after < chain.anchor_position else None
