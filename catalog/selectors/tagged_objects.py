"""Tags of warehouses and of objects in them: which objects can carry tags, their tags, and the objects of a tag."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import FilteredRelation, Q

from catalog.errors import no_such_column, no_such_object
from catalog.iceberg.schemas import parse_schema
from catalog.selectors.access.files import STORAGE, read_storage
from catalog.selectors.tables.load import read_document
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from icekeeper.kernel.db.sql import as_uuid, fetch_all, fetch_one
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.refs import ObjectRef
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


_DOCUMENT = f"""
SELECT {STORAGE}, t.metadata_location, m.document
  FROM catalog_tabular t
  JOIN storage_warehouse w ON w.id = t.warehouse_id
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE t.id = %s AND t.deleted_at IS NULL
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class TagPlace:
    """Where a client says that a tag is: `object_id` as clients see it, that of the warehouse itself if it is one.

    With `column` the column of the table that has this full name (`address.zip`, `phones.element`) in its current
    schema.
    """

    warehouse_id: UUID
    kind: Securable.Type
    object_id: UUID
    column: str | None = None

    @property
    def missing(self) -> CatalogError:
        """What is raised when there is none."""
        if self.kind == Securable.Type.WAREHOUSE:
            return no_such_warehouse(self.warehouse_id)
        return no_such_object(self.kind.value, self.object_id)

    @property
    def scope(self) -> TagDefinition.Scope:
        return TagDefinition.Scope(self.kind.value) if self.column is None else TagDefinition.Scope.COLUMN


@dataclass(frozen=True, slots=True)
class TagTarget:
    """What is there: the row's own id, and the column's field id, which stays when the column is renamed."""

    place: TagPlace
    id: UUID
    field_id: int | None = None

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.place.kind, self.id)


def get_tag_target_for(*, actor: Actor, action: Can, project: Project, place: TagPlace) -> TagTarget:
    """What is at `place` in the project and was not dropped, if `actor` may do `action` on it (of a column: its table).

    Raises `NoSuchWarehouse` (for one of another project, too) or the "no such" of its kind, `ColumnNotFound` (404).
    """
    found = _find(project, place)
    if found is None:
        raise place.missing
    require_permission(actor, action, place.kind, found, missing=place.missing)
    return TagTarget(place, found, None if place.column is None else _field_id(place, found, place.column))


def _find(project: Project, place: TagPlace) -> UUID | None:
    """The row's own id, None when there is none in the warehouse. One statement. Raises `NoSuchWarehouse`."""
    warehouses = Warehouse.objects.filter(pk=place.warehouse_id, project=project)
    if place.kind == Securable.Type.WAREHOUSE:
        return warehouses.values_list("pk", flat=True).first()
    if place.kind == Securable.Type.NAMESPACE:
        it = FilteredRelation("namespaces", condition=Q(namespaces__pk=place.object_id))
    else:
        named = Q(tabulars__uuid=place.object_id, tabulars__kind=place.kind.value, tabulars__deleted_at__isnull=True)
        it = FilteredRelation("tabulars", condition=named)
    row = warehouses.annotate(it=it).values_list("it__pk").first()
    if row is None:
        raise no_such_warehouse(place.warehouse_id)
    found: UUID | None = row[0]
    return found


def _field_id(place: TagPlace, table_id: UUID, column: str) -> int:
    row = fetch_one("default", _DOCUMENT, [table_id])
    if row is None:  # it was dropped in between
        raise place.missing
    *stored_storage, metadata_location, stored = row
    version = Version(table_id, metadata_location)
    document = read_document(read_storage(place.warehouse_id, *stored_storage), version, stored)
    metadata = metadata_of(version, document)
    current = next(each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"])
    field_id = parse_schema(current, "schema").ids_by_name.get(column)
    if field_id is None:
        raise no_such_column(column, place.object_id)
    return field_id
