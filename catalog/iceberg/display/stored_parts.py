"""Look-up of parts of stored metadata: the current schema, and schemas, specs and orders by their ids.

Unlike `catalog.iceberg.validation`, these functions never raise: pages must also show metadata that lacks optional
members, in the forms of every format version.
"""

from __future__ import annotations

from typing import Any

from catalog.iceberg.types import INITIAL_SCHEMA_ID, TableMetadata, ViewMetadata


def list_objects(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects in the list member `name` of `owner`; empty if there is no such list."""
    items = owner.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def list_schemas(metadata: TableMetadata | ViewMetadata) -> list[dict[str, Any]]:
    """Return the schema documents of a table or view, in stored order; in version 1 also the one of `schema`."""
    schemas = list_objects(metadata, "schemas")
    legacy = metadata.get("schema")
    return schemas or ([legacy] if isinstance(legacy, dict) else [])


def get_schema_id(schema: dict[str, Any]) -> int:
    """Return the id of a schema document; one without an id is schema 0, as in Java."""
    schema_id = schema.get("schema-id")
    return schema_id if isinstance(schema_id, int) else INITIAL_SCHEMA_ID


def find_schema(metadata: TableMetadata | ViewMetadata, schema_id: int) -> dict[str, Any] | None:
    """Return the schema document with that id, None if there is none."""
    return next((schema for schema in list_schemas(metadata) if get_schema_id(schema) == schema_id), None)


def find_current_schema(metadata: TableMetadata | ViewMetadata) -> dict[str, Any] | None:
    """Return the current schema of a table, or the schema of a view's current version; None if it is missing."""
    schema_id = metadata.get("current-schema-id")
    if schema_id is None:
        version = find_current_version(metadata)
        schema_id = None if version is None else version.get("schema-id")
    if not isinstance(schema_id, int):
        legacy = metadata.get("schema")
        return legacy if isinstance(legacy, dict) else None
    return find_schema(metadata, schema_id)


def find_snapshot(metadata: TableMetadata, snapshot_id: Any) -> dict[str, Any] | None:
    """Return the snapshot with that id, None if there is none. The newest ones are mostly at the end."""
    snapshots = list_objects(metadata, "snapshots")
    return next((each for each in reversed(snapshots) if each.get("snapshot-id") == snapshot_id), None)


def find_current_version(metadata: ViewMetadata) -> dict[str, Any] | None:
    """Return the current version of a view; None if it is missing."""
    current_id = metadata.get("current-version-id")
    versions = list_objects(metadata, "versions")
    return next((version for version in versions if version.get("version-id") == current_id), None)
