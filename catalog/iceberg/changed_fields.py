"""The fields of two schemas that may differ: those in columns that are not equal in both."""

from __future__ import annotations

from typing import Any, NamedTuple

from catalog.iceberg.display.schema_fields import SchemaField, walk_fields

Schema = dict[str, Any]


class ChangedFields(NamedTuple):
    """Fields by id, at every depth, of the columns that differ: those of the old schema, and those of the new one."""

    old: dict[int, SchemaField]
    new: dict[int, SchemaField]


def find_changed_fields(old: Schema | None, new: Schema) -> ChangedFields:
    """Return the fields in columns that are not equal in both schemas, for None those of all columns of `new`.

    Columns that are equal take no time beyond the comparison.
    """
    before = {} if old is None else {field["id"]: field for field in old["fields"]}
    after = {field["id"]: field for field in new["fields"]}
    return ChangedFields(_fields_of(before, other=after), _fields_of(after, other=before))


def _fields_of(columns: dict[int, Any], *, other: dict[int, Any]) -> dict[int, SchemaField]:
    differing = [column for field_id, column in columns.items() if other.get(field_id) != column]
    return {field.field_id: field for field in walk_fields({"fields": differing}) if field.field_id is not None}
