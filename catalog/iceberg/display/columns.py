"""The columns of a schema as rows of a table on a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from catalog.iceberg.display.schema_fields import (
    SchemaField,
    is_written_completely,
    walk_fields,
    write_default,
    write_type,
)
from catalog.iceberg.display.stored_parts import get_schema_id, list_objects

DEFAULT_MAX_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One row: a column (`depth` 0) or a field inside one.

    `name` is the name of a struct's field, or `element`, `key`, `value` (`is_inner`) for what a list or map holds.
    `path` is the dotted full name. `type_text` is written by Iceberg's rules (`map<string, string>`); the fields of a
    `struct` are the next rows. Defaults are JSON text, None without one.
    """

    depth: int
    name: str
    path: str
    type_text: str
    is_inner: bool
    is_required: bool
    is_identifier: bool
    doc: str | None
    field_id: int | None
    initial_default: str | None
    write_default: str | None


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """The rows of a schema. `column_count` counts all top-level columns, also those after the last row.

    `is_truncated` is set if the schema has more rows than were asked for.
    """

    schema_id: int
    rows: tuple[ColumnRow, ...]
    column_count: int
    is_truncated: bool


def list_column_rows(
    schema: dict[str, Any], *, max_rows: int = DEFAULT_MAX_ROWS, with_all_inner_fields: bool = False
) -> ColumnRows:
    """Return at most `max_rows` rows of a schema document, in document order, in time proportional to `max_rows`.

    Inner fields of lists and maps have rows only if the type text of the list or map does not show them completely
    (they contain a struct), or with `with_all_inner_fields`.
    """
    listed = schema.get("identifier-field-ids")
    identifiers = frozenset(listed) if isinstance(listed, list) else frozenset()
    rows: list[ColumnRow] = []
    is_truncated = False
    for field in _select_fields(schema, with_all_inner_fields=with_all_inner_fields):
        if len(rows) >= max_rows:
            is_truncated = True
            break
        rows.append(
            ColumnRow(
                depth=field.depth,
                name=field.name,
                path=field.path,
                type_text=write_type(field.type),
                is_inner=field.is_inner,
                is_required=field.is_required,
                is_identifier=field.field_id in identifiers,
                doc=field.doc,
                field_id=field.field_id,
                initial_default=write_default(field.initial_default),
                write_default=write_default(field.write_default),
            )
        )
    return ColumnRows(get_schema_id(schema), tuple(rows), len(list_objects(schema, "fields")), is_truncated)


def _select_fields(schema: dict[str, Any], *, with_all_inner_fields: bool) -> Iterator[SchemaField]:
    complete_depth: int | None = None
    """Depth of the last field whose type text is complete: what is below it has no rows."""
    for field in walk_fields(schema):
        if complete_depth is not None and field.depth > complete_depth:
            continue
        complete_depth = None
        yield field
        if not with_all_inner_fields and is_written_completely(field.type):
            complete_depth = field.depth
