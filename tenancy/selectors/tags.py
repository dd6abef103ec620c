"""Reads of tag definitions, and of the tags on objects for callers that have checked the permission."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError, NotFound
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.names import hidden_character
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, is_allowed, require_permission
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.models.tag import TagAttachmentQuerySet

MAX_NAME_LENGTH = 256
"""Characters."""

BATCH = 500
"""Rows that one statement reads for callers who may not see all of them."""


class TagDefinitionIdNotFound(NotFound):
    """The definition does not exist, is hidden from the caller, or belongs to another project."""

    wire_type = "TagDefinitionIdNotFound"


class TagDefinitionNameNotFound(NotFound):
    """As `TagDefinitionIdNotFound`, for a look-up by name."""

    wire_type = "TagDefinitionNameNotFound"


def tag_id_not_found(definition_id: object, project: Project | None) -> TagDefinitionIdNotFound:
    """Return the error for a definition of `project`, or of any project."""
    where = "" if project is None else f" in project {project.pk}"
    return TagDefinitionIdNotFound(f"Tag definition does not exist{where}: {definition_id}")


def tag_name_not_found(name: str, project: Project) -> TagDefinitionNameNotFound:
    return TagDefinitionNameNotFound(f"No tag definition of project {project.pk} is named {name[:MAX_NAME_LENGTH]!r}")


def get_tag_definition_for(*, actor: Actor, action: Can, project: Project, definition_id: UUID) -> TagDefinition:
    """Return a definition of the project. Raises `TagDefinitionIdNotFound` (404), also for one of another project."""
    definition = TagDefinition.objects.in_project(project).filter(pk=definition_id).first()
    missing = tag_id_not_found(definition_id, project)
    return _permitted(actor, action, definition, missing)


def get_tag_definition_of_any_project_for(*, actor: Actor, definition_id: UUID) -> TagDefinition:
    """Return a definition that the actor may read, with its project. Raises `TagDefinitionIdNotFound` (404)."""
    definition = TagDefinition.objects.select_related("project").filter(pk=definition_id).first()
    return _permitted(actor, Can.READ, definition, tag_id_not_found(definition_id, None))


def get_tag_definition_named_for(*, actor: Actor, action: Can, project: Project, name: str) -> TagDefinition:
    """Return the definition with a name, in any spelling. Raises `TagDefinitionNameNotFound` (404)."""
    definition = _named(project, name)
    return _permitted(actor, action, definition, tag_name_not_found(name, project))


def list_tag_definitions_for(
    *, actor: Actor, project: Project, name: str | None, page: Page
) -> tuple[list[TagDefinition], str | None]:
    """Return the definitions of a project in order of creation, without allowed values, and the next page token.

    With `name` only the definition of that name. Callers who may not list tags get only the definitions that they may
    read or apply, and an error if there are none.
    """
    may_list = is_allowed(actor, Can.LIST_TAGS, Securable.Type.PROJECT, project.pk)
    after = page.after_id()
    if name is not None:
        one = _named(project, name)
        found = [] if one is None else [one]
        token = None
        shown = found if may_list else list(_readable(actor, found))
    else:
        batch = page.sql_limit if may_list else BATCH
        rows = (
            each for read in _batches(project, after, batch) for each in (read if may_list else _readable(actor, read))
        )
        shown, token = build_page([(each.pk, each) for each in islice(rows, page.sql_limit)], page)
    if not shown and not may_list and not page.token:
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
    """A tag of an object: its own attachment, or that of the parent `inherited_from`."""

    attachment: TagAttachment
    inherited_from: Securable | None = None


@dataclass(frozen=True, slots=True)
class AttachmentFilter:
    """Filters of a listing; None does not restrict it. Both times are inclusive."""

    value: str | None = None
    target: TagDefinition.Scope | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    warehouse_id: UUID | None = None


def tags_on(target: ObjectRef, *, field_id: int | None = None) -> list[TargetTag]:
    """Return the tags on an object itself or on a column, by name."""
    rows = _attachments().filter(securable_id=securable_id(*target), field_id=field_id)
    return _by_name([TargetTag(each) for each in rows])


def effective_tags_on(target: ObjectRef) -> list[TargetTag]:
    """Return the tags of an object by name, own and inherited; the nearest attachment of a definition wins."""
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
    """Return the tags on columns of a table by field id, also on columns that the table no longer has."""
    found: dict[int, list[TargetTag]] = {}
    rows = _attachments().on(securable_id(*table)).on_columns()
    for each in rows.order_by("field_id"):
        if each.field_id is not None:
            found.setdefault(each.field_id, []).append(TargetTag(each))
    return {field_id: _by_name(tags) for field_id, tags in found.items()}


def list_attachments(
    definition: TagDefinition, wanted: AttachmentFilter, page: Page
) -> tuple[list[TagAttachment], str | None]:
    """Return the attachments of a tag with their securables, in order of creation, and the next page token."""
    rows = TagAttachment.objects.select_related("securable").filter(definition=definition, pk__gt=page.after_id())
    if wanted.value is not None:
        rows = rows.filter(value=wanted.value)
    if wanted.target == TagDefinition.Scope.COLUMN:
        rows = rows.on_columns()
    elif wanted.target is not None:
        rows = rows.on_objects().filter(securable__type=wanted.target.value)
    if wanted.created_after is not None:
        rows = rows.filter(created_at__gte=wanted.created_after)
    if wanted.created_before is not None:
        rows = rows.filter(created_at__lte=wanted.created_before)
    if wanted.warehouse_id is not None:
        rows = rows.filter(securable__path__contains=f"/{securable_id(Securable.Type.WAREHOUSE, wanted.warehouse_id)}/")
    found = list(rows.order_by("pk")[: page.sql_limit])
    return build_page([(each.pk, each) for each in found], page)


def _attachments() -> TagAttachmentQuerySet:
    return TagAttachment.objects.select_related("definition").defer("definition__allowed_values")


def _by_name(tags: list[TargetTag]) -> list[TargetTag]:
    return sorted(tags, key=lambda tag: tag.attachment.definition.name_key)
