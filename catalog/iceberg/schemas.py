"""Schemas: validation and comparison. Follows Java's `Schema` and `SchemaParser`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from catalog.iceberg.column_types import (
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    parse_struct,
    parse_type,
    primitive_name,
)
from catalog.iceberg.json_fields import clip, field_path, optional_int, read_int_list, read_string
from icekeeper.kernel.errors.types import BadRequest

TYPE_VERSIONS: Final = {
    "timestamp_ns": 3,
    "timestamptz_ns": 3,
    "variant": 3,
    "unknown": 3,
    "geometry": 3,
    "geography": 3,
}
DEFAULT_VALUES_VERSION: Final = 3

MAX_FIELDS: Final = 50_000
"""Fields of one schema, those of every level together. The widest tables known have some ten thousand."""

MAX_NAME_LENGTHS: Final = 8_000_000
"""Characters of all full names of one schema together: 160 for each of `MAX_FIELDS`. A leaf repeats the names of all
that is around it, so without a bound a small document grows with its square."""

MAX_REPORTED_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class Column:
    """A field at any depth; `name` is the dotted full name, `parent_id` the field around it, None at the top."""

    name: str
    type: Type
    is_required: bool
    parent_id: int | None
    initial_default: Any


@dataclass(frozen=True, slots=True)
class Schema:
    """A parsed schema document; `columns` holds the fields of every level by id."""

    struct: StructType
    identifier_field_ids: frozenset[int]
    columns: dict[int, Column]
    ids_by_name: dict[str, int]

    @property
    def highest_field_id(self) -> int:
        return max(self.columns, default=0)

    @property
    def identity(self) -> tuple[StructType, frozenset[int]]:
        """The value by which schemas are compared, without ids (Java: `Schema.sameSchema`)."""
        return self.struct, self.identifier_field_ids


def parse_schema(document: dict[str, Any], where: str) -> Schema:
    """Read a schema and check every rule that holds in all format versions.

    There are at most `MAX_FIELDS` fields, with `MAX_NAME_LENGTHS` characters of full names. Ids are unique in the whole
    schema, as are full names (so a column `a.b` is rejected if a struct `a` has a field `b`). Identifier fields exist,
    are required primitives other than float and double, and are in no list, map or optional struct. Raises `BadRequest`
    naming the field.
    """
    optional_int(document, "schema-id", where)
    if (kind := read_string(document, "type", where)) != "struct":
        raise BadRequest(f'{field_path(where, "type")}: expected "struct", got "{clip(kind)}"')
    struct = parse_struct(document, where)
    columns: dict[int, Column] = {}
    ids_by_name: dict[str, int] = {}
    name_lengths = 0
    for field, name, parent_id in _walk(struct):
        name_lengths += len(name)
        if name_lengths > MAX_NAME_LENGTHS:
            raise BadRequest(
                f"{where}: full names of all fields are longer than {MAX_NAME_LENGTHS} characters together"
            )
        if len(columns) == MAX_FIELDS:
            raise BadRequest(f"{where}: schema has more than {MAX_FIELDS} fields")
        if field.field_id in columns:
            first = columns[field.field_id].name
            raise BadRequest(f"{where}: field id {field.field_id} is used twice, by {clip(first)} and {clip(name)}")
        if name in ids_by_name:
            raise BadRequest(
                f"{where}: Invalid schema: multiple fields for name {clip(name)}: "
                f"{ids_by_name[name]} and {field.field_id}"
            )
        columns[field.field_id] = Column(name, field.type, field.required, parent_id, field.initial_default)
        ids_by_name[name] = field.field_id
    identifiers: frozenset[int] = frozenset()
    if document.get("identifier-field-ids") is not None:
        identifiers = frozenset(read_int_list(document, "identifier-field-ids", where))
    for field_id in sorted(identifiers):
        _check_identifier(field_id, columns, field_path(where, "identifier-field-ids"))
    return Schema(struct, identifiers, columns, ids_by_name)


def parse_new_schema(document: dict[str, Any], where: str) -> Schema:
    """As `parse_schema`, for a new schema: its ids must not be negative."""
    schema = parse_schema(document, where)
    lowest = min(schema.columns, default=0)
    if lowest < 0:
        raise BadRequest(f"{where}: field id {lowest} of {clip(schema.columns[lowest].name)} must not be negative")
    return schema


def check_version(schema: Schema, format_version: int) -> None:
    """Reject types and initial defaults that the format version does not have (Java: `Schema.checkCompatibility`)."""
    problems = []
    for _field_id, column in sorted(schema.columns.items()):
        since = TYPE_VERSIONS.get(primitive_name(column.type), 1)
        if format_version < since:
            problems.append(f"Invalid type for {clip(column.name)}: {column.type} is not supported until v{since}")
        elif column.initial_default is not None and format_version < DEFAULT_VALUES_VERSION:
            default = clip(str(column.initial_default))
            problems.append(
                f"Invalid initial default for {clip(column.name)}: non-null default ({default}) "
                f"is not supported until v{DEFAULT_VALUES_VERSION}"
            )
    if len(problems) > MAX_REPORTED_PROBLEMS:
        problems[MAX_REPORTED_PROBLEMS:] = [f"and {len(problems) - MAX_REPORTED_PROBLEMS} more"]
    if problems:
        raise BadRequest("\n- ".join([f"Invalid schema for v{format_version}:", *problems]))


def canonical_schema(document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema document in canonical form, which every client reads: canonical types, no null defaults.

    Unknown members are kept, and unchanged parts are shared, not copied. Only for documents that `parse_schema`
    has accepted: it bounds the depth.
    """
    fields = [_canonical_field(field) for field in document["fields"]]
    is_unchanged = all(new is old for new, old in zip(fields, document["fields"], strict=True))
    return document if is_unchanged else {**document, "fields": fields}


def _canonical_field(field: dict[str, Any]) -> dict[str, Any]:
    """Java's readers fail on a default that is null."""
    canonical = {
        name: value
        for name, value in field.items()
        if value is not None or name not in {"initial-default", "write-default"}
    }
    canonical["type"] = _canonical_type(field["type"])
    is_unchanged = len(canonical) == len(field) and canonical["type"] is field["type"]
    return field if is_unchanged else canonical


def _canonical_type(document: Any) -> Any:
    if isinstance(document, str):
        text = parse_type(document, "type")
        return document if text == document else text
    if document["type"] == "struct":
        return canonical_schema(document)
    names = ("element",) if document["type"] == "list" else ("key", "value")
    inner = {name: _canonical_type(document[name]) for name in names}
    is_unchanged = all(inner[name] is document[name] for name in names)
    return document if is_unchanged else {**document, **inner}


def check_spelling(document: Any, where: str) -> None:
    """Refuse types of a schema that `parse_schema` has accepted in spellings that only some clients read.

    All of them read `decimal(9,2)` as well as the canonical `decimal(9, 2)`, and several write it.
    """
    match document:
        case str():
            canonical = str(parse_type(document, where))
            if document.replace(", ", ",") != canonical.replace(", ", ","):
                raise BadRequest(f"{where}: types must be written in their canonical form: {clip(canonical)}")
        case {"type": "list", "element": element}:
            check_spelling(element, f"{where}.element")
        case {"type": "map", "key": key, "value": value}:
            check_spelling(key, f"{where}.key")
            check_spelling(value, f"{where}.value")
        case {"type": "struct", "fields": fields}:
            for index, field in enumerate(fields):
                check_spelling(field["type"], f"{where}.fields[{index}].type")


def _walk(
    column_type: Type, parent_id: int | None = None, prefix: str = ""
) -> Iterator[tuple[NestedField, str, int | None]]:
    """Every field below a type in document order, with its full name (`a.element.b`, `m.value`) and its parent."""
    for field in _children(column_type):
        name = f"{prefix}{field.name}"
        yield field, name, parent_id
        yield from _walk(field.type, field.field_id, f"{name}.")


def _children(column_type: Type) -> tuple[NestedField, ...]:
    match column_type:
        case StructType(fields=fields):
            return fields
        case ListType() as of:
            return (_inner(of.element_id, "element", of.element, is_required=of.element_required),)
        case MapType() as of:
            return (
                _inner(of.key_id, "key", of.key, is_required=True),
                _inner(of.value_id, "value", of.value, is_required=of.value_required),
            )
    return ()


def _inner(field_id: int, name: str, column_type: Type, *, is_required: bool) -> NestedField:
    return NestedField(field_id, name, is_required, column_type, None, None, None)


def _check_identifier(field_id: int, columns: dict[int, Column], where: str) -> None:
    column = columns.get(field_id)
    if column is None:
        raise BadRequest(f"{where}: Cannot add fieldId {field_id} as an identifier field: field does not exist")
    error = f"{where}: Cannot add field {clip(column.name)} as an identifier field"
    if not isinstance(column.type, str) or column.type == "variant":
        raise BadRequest(f"{error}: not a primitive type field")
    if not column.is_required:
        raise BadRequest(f"{error}: not a required field")
    if column.type in {"float", "double"}:
        raise BadRequest(f"{error}: must not be float or double field")
    parent_id = column.parent_id
    while parent_id is not None:
        parent = columns[parent_id]
        if not isinstance(parent.type, StructType):
            raise BadRequest(f"{error}: must not be nested in {parent.type}")
        if not parent.is_required:
            raise BadRequest(f"{error}: must not be nested in an optional field {clip(parent.name)}")
        parent_id = parent.parent_id
