"""Partition specs: their rules and the ids of their fields; transforms, which sort orders have, too.

Follows Java's `PartitionSpec`, `UnboundPartitionSpec.bind`, `PartitionSpecParser` and `Transforms.fromString`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog.iceberg.column_types import StructType, Type, is_primitive, primitive_name
from catalog.iceberg.json_fields import (
    INT_RANGE,
    as_object,
    clip,
    field_path,
    optional_int,
    read_int,
    read_list,
    read_string,
)
from catalog.iceberg.schemas import Column, Schema
from catalog.iceberg.types import FIRST_PARTITION_FIELD_ID
from icekeeper.kernel.errors.types import BadRequest

_WITH_WIDTH: Final = re.compile(r"(\w+)\[([0-9]+)\]", re.ASCII)

_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES: Final = _TIMESTAMPS | {"date"}
_TRUNCATED: Final = frozenset({"int", "long", "decimal", "string", "binary"})
_SOURCE_TYPES: Final = {
    "bucket": _TRUNCATED | _DATES | {"time", "uuid", "fixed"},
    "truncate": _TRUNCATED,
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
}
_WITHOUT_IDENTITY: Final = frozenset({"variant", "geometry", "geography"})
_PLAIN: Final = frozenset({"identity", "year", "month", "day", "hour", "void"})


@dataclass(frozen=True, slots=True)
class Transform:
    """`text` is the canonical spelling that is stored and compared, `name` the transform without its width."""

    name: str
    text: str
    is_known: bool

    @property
    def is_void(self) -> bool:
        return self.name == "void"


def parse_transform(text: str, where: str) -> Transform:
    """The transform a spec or order names; an unknown one is kept as it is, with `is_known` False.

    Raises `BadRequest` for a width that is zero or out of range.
    """
    found = _WITH_WIDTH.fullmatch(text)
    if found and (name := found[1].lower()) in {"bucket", "truncate"}:
        width = int(found[2][:20])
        if not 0 < width <= INT_RANGE[1]:
            raise BadRequest(f"{where}: width of {name} must be between 1 and {INT_RANGE[1]}: {clip(text)}")
        return Transform(name, f"{name}[{width}]", is_known=True)
    if text.lower() in _PLAIN:
        return Transform(text.lower(), text.lower(), is_known=True)
    return Transform(text, text, is_known=False)


def applies_to(transform: Transform, source: Type) -> bool:
    """Whether the transform can take values of that type. Void and unknown transforms take anything."""
    if transform.is_void or not transform.is_known:
        return True
    if transform.name == "identity":
        return is_primitive(source) and primitive_name(source) not in _WITHOUT_IDENTITY
    return primitive_name(source) in _SOURCE_TYPES[transform.name]


def check_source(transform: Transform, source: Type, where: str) -> None:
    """Raises `BadRequest` when the transform cannot be computed from a column of that type."""
    if not applies_to(transform, source):
        raise BadRequest(f"{where}: Invalid source type {source} for transform: {clip(transform.text)}")


PartitionFieldIdentity: TypeAlias = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """`field_id` is None when the catalog assigns it. `where` is the path of the field for error texts."""

    source_id: int
    field_id: int | None
    name: str
    transform: Transform
    where: str

    @property
    def identity(self) -> PartitionFieldIdentity:
        """The value by which fields are compared, without ids (Java: `PartitionSpec.compatibleWith`)."""
        return self.source_id, self.transform.text, self.name

    def written(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document of the field in the canonical spelling."""
        return {**document, "transform": self.transform.text}


def parse_partition_fields(fields: list[Any], where: str) -> list[PartitionField]:
    """The fields of a spec, checked without regard to any schema: types, unique names and ids."""
    parsed: list[PartitionField] = []
    names: set[str] = set()
    field_ids: set[int] = set()
    for index, document in enumerate(fields):
        path = f"{where}[{index}]"
        owner = as_object(document, path)
        field = PartitionField(
            source_id=read_int(owner, "source-id", path),
            field_id=optional_int(owner, "field-id", path),
            name=read_string(owner, "name", path),
            transform=parse_transform(read_string(owner, "transform", path), field_path(path, "transform")),
            where=path,
        )
        if not field.name:
            raise BadRequest(f"{path}.name: Cannot use empty partition name")
        if field.name in names:
            raise BadRequest(f"{path}.name: Cannot use partition name more than once: {clip(field.name)}")
        if field.field_id is not None and field.field_id in field_ids:
            raise BadRequest(f"{path}.field-id: partition field id {field.field_id} is used twice")
        names.add(field.name)
        if field.field_id is not None:
            field_ids.add(field.field_id)
        parsed.append(field)
    return parsed


def parse_partition_spec(document: dict[str, Any], where: str) -> list[PartitionField]:
    """The fields of a spec document; its `spec-id` is optional here, as clients may leave it to the catalog."""
    optional_int(document, "spec-id", where)
    return parse_partition_fields(read_list(document, "fields", where), field_path(where, "fields"))


def check_readable(fields: list[PartitionField], schema: Schema) -> None:
    """What Java asks of every stored spec when it reads a file: types that fit and names that do not clash.

    A source column may not exist (a later schema dropped it).
    """
    for field in fields:
        column = schema.columns.get(field.source_id)
        # Java checks the identity of a nested column only in the default spec
        if column is not None and (isinstance(column.type, str) or field.transform.name != "identity"):
            check_source(field.transform, column.type, field.where)
        same_named = schema.ids_by_name.get(field.name)
        if same_named is not None and same_named != field.source_id:
            raise BadRequest(
                f"{field.where}.name: Cannot create identity partition sourced from different field in schema: "
                f"{clip(field.name)}"
            )


def check_default(fields: list[PartitionField], schema: Schema) -> None:
    """Whether a spec can partition new data of that schema (Java: `PartitionSpec.checkCompatibility`).

    A void field (a dropped one in version 1) may refer to a dropped column.
    """
    for field in fields:
        column = schema.columns.get(field.source_id)
        if column is None:
            if field.transform.is_void:
                continue
            raise BadRequest(
                f"{field.where}: Cannot find source column for partition field: "
                f"{clip(field.name)}: {clip(field.transform.text)}({field.source_id})"
            )
        if not field.transform.is_void:
            if not is_primitive(column.type):
                raise BadRequest(f"{field.where}: Cannot partition by non-primitive source field: {clip(column.name)}")
            check_source(field.transform, column.type, field.where)
        _check_parents(column, schema, field.where)


def check_new(fields: list[PartitionField], schema: Schema, *, known: Container[PartitionFieldIdentity]) -> None:
    """The rules of a spec that a client adds: those of a default spec, known transforms, and names of its own.

    A partition field may share the name of a column only as identity (or void, its dropped form in version 1) of that
    very column. `known` holds the identities of fields that the table already has: they were let in before.
    """
    check_default(fields, schema)
    for field in fields:
        if field.identity in known:
            continue
        if not field.transform.is_known:
            raise BadRequest(f"{field.where}.transform: unknown transform: {clip(field.transform.text)}")
        same_named = schema.ids_by_name.get(field.name)
        if same_named is None:
            continue
        if same_named != field.source_id or field.transform.name not in {"identity", "void"}:
            raise BadRequest(
                f"{field.where}.name: Cannot create partition from name that exists in schema: {clip(field.name)}"
            )


def _check_parents(column: Column, schema: Schema, where: str) -> None:
    """A partition has one value per row, so its source stands in no list or map."""
    parent_id = column.parent_id
    while parent_id is not None:
        parent = schema.columns[parent_id]
        if not isinstance(parent.type, StructType):
            raise BadRequest(f"{where}: Invalid partition field parent: {parent.type} {clip(parent.name)}")
        parent_id = parent.parent_id


def with_field_ids(
    fields: list[PartitionField],
    documents: list[dict[str, Any]],
    *,
    assigned: dict[PartitionFieldIdentity, int],
    last_partition_id: int,
    is_sequential: bool,
) -> list[dict[str, Any]]:
    """Field documents with every `field-id` set and the transform in its canonical spelling.

    An id that the client gave stays. A missing one is the position (1000, 1001, ...) when `is_sequential` (version 1),
    else that of the same field in an earlier spec (`assigned`), else the next free one.
    """
    taken = {field.field_id for field in fields if field.field_id is not None}
    next_id = max([last_partition_id, FIRST_PARTITION_FIELD_ID - 1, *taken]) + 1
    written = []
    for index, (field, document) in enumerate(zip(fields, documents, strict=True)):
        field_id = field.field_id
        if field_id is None and is_sequential:
            field_id = FIRST_PARTITION_FIELD_ID + index
        if field_id is None:
            field_id = assigned.get(field.identity)
            if field_id is None or field_id in taken:
                field_id, next_id = next_id, next_id + 1
        taken.add(field_id)
        written.append({**field.written(document), "field-id": field_id})
    return written


def has_sequential_ids(documents: list[dict[str, Any]]) -> bool:
    """Version 1 readers number partition fields by position."""
    return all(field["field-id"] == FIRST_PARTITION_FIELD_ID + index for index, field in enumerate(documents))
