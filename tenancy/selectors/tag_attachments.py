"""Reads of what carries which tags. Who may ask is for the caller to find out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from icekeeper.kernel.http.paging import Page, build_page
from tenancy.models import Securable, TagAttachment, TagDefinition
from tenancy.refs import ObjectRef, securable_id


@dataclass(frozen=True, slots=True)
class TargetTag:
    """A tag that a target has: by the attachment of its own or, when `inherited_from` is not None, by that one's."""

    attachment: TagAttachment
    inherited_from: Securable | None = None


@dataclass(frozen=True, slots=True)
class AttachmentFilter:
    """What a listing is narrowed to; None narrows nothing. Both times are inclusive."""

    value: str | None = None
    target: TagDefinition.Scope | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    warehouse_id: UUID | None = None


def tags_on(target: ObjectRef, *, field_id: int | None = None) -> list[TargetTag]:
    """The tags of a target's own, or of a column's, by name."""
    rows = _attachments().filter(securable_id=securable_id(*target), field_id=field_id)
    return _by_name([TargetTag(each) for each in rows])


def effective_tags_on(target: ObjectRef) -> list[TargetTag]:
    """The tags of a target's own and, of definitions that it has none of, the nearest of those above it, by name."""
    own_id = securable_id(*target)
    path = Securable.objects.values_list("path", flat=True).filter(pk=own_id).first()
    if path is None:  # it was deleted in between
        return []
    line = path.rstrip("/").split("/")
    distance = {each: number for number, each in enumerate(reversed(line))}
    rows = _attachments().select_related("securable").filter(securable_id__in=line, field_id=None)
    nearest: dict[UUID, TagAttachment] = {}
    for each in sorted(rows, key=lambda row: distance[row.securable_id]):
        nearest.setdefault(each.definition_id, each)
    return _by_name(
        [TargetTag(each, None if each.securable_id == own_id else each.securable) for each in nearest.values()]
    )


def tags_on_columns(table: ObjectRef) -> dict[int, list[TargetTag]]:
    """The tags of all columns of a table by field id, in its order, those of columns that it had once among them."""
    found: dict[int, list[TargetTag]] = {}
    rows = _attachments().filter(securable_id=securable_id(*table), field_id__isnull=False)
    for each in rows.order_by("field_id"):
        if each.field_id is not None:
            found.setdefault(each.field_id, []).append(TargetTag(each))
    return {field_id: _by_name(tags) for field_id, tags in found.items()}


def list_attachments(
    definition: TagDefinition, wanted: AttachmentFilter, page: Page
) -> tuple[list[TagAttachment], str | None]:
    """What carries a tag itself, in order of attachment, with the securables; and the next page's token."""
    rows = TagAttachment.objects.select_related("securable").filter(definition=definition, pk__gt=page.after_id())
    if wanted.value is not None:
        rows = rows.filter(value=wanted.value)
    if wanted.target == TagDefinition.Scope.COLUMN:
        rows = rows.filter(field_id__isnull=False)
    elif wanted.target is not None:
        rows = rows.filter(field_id__isnull=True, securable__type=wanted.target.value)
    if wanted.created_after is not None:
        rows = rows.filter(created_at__gte=wanted.created_after)
    if wanted.created_before is not None:
        rows = rows.filter(created_at__lte=wanted.created_before)
    if wanted.warehouse_id is not None:
        rows = rows.filter(securable__path__contains=f"/{securable_id(Securable.Type.WAREHOUSE, wanted.warehouse_id)}/")
    found = list(rows.order_by("pk")[: page.sql_limit])
    return build_page([(each.pk, each) for each in found], page)


def _attachments() -> QuerySet[TagAttachment]:
    return TagAttachment.objects.select_related("definition").defer("definition__allowed_values")


def _by_name(tags: list[TargetTag]) -> list[TargetTag]:
    return sorted(tags, key=lambda tag: tag.attachment.definition.name_key)
