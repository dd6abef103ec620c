"""What can carry tags: warehouses, namespaces, tables, views, generic tables and columns of tables, by their ids."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import FilteredRelation, Q

from catalog.errors import no_such_column, no_such_object
from catalog.iceberg.schemas import parse_schema
from catalog.selectors.access.files import STORAGE, read_storage
from catalog.selectors.tables.load import read_document
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import CatalogError
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable, TagDefinition
from tenancy.refs import ObjectRef

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
