"""Reads of tag definitions, and of the tags on objects for callers that have checked the permission."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from django.db.models import QuerySet

from icekeeper.kernel.errors.types import CatalogError, NotFound
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.names import hidden_character
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, is_allowed, require_permission
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.refs import ObjectRef, securable_id

MAX_NAME_LENGTH = 256
"""Characters."""

BATCH = 500
"""Rows that are read at once for callers who may not see all of them."""


class TagDefinitionIdNotFound(NotFound):
    """There is none, it is another project's, or the caller may not see it."""

    wire_type = "TagDefinitionIdNotFound"


class TagDefinitionNameNotFound(NotFound):
    """As `TagDefinitionIdNotFound`, where a tag is addressed by its name."""

    wire_type = "TagDefinitionNameNotFound"


def tag_id_not_found(definition_id: object, project: Project | None) -> TagDefinitionIdNotFound:
    """None where every project's are meant."""
    where = "" if project is None else f" in project {project.pk}"
    return TagDefinitionIdNotFound(f"Tag definition does not exist{where}: {definition_id}")


def tag_name_not_found(name: str, project: Project) -> TagDefinitionNameNotFound:
    return TagDefinitionNameNotFound(f"No tag definition of project {project.pk} is named {name[:MAX_NAME_LENGTH]!r}")


def get_tag_definition_for(*, actor: Actor, action: Can, project: Project, definition_id: UUID) -> TagDefinition:
    """Raises `TagDefinitionIdNotFound` (404), for a definition of another project, too."""
    definition = TagDefinition.objects.in_project(project).filter(pk=definition_id).first()
    missing = tag_id_not_found(definition_id, project)
    return _permitted(actor, action, definition, missing)


def get_tag_definition_named_for(*, actor: Actor, action: Can, project: Project, name: str) -> TagDefinition:
    """The one of the project that has the name, however it is spelled. Raises `TagDefinitionNameNotFound` (404)."""
    definition = _named(project, name)
    return _permitted(actor, action, definition, tag_name_not_found(name, project))


def list_tag_definitions_for(
    *, actor: Actor, project: Project, name: str | None, page: Page
) -> tuple[list[TagDefinition], str | None]:
    """Return the definitions of a project in order of creation, without allowed values, and the next page token.

    With `name` only the definition of that name. Callers who may not list tags get only the definitions that they may
    read or apply, and an error if there are none.
    """
    sees_everything = is_allowed(actor, Can.LIST_TAGS, Securable.Type.PROJECT, project.pk)
    after = page.after_id()
    if name is not None:
        one = _named(project, name)
        found = [] if one is None else [one]
        token = None
        shown = found if sees_everything else list(_readable(actor, found))
    else:
        batch = page.sql_limit if sees_everything else BATCH
        rows = (
            each
            for read in _batches(project, after, batch)
            for each in (read if sees_everything else _readable(actor, read))
        )
        shown, token = build_page([(each.pk, each) for each in islice(rows, page.sql_limit)], page)
    if not shown and not sees_everything and not page.token:
        require_permission(actor, Can.LIST_TAGS, Securable.Type.PROJECT, project.pk)
    return shown, token


def _permitted(actor: Actor, action: Can, definition: TagDefinition | None, missing: CatalogError) -> TagDefinition:
    if definition is None:
        raise missing
    require_permission(actor, action, Securable.Type.TAG, definition.pk, missing=missing)
    return definition


def _named(project: Project, name: str) -> TagDefinition | None:
    if len(name) > MAX_NAME_LENGTH or hidden_character(name) is not None:
        return None
    return TagDefinition.objects.in_project(project).named(name).first()


def _readable(actor: Actor, definitions: list[TagDefinition]) -> Iterator[TagDefinition]:
    readable = are_allowed(actor, Can.READ, [ObjectRef(Securable.Type.TAG, each.pk) for each in definitions])
    yield from (each for each, is_readable in zip(definitions, readable, strict=True) if is_readable)


def _batches(project: Project, after: UUID, size: int) -> Iterator[list[TagDefinition]]:
    rows = TagDefinition.objects.in_project(project).defer("allowed_values").order_by("pk")
    while True:
        found = list(rows.filter(pk__gt=after)[:size])
        yield found
        if len(found) < size:
            return
        after = found[-1].pk


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
