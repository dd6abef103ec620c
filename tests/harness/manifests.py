"""Manifest lists and manifests of tests, in the form of the table spec."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import fastavro

CITY = ({"name": "city", "type": ["null", "string"], "default": None, "field-id": 1000},)


def data_file(size: int, *, city: str | None = "Rome", records: int = 10, **more: Any) -> dict[str, Any]:
    return {
        "content": 0,
        "file_path": "file:///somewhere/a.parquet",
        "file_format": "PARQUET",
        "partition": {"city": city},
        "record_count": records,
        "file_size_in_bytes": size,
        "column_sizes": [{"key": 1, "value": 7}],
        "content_size_in_bytes": None,
        **more,
    }


def write_manifest(
    files: Sequence[dict[str, Any]],
    *,
    version: int = 2,
    status: int = 1,
    partition: Sequence[dict[str, Any]] = CITY,
    codec: str = "deflate",
) -> bytes:
    """Return a manifest with these files."""
    fields: list[dict[str, Any]] = [
        {"name": "file_path", "type": "string"},
        {"name": "file_format", "type": "string"},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": list(partition)}},
        {"name": "record_count", "type": "long"},
        {"name": "file_size_in_bytes", "type": "long"},
        {"name": "column_sizes", "type": ["null", {"type": "array", "items": {
            "type": "record", "name": "k117_v118",
            "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "long"}],
        }}]},
    ]  # fmt: skip
    if version > 1:
        fields.insert(0, {"name": "content", "type": "int"})
    if version > 2:
        fields.append({"name": "content_size_in_bytes", "type": ["null", "long"]})
    entry = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {"name": "snapshot_id", "type": ["null", "long"]},
            {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}},
        ],
    }
    records = [{"status": status, "snapshot_id": 1, "data_file": each} for each in files]
    return write_avro(entry, records, codec=codec, metadata={"partition-spec-id": "0", "format-version": str(version)})


def write_manifest_list(manifests: Sequence[tuple[str, int]], *, spec_id: int = 0) -> bytes:
    """Return a manifest list with these paths and lengths."""
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string"},
            {"name": "manifest_length", "type": "long"},
            {"name": "partition_spec_id", "type": "int"},
            {"name": "content", "type": "int"},
        ],
    }
    records = [
        {"manifest_path": path, "manifest_length": length, "partition_spec_id": spec_id, "content": 0}
        for path, length in manifests
    ]
    return write_avro(schema, records)


def write_avro(
    schema: Any, records: Sequence[Any], *, codec: str = "deflate", metadata: dict[str, str] | None = None
) -> bytes:
    written = BytesIO()
    fastavro.writer(written, schema, records, codec=codec, metadata=metadata or {})
    return written.getvalue()
