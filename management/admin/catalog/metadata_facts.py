"""Facts in the metadata of tables and views, as pages show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catalog.iceberg.types import TableMetadata


def current_schema(metadata: TableMetadata) -> dict[str, Any]:
    return find_schema(metadata, metadata.get("current-schema-id"))


def find_schema(metadata: TableMetadata, schema_id: Any) -> dict[str, Any]:
    """Return the schema with an id; if there is none, the last one, or the only one of old metadata."""
    schemas = metadata.get("schemas") or [metadata.get("schema") or {}]
    return next((each for each in schemas if each.get("schema-id", 0) == schema_id), schemas[-1])


def current_snapshot(metadata: TableMetadata) -> dict[str, Any] | None:
    wanted = metadata.get("current-snapshot-id")
    return next((each for each in metadata.get("snapshots") or [] if each.get("snapshot-id") == wanted), None)


def moment_of(milliseconds: Any) -> datetime | None:
    """Return a time of metadata, in milliseconds since the epoch; None if it is none."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def sql_of(version: dict[str, Any]) -> list[dict[str, str]]:
    """Return the SQL texts of a version of a view, each with its dialect."""
    return [
        {"dialect": str(each.get("dialect", "")), "sql": str(each.get("sql", ""))}
        for each in version.get("representations") or []
        if each.get("type") == "sql"
    ]
