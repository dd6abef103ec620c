"""The forms that version 1 had and has: files with only `schema` and `partition-spec`, and these two as copies."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.draft import current_snapshot_id
from catalog.iceberg.json_fields import as_list, as_object, optional_int, read_int, read_list, read_object
from catalog.iceberg.partition_specs import parse_partition_fields
from catalog.iceberg.types import (
    FIRST_PARTITION_FIELD_ID,
    INITIAL_SCHEMA_ID,
    INITIAL_SPEC_ID,
    MAIN_BRANCH,
    UNSORTED_ORDER_ID,
    TableMetadata,
)
from icekeeper.kernel.errors.types import BadRequest


def write_legacy_fields(metadata: TableMetadata) -> None:
    """Bring `schema` and `partition-spec` of a version 1 document in step with the current schema and default spec.

    Changes the top level of `metadata` only.
    """
    for schema in metadata["schemas"]:
        if (schema.get("schema-id") or INITIAL_SCHEMA_ID) == metadata["current-schema-id"]:
            metadata["schema"] = schema
    for spec in metadata["partition-specs"]:
        if spec["spec-id"] == metadata["default-spec-id"]:
            metadata["partition-spec"] = spec["fields"]


def modernized(document: dict[str, Any], version: int) -> TableMetadata:
    """Return a copy of a metadata document with all lists of the modern form; no member is removed.

    In version 1 missing lists are derived from the legacy fields, in later versions they are an error. Only the shape
    of the fields that are read is checked. Raises `BadRequest` naming the field.
    """
    metadata = dict(document)
    _modernize_schemas(metadata, version)
    _modernize_specs(metadata, version)
    if "sort-orders" not in metadata:
        _require_version_1("sort-orders", version)
        metadata["sort-orders"] = [{"order-id": UNSORTED_ORDER_ID, "fields": []}]
        metadata["default-sort-order-id"] = UNSORTED_ORDER_ID
    metadata.setdefault("properties", {})
    metadata.setdefault("snapshots", [])
    current_id = current_snapshot_id(metadata)
    refs = metadata.get("refs", {})
    if current_id is not None and isinstance(refs, dict) and MAIN_BRANCH not in refs:
        refs = {MAIN_BRANCH: {"snapshot-id": current_id, "type": "branch"}, **refs}
    metadata["refs"] = refs
    return metadata


def _modernize_schemas(metadata: TableMetadata, version: int) -> None:
    if "schemas" not in metadata:
        _require_version_1("schemas", version)
        schema = read_object(metadata, "schema", "")
        metadata["current-schema-id"] = _schema_id(schema, "schema")
        metadata["schemas"] = [schema]
    schemas = as_list(metadata["schemas"], "schemas")
    # Java reads a schema without an id as schema 0
    metadata["schemas"] = [
        {**as_object(schema, where), "schema-id": _schema_id(schema, where)}
        if as_object(schema, where).get("schema-id") is None
        else schema
        for where, schema in ((f"schemas[{index}]", schema) for index, schema in enumerate(schemas))
    ]


def _schema_id(schema: dict[str, Any], where: str) -> int:
    schema_id = optional_int(schema, "schema-id", where)
    return INITIAL_SCHEMA_ID if schema_id is None else schema_id


def _modernize_specs(metadata: TableMetadata, version: int) -> None:
    if "partition-specs" not in metadata:
        _require_version_1("partition-specs", version)
        fields = read_list(metadata, "partition-spec", "")
        metadata["default-spec-id"] = INITIAL_SPEC_ID
        metadata["partition-specs"] = [
            {"spec-id": INITIAL_SPEC_ID, "fields": _numbered_fields(fields, "partition-spec")}
        ]
    else:
        specs = as_list(metadata["partition-specs"], "partition-specs")
        metadata["partition-specs"] = [
            _numbered_spec(as_object(spec, f"partition-specs[{index}]"), f"partition-specs[{index}]")
            for index, spec in enumerate(specs)
        ]
    if metadata.get("last-partition-id") is None:
        _require_version_1("last-partition-id", version)
        metadata["last-partition-id"] = max(
            [FIRST_PARTITION_FIELD_ID - 1]
            + [
                read_int(field, "field-id", "partition-specs")
                for spec in metadata["partition-specs"]
                for field in spec["fields"]
            ]
        )


def _numbered_spec(spec: dict[str, Any], where: str) -> dict[str, Any]:
    fields = read_list(spec, "fields", where)
    numbered = _numbered_fields(fields, f"{where}.fields")
    return spec if numbered is fields else {**spec, "fields": numbered}


def _numbered_fields(fields: list[Any], where: str) -> list[Any]:
    """Partition fields with ids: where none has one they count from 1000, some with and some without is an error."""
    unnumbered = [field for field in parse_partition_fields(fields, where) if field.field_id is None]
    if not unnumbered:
        return fields
    if len(unnumbered) < len(fields) or any("field-id" in field for field in fields):
        raise BadRequest(
            f"{where}: Cannot parse spec with missing field IDs: {len(unnumbered)} missing of {len(fields)} fields."
        )
    return [{**field, "field-id": FIRST_PARTITION_FIELD_ID + index} for index, field in enumerate(fields)]


def _require_version_1(name: str, version: int) -> None:
    if version > 1:
        raise BadRequest(f"{name} must exist in format v{version}")
