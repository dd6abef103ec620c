"""Reads of tag definitions: one by its id or its name, or all of a project."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError, NotFound
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.names import hidden_character
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, is_allowed, require_permission
from tenancy.models import Project, Securable, TagDefinition
from tenancy.refs import ObjectRef

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
