"""Partition specs and sort orders of a table as text: `bucket[16](id)`, `customer_id desc nulls last`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from catalog.iceberg.display.schema_fields import walk_fields
from catalog.iceberg.display.stored_parts import find_current_schema, list_objects, list_schemas
from catalog.iceberg.partition_specs import Transform, parse_transform
from catalog.iceberg.types import INITIAL_SPEC_ID, UNSORTED_ORDER_ID, TableMetadata
from icekeeper.kernel.errors.types import BadRequest

MAX_SEARCHED_FIELDS: Final = 200_000
"""A column that all schemas lack would otherwise be searched in every field of every schema."""


@dataclass(frozen=True, slots=True)
class PartitionFieldText:
    """A field of a partition spec. `name` is that of the partition (`shipped_at_day`), `text` its definition.

    `source_path` is the dotted full name of the source column, None if no schema of the table has it.
    """

    field_id: int | None
    name: str
    source_path: str | None
    transform: str
    text: str


@dataclass(frozen=True, slots=True)
class PartitionSpecText:
    """A partition spec; `text` is empty for the unpartitioned one. Dropped fields (`void`) are in `fields` only."""

    spec_id: int
    is_default: bool
    fields: tuple[PartitionFieldText, ...]
    text: str


@dataclass(frozen=True, slots=True)
class SortFieldText:
    """A field of a sort order. `direction` is `asc` or `desc`, `null_order` is `nulls first` or `nulls last`."""

    source_path: str | None
    transform: str
    direction: str
    null_order: str
    text: str


@dataclass(frozen=True, slots=True)
class SortOrderText:
    """A sort order; `text` is empty for the unsorted one."""

    order_id: int
    is_default: bool
    fields: tuple[SortFieldText, ...]
    text: str


def list_partition_specs(metadata: TableMetadata) -> tuple[PartitionSpecText, ...]:
    """Return the partition specs of a table: the default one first, then the others from the highest id to the lowest.

    A source column that the current schema lacks has its name in the newest schema that has it.
    """
    documents = list_objects(metadata, "partition-specs")
    legacy = metadata.get("partition-spec")
    if not documents and isinstance(legacy, list):
        documents = [{"spec-id": INITIAL_SPEC_ID, "fields": legacy}]
    paths = find_source_paths(metadata, documents)
    default_id = metadata.get("default-spec-id", INITIAL_SPEC_ID)
    specs = []
    for document in documents:
        spec_id = document.get("spec-id", INITIAL_SPEC_ID)
        fields = tuple(_describe_partition_field(field, paths) for field in list_objects(document, "fields"))
        text = ", ".join(field.text for field in fields if field.transform != "void")
        specs.append(PartitionSpecText(spec_id, spec_id == default_id, fields, text))
    return tuple(sorted(specs, key=lambda spec: (not spec.is_default, -spec.spec_id)))


def list_sort_orders(metadata: TableMetadata) -> tuple[SortOrderText, ...]:
    """Return the sort orders of a table, in the sequence of `list_partition_specs`."""
    documents = list_objects(metadata, "sort-orders")
    paths = find_source_paths(metadata, documents)
    default_id = metadata.get("default-sort-order-id", UNSORTED_ORDER_ID)
    orders = []
    for document in documents:
        order_id = document.get("order-id", UNSORTED_ORDER_ID)
        fields = tuple(_describe_sort_field(field, paths) for field in list_objects(document, "fields"))
        text = ", ".join(field.text for field in fields)
        orders.append(SortOrderText(order_id, order_id == default_id, fields, text))
    return tuple(sorted(orders, key=lambda order: (not order.is_default, -order.order_id)))


def find_source_paths(metadata: TableMetadata, documents: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return the dotted full names of the source columns of spec or order documents, by field id.

    The current schema wins, then the newest. Schemas are read only while a name is missing, and up to
    `MAX_SEARCHED_FIELDS` fields in all.
    """
    missing = {
        source_id
        for document in documents
        for field in list_objects(document, "fields")
        for source_id in list_source_ids(field)
    }
    paths: dict[int, str] = {}
    current = find_current_schema(metadata)
    others = [schema for schema in reversed(list_schemas(metadata)) if schema is not current]
    schemas = others if current is None else [current, *others]
    for field in islice(chain.from_iterable(map(walk_fields, schemas)), MAX_SEARCHED_FIELDS):
        if not missing:
            break
        if field.field_id is not None and field.field_id in missing:
            paths[field.field_id] = field.path
            missing.discard(field.field_id)
    return paths


def list_source_ids(field: dict[str, Any]) -> list[int]:
    """Return the ids of the source columns of a partition or sort field: several with a multi-argument transform."""
    several = field.get("source-ids")
    ids = several if isinstance(several, list) else [field.get("source-id")]
    return [source_id for source_id in ids if type(source_id) is int]


def read_transform(field: dict[str, Any]) -> Transform:
    """Return the transform of a stored partition or sort field; an invalid one as an unknown transform."""
    text = str(field.get("transform", ""))
    try:
        return parse_transform(text, "transform")
    except BadRequest:
        return Transform(text, text, is_known=False)


def _describe_partition_field(field: dict[str, Any], paths: Mapping[int, str]) -> PartitionFieldText:
    transform = read_transform(field).text
    field_id = field.get("field-id")
    return PartitionFieldText(
        field_id=field_id if isinstance(field_id, int) else None,
        name=str(field.get("name", "")),
        source_path=_join_paths(field, paths),
        transform=transform,
        text=_write_term(field, transform, paths),
    )


def _describe_sort_field(field: dict[str, Any], paths: Mapping[int, str]) -> SortFieldText:
    transform = read_transform(field).text
    direction = str(field.get("direction", "asc")).lower()
    null_order = str(field.get("null-order", "nulls-first")).lower().replace("-", " ")
    return SortFieldText(
        source_path=_join_paths(field, paths),
        transform=transform,
        direction=direction,
        null_order=null_order,
        text=f"{_write_term(field, transform, paths)} {direction} {null_order}",
    )


def _join_paths(field: dict[str, Any], paths: Mapping[int, str]) -> str | None:
    known = [paths[source_id] for source_id in list_source_ids(field) if source_id in paths]
    return ", ".join(known) or None


def _write_term(field: dict[str, Any], transform: str, paths: Mapping[int, str]) -> str:
    """`day(ts)`; the column alone for identity; `field 7` for a column that no schema has."""
    source_ids = list_source_ids(field)
    sources = ", ".join(paths.get(source_id, f"field {source_id}") for source_id in source_ids)
    return sources if transform == "identity" else f"{transform}({sources})"
