"""Tags of warehouses, their objects and columns: the target of a tag, its tags, and the attachments of a tag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import FilteredRelation, Q

from catalog.errors import no_such_column, no_such_object
from catalog.iceberg.schemas import parse_schema
from catalog.models import Namespace, Tabular
from catalog.selectors.tables.metadata_cache import Version, metadata_of, read_metadata_document
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors.tags import (
    AttachmentFilter,
    TargetTag,
    effective_tags_on,
    get_tag_definition_for,
    list_attachments,
    tags_on,
    tags_on_columns,
)

_TABULARS = frozenset({Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE})


@dataclass(frozen=True, slots=True)
class Attached:
    """A tag attachment with the ids that clients see; a column has its field id."""

    attachment: TagAttachment
    type: TagDefinition.Scope
    warehouse_id: UUID
    object_id: UUID


def list_tags_for(*, actor: Actor, project: Project, key: TagTargetKey, effective: bool) -> list[TargetTag]:
    """List the tags of an object by name; with `effective` also inherited ones, which columns do not have.

    Needs only the permission to see the object. Raises as `get_tag_target_for`.
    """
    target = get_tag_target_for(actor=actor, action=Can.GET_METADATA, project=project, key=key)
    if effective and target.field_id is None:
        return effective_tags_on(target.ref)
    return tags_on(target.ref, field_id=target.field_id)


def list_column_tags_for(
    *, actor: Actor, project: Project, warehouse_id: UUID, table_id: UUID
) -> dict[int, list[TargetTag]]:
    """List the tags of a table's columns by field id, including dropped columns. Raises as `get_tag_target_for`."""
    key = TagTargetKey(warehouse_id, Securable.Type.TABLE, table_id)
    target = get_tag_target_for(actor=actor, action=Can.GET_METADATA, project=project, key=key)
    return tags_on_columns(target.ref)


def list_tag_attachments_for(
    *, actor: Actor, project: Project, definition_id: UUID, wanted: AttachmentFilter, page: Page
) -> tuple[list[Attached], str | None]:
    """List the direct attachments of a tag, in order of attachment, and the token of the next page.

    Soft-deleted objects are included. Raises `TagDefinitionIdNotFound` (404).
    """
    definition = get_tag_definition_for(
        actor=actor, action=Can.READ_ATTACHMENTS, project=project, definition_id=definition_id
    )
    rows, token = list_attachments(definition, wanted, page)
    own_ids = [UUID(row.securable.object_id) for row in rows if row.securable.type in _TABULARS]
    uuids = dict(Tabular.objects.filter(pk__in=own_ids).values_list("pk", "uuid")) if own_ids else {}
    return [each for row in rows if (each := _attached(row, uuids)) is not None], token


def name_attached_objects_for(*, actor: Actor, found: Sequence[Attached]) -> dict[UUID, str]:
    """Return the full names of the objects that the actor may see, by the ids of the attachments.

    Hidden and dropped objects have no name. A constant number of statements for a page of attachments.
    """
    own_ids: dict[str, list[UUID]] = {}
    for each in found:
        own_ids.setdefault(each.attachment.securable.type, []).append(UUID(each.attachment.securable.object_id))
    tabulars = [own_id for each in _TABULARS for own_id in own_ids.get(each, [])]
    names: dict[UUID, str] = {}
    if tabulars:
        rows = Tabular.objects.live().filter(pk__in=tabulars).select_related("namespace")
        names |= {each.pk: ".".join((*each.namespace.levels, each.name)) for each in rows.visible_to(actor)}
    if namespaces := own_ids.get(Securable.Type.NAMESPACE):
        names |= {each.pk: str(each) for each in Namespace.objects.filter(pk__in=namespaces).visible_to(actor)}
    if warehouses := own_ids.get(Securable.Type.WAREHOUSE):
        names |= {each.pk: each.name for each in Warehouse.objects.filter(pk__in=warehouses).visible_to(actor)}
    return {
        each.attachment.pk: name
        for each in found
        if (name := names.get(UUID(each.attachment.securable.object_id))) is not None
    }


def _attached(row: TagAttachment, uuids: dict[UUID, UUID]) -> Attached | None:
    """Return None for a table that was deleted concurrently. `uuids` maps own ids to the ids that clients see."""
    securable = row.securable
    above = dict(part.split(":", 1) for part in securable.path.rstrip("/").split("/") if part.startswith("warehouse:"))
    object_id: UUID | None = UUID(securable.object_id)
    if securable.type in _TABULARS:
        object_id = uuids.get(UUID(securable.object_id))
    if object_id is None:
        return None
    scope = TagDefinition.Scope(securable.type) if row.field_id is None else TagDefinition.Scope.COLUMN
    return Attached(row, scope, UUID(above["warehouse"]), object_id)


@dataclass(frozen=True, slots=True)
class TagTargetKey:
    """An object or column as a client names it. `object_id` is the id that clients see, for a warehouse its own id.

    `column` is the full name of a column (`address.zip`, `phones.element`) in the table's current schema.
    """

    warehouse_id: UUID
    kind: Securable.Type
    object_id: UUID
    column: str | None = None

    @property
    def missing(self) -> CatalogError:
        """The error when the object does not exist."""
        if self.kind == Securable.Type.WAREHOUSE:
            return no_such_warehouse(self.warehouse_id)
        return no_such_object(self.kind.value, self.object_id)

    @property
    def scope(self) -> TagDefinition.Scope:
        return TagDefinition.Scope(self.kind.value) if self.column is None else TagDefinition.Scope.COLUMN


@dataclass(frozen=True, slots=True)
class TagTarget:
    """An existing object: the id of its row, and for a column its field id, which survives renames."""

    key: TagTargetKey
    id: UUID
    field_id: int | None = None

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.key.kind, self.id)


def get_tag_target_for(*, actor: Actor, action: Can, project: Project, key: TagTargetKey) -> TagTarget:
    """Return the object in the project that `key` names, after a check of `action` on it (on a column's table).

    Raises `NoSuchWarehouse` (also for warehouses of other projects), the "no such" error of the object's kind,
    `Forbidden`, and `ColumnNotFound` (404). Dropped objects do not exist.
    """
    found = _find(project, key)
    if found is None:
        raise key.missing
    require_permission(actor, action, key.kind, found, missing=key.missing)
    return TagTarget(key, found, None if key.column is None else _field_id(key, found, key.column))


def _find(project: Project, key: TagTargetKey) -> UUID | None:
    """Return the id of the row, None when the warehouse has none. One statement. Raises `NoSuchWarehouse`."""
    warehouses = Warehouse.objects.filter(pk=key.warehouse_id, project=project)
    if key.kind == Securable.Type.WAREHOUSE:
        return warehouses.values_list("pk", flat=True).first()
    if key.kind == Securable.Type.NAMESPACE:
        it = FilteredRelation("namespaces", condition=Q(namespaces__pk=key.object_id))
    else:
        named = Q(tabulars__uuid=key.object_id, tabulars__kind=key.kind.value, tabulars__deleted_at__isnull=True)
        it = FilteredRelation("tabulars", condition=named)
    row = warehouses.annotate(it=it).values_list("it__pk").first()
    if row is None:
        raise no_such_warehouse(key.warehouse_id)
    found: UUID | None
    (found,) = row
    return found


def _field_id(key: TagTargetKey, table_id: UUID, column: str) -> int:
    table = Tabular.objects.live().select_related("warehouse", "current_metadata").filter(pk=table_id).first()
    if table is None:  # dropped concurrently
        raise key.missing
    version = Version(table_id, table.metadata_location)
    metadata = metadata_of(
        version, read_metadata_document(table.warehouse.storage, version, table.current_metadata.document)
    )
    current = next(each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"])
    field_id = parse_schema(current, "schema").ids_by_name.get(column)
    if field_id is None:
        raise no_such_column(column, key.object_id)
    return field_id
