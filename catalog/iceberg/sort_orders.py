"""Sort orders: their rules. Follows Java's `SortOrder` and `SortOrderParser`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, TypeAlias

from catalog.iceberg.column_types import is_primitive
from catalog.iceberg.json_fields import as_object, clip, field_path, optional_int, read_int, read_list, read_string
from catalog.iceberg.partition_specs import Transform, check_source, parse_transform
from catalog.iceberg.schemas import Schema
from icekeeper.kernel.errors.types import BadRequest

SortFieldIdentity: TypeAlias = tuple[int, str, str, str]


@dataclass(frozen=True, slots=True)
class SortField:
    source_id: int
    transform: Transform
    direction: str
    null_order: str
    where: str

    @property
    def identity(self) -> SortFieldIdentity:
        """The value by which sort fields are compared (Java: `SortOrder.sameOrder`)."""
        return self.source_id, self.transform.text, self.direction, self.null_order

    def written(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document of the field in the canonical spelling."""
        return {
            **document,
            "transform": self.transform.text,
            "direction": self.direction,
            "null-order": self.null_order,
        }


def parse_sort_order(document: dict[str, Any], where: str) -> list[SortField]:
    """The fields of an order document, checked without regard to any schema; `order-id` is optional here."""
    optional_int(document, "order-id", where)
    fields = []
    for index, field in enumerate(read_list(document, "fields", where)):
        path = f"{field_path(where, 'fields')}[{index}]"
        owner = as_object(field, path)
        fields.append(
            SortField(
                source_id=read_int(owner, "source-id", path),
                transform=parse_transform(read_string(owner, "transform", path), field_path(path, "transform")),
                direction=_one_of(owner, "direction", ("asc", "desc"), path),
                null_order=_one_of(owner, "null-order", ("nulls-first", "nulls-last"), path),
                where=path,
            )
        )
    return fields


def check_default(fields: list[SortField], schema: Schema) -> None:
    """Whether new data of that schema can be sorted so (Java: `SortOrder.checkCompatibility`)."""
    for field in fields:
        column = schema.columns.get(field.source_id)
        if column is None:
            raise BadRequest(f"{field.where}: Cannot find source column for sort field: {field.source_id}")
        if not is_primitive(column.type):
            raise BadRequest(f"{field.where}: Cannot sort by non-primitive source field: {clip(column.name)}")
        check_source(field.transform, column.type, field.where)


def check_new(fields: list[SortField], schema: Schema, *, known: Container[SortFieldIdentity]) -> None:
    """The rules of an order that a client adds; `known` holds the fields that the table's orders already have."""
    check_default(fields, schema)
    for field in fields:
        if not field.transform.is_known and field.identity not in known:
            raise BadRequest(f"{field.where}.transform: unknown transform: {clip(field.transform.text)}")


def _one_of(owner: dict[str, Any], name: str, choices: tuple[str, ...], where: str) -> str:
    text = read_string(owner, name, where)
    if text.lower() not in choices:
        raise BadRequest(f"{field_path(where, name)}: expected {' or '.join(choices)}, got {clip(text)}")
    return text.lower()
