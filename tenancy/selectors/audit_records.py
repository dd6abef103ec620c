"""Reads of the audit trail. Each leaves a row of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce

from icekeeper.kernel.errors.types import CatalogError, InvalidPageToken
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_audit_read
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed, require_permission
from tenancy.models import AuditChain, AuditRecord, Project, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.server import get_server

CHUNK: Final = 200
"""Rows of an export that are in memory at once."""


class AuditRecordsDeleted(CatalogError):
    """Retention has passed the position that an export was to go on from."""

    status, wire_type = 410, "AuditRecordsDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilters:
    """Only what is equal to all that are given; `start` up to and without `end`. `project` also says whose right
    counts."""

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
    made_at: datetime | None = None
    """Of the project, for who may see its rows alone, which those of an older one with its id are not."""
    own_ids: tuple[str, ...] = ()
    """What rows have in place of `object_id`, where that is an id that clients know an object by: both are found."""

    def given(self) -> dict[str, Any]:
        unasked = {"made_at", "own_ids"}
        return {name: value for name, value in asdict(self).items() if value is not None and name not in unasked}

    def found(self) -> QuerySet[AuditRecord]:
        wanted = self.given()
        project, start, end = wanted.pop("project", None), wanted.pop("start", None), wanted.pop("end", None)
        kind = wanted.pop("object_type", None)
        if self.own_ids:
            wanted["object_id__in"] = {wanted.pop("object_id"), *self.own_ids}
        rows: QuerySet[AuditRecord] = AuditRecord.objects.using(settings.READ_DATABASE).filter(**wanted)
        if project is not None:
            rows = rows.filter(project_id=project)
        if kind is not None:
            is_alone = not wanted and project is None
            rows = rows.filter(object_type=kind) if is_alone else _of_type(rows, kind)
        # In the words of the indexes' conditions, without which SQLite does not take them.
        if self.action is not None:
            rows = rows.exclude(action="")
        if self.outcome not in {None, AuditRecord.Outcome.ALLOWED}:
            rows = rows.exclude(outcome=AuditRecord.Outcome.ALLOWED)
        if self.made_at is not None:
            rows = rows.filter(at__gte=self.made_at)
        if start is not None:
            rows = rows.filter(at__gte=start)
        if end is not None:
            rows = rows.filter(at__lt=end)
        return rows


def _of_type(rows: QuerySet[AuditRecord], kind: str) -> QuerySet[AuditRecord]:
    """Beside another filter. SQLite, which counts no values, would take the index of types before that of an object's
    id, so there it has none."""
    if connections[rows.db].vendor != "sqlite":
        return rows.filter(object_type=kind)
    return rows.alias(type_text=Coalesce("object_type", Value(""))).filter(type_text=kind)


def list_audit_records_for(*, actor: Actor, filters: AuditFilters, page: Page) -> tuple[list[AuditRecord], str | None]:
    """The newest first, sealed or not, and the next page's token. Raises `Forbidden`, `InvalidPageToken`."""
    filters = _permitted(actor, filters, is_export=False, told={} if not page.token else {"page": "next"})
    rows = filters.found().order_by("-at", "-id")
    if page.token:
        at, record_id = _place(page.after_key())
        rows = rows.filter(at__lte=at).filter(Q(at__lt=at) | Q(id__lt=record_id))
    return build_page([(f"{row.at.isoformat()} {row.id}", row) for row in rows[: page.sql_limit]], page)


def export_audit_records_for(
    *, actor: Actor, filters: AuditFilters, after: int, limit: int
) -> Iterator[list[AuditRecord]]:
    """Sealed rows behind the position `after`, in the order of the chain, `limit` at most, in chunks.

    It ends, too, at the first chunk for which the time of a request is over, or which retention has overtaken. Whoever
    goes on behind the last row that came misses none. Raises `Forbidden`, and `AuditRecordsDeleted` (410) when rows
    behind `after` were deleted for their age before they were asked for; 0 begins with what there is.
    """
    filters = _permitted(actor, filters, is_export=True, told={"after": after, "limit": limit})
    ends = monotonic() + settings.ICEKEEPER.max_request_time
    places = _places(filters, after, limit)
    first = _read(places[:CHUNK])
    require_no_gap(after)
    return _chunks(first, places, ends)


def read_chunk(filters: AuditFilters, *, after: int, limit: int) -> list[AuditRecord]:
    return list(filters.found().filter(position__gt=after).order_by("position")[:limit])


def _places(filters: AuditFilters, after: int, limit: int) -> list[int]:
    """Where the rows of an export are: looked for once and not for each chunk, as the database may have to sort all
    that the filters find."""
    found = filters.found().filter(position__gt=after).order_by("position").values_list("position", flat=True)
    return [place for place in found[:limit] if place is not None]


def _read(places: Sequence[int]) -> list[AuditRecord]:
    if not places:
        return []
    rows = AuditRecord.objects.using(settings.READ_DATABASE).filter(position__in=places)
    return list(rows.order_by("position"))


def _chunks(rows: list[AuditRecord], places: Sequence[int], ends: float) -> Iterator[list[AuditRecord]]:
    """It ends, too, behind a chunk that lacks rows: a replica may have fewer than the one that told the places."""
    for start in range(CHUNK, len(places) + CHUNK, CHUNK):
        yield rows
        if len(rows) < CHUNK or start >= len(places) or monotonic() >= ends:
            return
        rows = _read(places[start : start + CHUNK])
        if _gap_behind(places[start - 1]) is not None:
            return


def _permitted(actor: Actor, filters: AuditFilters, *, is_export: bool, told: dict[str, Any]) -> AuditFilters:
    """`filters`, with what the actor's right leaves of them. Raises `Forbidden`.

    For one project its own right counts, for what has happened since that was made: clients choose ids of projects, and
    another one may have had the same. For one that is not there, as it was deleted, only that on the server counts.
    """
    server: ObjectRef = ObjectRef(Securable.Type.SERVER, get_server().server_id)
    securable, made_at = server, None
    if filters.project is not None:
        made_at = Project.objects.filter(pk=filters.project).values_list("created_at", flat=True).first()
        if made_at is not None:
            securable = ObjectRef(Securable.Type.PROJECT, filters.project)
    require_permission(actor, Can.READ_AUDIT, *securable)
    if made_at is not None and is_allowed(actor, Can.READ_AUDIT, *server):
        made_at = None
    record_audit_read(
        actor=actor,
        is_export=is_export,
        object_type=securable.type.value,
        object_id=securable.id,
        project=filters.project,
        filters=filters.given() | told,
    )
    return replace(filters, made_at=made_at)


def require_no_gap(after: int) -> None:
    """To be asked when what comes behind `after` has been read. Raises `AuditRecordsDeleted`."""
    end = _gap_behind(after)
    if end is not None:
        raise AuditRecordsDeleted(
            f"Rows {after + 1} to {end} were deleted for their age: go on with {end}, which leaves them out"
        )


def _gap_behind(after: int) -> int | None:
    """The last of the rows behind `after` that are not there any more; there is no gap before the first row of all."""
    chain = AuditChain.objects.using(settings.READ_DATABASE).first() if after else None
    return chain.anchor_position if chain is not None and after < chain.anchor_position else None


def _place(key: str) -> tuple[datetime, UUID]:
    text, _, last = key.partition(" ")
    record_id = parse_id(last)
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidPageToken("Invalid page token") from None
    if record_id is None:
        raise InvalidPageToken("Invalid page token")
    return at, record_id
