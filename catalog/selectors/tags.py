"""Which tags something has, and what has a tag."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from catalog.selectors.tag_targets import TagPlace, get_tag_target_for
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.http.paging import Page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.selectors.tag_attachments import (
    AttachmentFilter,
    TargetTag,
    effective_tags_on,
    list_attachments,
    tags_on,
    tags_on_columns,
)
from tenancy.selectors.tag_definitions import get_tag_definition_for

_UUIDS = "SELECT id, uuid FROM catalog_tabular WHERE id = ANY(%s)"

_TABULARS = frozenset({Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE})


@dataclass(frozen=True, slots=True)
class Attached:
    """A tag on something, as clients address that: by the ids that they see, a column by its field id."""

    attachment: TagAttachment
    type: TagDefinition.Scope
    warehouse_id: UUID
    object_id: UUID


def list_tags_for(*, actor: Actor, project: Project, place: TagPlace, effective: bool) -> list[TargetTag]:
    """The tags of what is at `place`, by name; with `effective` also those it inherits, which columns do not.

    Who may see the target sees names and values of all its tags. Raises as `get_tag_target_for`.
    """
    target = get_tag_target_for(actor=actor, action=Can.GET_METADATA, project=project, place=place)
    if effective and target.field_id is None:
        return effective_tags_on(target.ref)
    return tags_on(target.ref, field_id=target.field_id)


def list_column_tags_for(
    *, actor: Actor, project: Project, warehouse_id: UUID, table_id: UUID
) -> dict[int, list[TargetTag]]:
    """The tags of a table's columns by field id, those of columns that it has no more among them.

    Raises as `get_tag_target_for`.
    """
    place = TagPlace(warehouse_id, Securable.Type.TABLE, table_id)
    target = get_tag_target_for(actor=actor, action=Can.GET_METADATA, project=project, place=place)
    return tags_on_columns(target.ref)


def list_tag_attachments_for(
    *, actor: Actor, project: Project, definition_id: UUID, wanted: AttachmentFilter, page: Page
) -> tuple[list[Attached], str | None]:
    """Everything that has a tag of its own, in order of attachment, and the next page's token.

    What was dropped and can be restored is among it. Raises `TagDefinitionIdNotFound` (404).
    """
    definition = get_tag_definition_for(
        actor=actor, action=Can.READ_ATTACHMENTS, project=project, definition_id=definition_id
    )
    rows, token = list_attachments(definition, wanted, page)
    own_ids = [UUID(row.securable.object_id) for row in rows if row.securable.type in _TABULARS]
    stored = fetch_all("default", _UUIDS, [own_ids]) if own_ids else []
    seen = {as_uuid(own): as_uuid(uuid) for own, uuid in stored}
    return [each for row in rows if (each := _attached(row, seen)) is not None], token


def _attached(row: TagAttachment, uuids: dict[UUID, UUID]) -> Attached | None:
    """None for a table that was deleted in between. `uuids` has what clients see by the ids that are ours."""
    securable = row.securable
    above = dict(part.split(":", 1) for part in securable.path.rstrip("/").split("/") if part.startswith("warehouse:"))
    object_id: UUID | None = UUID(securable.object_id)
    if securable.type in _TABULARS:
        object_id = uuids.get(UUID(securable.object_id))
    if object_id is None:
        return None
    scope = TagDefinition.Scope(securable.type) if row.field_id is None else TagDefinition.Scope.COLUMN
    return Attached(row, scope, UUID(above["warehouse"]), object_id)
