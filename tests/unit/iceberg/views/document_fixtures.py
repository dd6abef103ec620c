"""Small views for the example tests."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.create import create_view_metadata
from catalog.iceberg.types import ViewMetadata
from catalog.iceberg.validation import read_view_metadata
from catalog.iceberg.views import ViewChange, apply_view_updates
from tests.unit.iceberg.document_fixtures import DATA, ID, NOW, TIME, UUID, schema

LATER = NOW + 100_000
WIDER = schema(ID, DATA, TIME)


def sql(text: str = "select 1", dialect: str = "spark", **more: Any) -> dict[str, Any]:
    return {"type": "sql", "sql": text, "dialect": dialect, **more}


def version(version_id: int, *representations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A version that differs from others in its SQL, one second later than its predecessor."""
    document: dict[str, Any] = {
        "version-id": version_id,
        "timestamp-ms": NOW + version_id * 1_000,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "representations": list(representations) or [sql(f"select {version_id}")],
        "default-namespace": ["db"],
    }
    return document | more


def view(history: int = 1, **more: Any) -> ViewMetadata:
    """A view of columns id and data; each of its versions from 1 on has been current."""
    metadata: dict[str, Any] = {
        "view-uuid": UUID,
        "format-version": 1,
        "location": "s3://bucket/v",
        "properties": {"owner": "ann"},
        "schemas": [schema(ID, DATA, **{"schema-id": 0})],
        "current-version-id": history,
        "versions": [version(number) for number in range(1, history + 1)],
        "version-log": [log_entry(number) for number in range(1, history + 1)],
    }
    return read_view_metadata(metadata | more)


def log_entry(version_id: int, at_ms: int | None = None) -> dict[str, int]:
    return {"timestamp-ms": NOW + version_id * 1_000 if at_ms is None else at_ms, "version-id": version_id}


def created(**more: Any) -> ViewMetadata:
    request: dict[str, Any] = {
        "schema": schema(ID, DATA),
        "view_version": version(1),
        "location": "s3://bucket/v",
        "properties": {"owner": "ann"},
        "view_uuid": UUID,
    }
    return create_view_metadata(**(request | more))


def commit(base: ViewMetadata, *updates: Any, now_ms: int = LATER, **more: Any) -> ViewChange:
    return apply_view_updates(base, list(updates), now_ms=now_ms, **more)


def after(base: ViewMetadata, *updates: Any, **more: Any) -> ViewMetadata:
    return commit(base, *updates, **more).metadata


def add_schema(document: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-schema", "schema": document}


def add_version(document: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-view-version", "view-version": document}


def set_current(version_id: int = -1) -> dict[str, Any]:
    return {"action": "set-current-view-version", "view-version-id": version_id}


def set_properties(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def version_ids(metadata: ViewMetadata) -> list[int]:
    return [document["version-id"] for document in metadata["versions"]]


def logged_ids(metadata: ViewMetadata) -> list[int]:
    return [entry["version-id"] for entry in metadata["version-log"]]
