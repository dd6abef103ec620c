"""Validation of view metadata files from other writers. Follows Java's `ViewMetadataParser.fromJson` and the checks of
`ViewMetadata` itself."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.draft import schema_id_of
from catalog.iceberg.json_fields import (
    as_object,
    as_string_map,
    check_depth,
    read_int,
    read_list,
    read_string,
)
from catalog.iceberg.schemas import check_spelling, parse_schema
from catalog.iceberg.table_changes import check_uuid, clean_location
from catalog.iceberg.types import LAST_ADDED
from catalog.iceberg.validation import check_entries, check_unique, refuse_null_defaults
from catalog.iceberg.views.changes import check_view_format_version
from catalog.iceberg.views.types import ViewMetadata
from catalog.iceberg.views.versions import check_version, check_version_log_entry
from icekeeper.kernel.errors.types import BadRequest


def read_view_metadata(document: Any) -> ViewMetadata:
    """Validate a metadata document of a view; return a copy with `properties` and an id in every schema.

    Rejects everything that Java's reader rejects, and also invalid UUIDs, versions with the id -1 and versions without
    an existing schema. Representations of unknown types are kept. Commits are based on the result, not on the document.

    Raises `BadRequest` naming the field.
    """
    document = as_object(document, "")
    check_depth(document, "")
    check_view_format_version(read_int(document, "format-version", ""), "format-version")
    check_uuid(read_string(document, "view-uuid", ""), "view-uuid")
    clean_location(read_string(document, "location", ""), "location")
    metadata = dict(document)
    metadata.setdefault("properties", {})
    as_string_map(metadata["properties"], "properties")
    for name in ("schemas", "versions", "version-log"):
        read_list(document, name, "")
    check_unique("schemas", check_entries(metadata, "schemas", _check_schema))
    metadata["schemas"] = [
        schema if schema.get("schema-id") is not None else {**schema, "schema-id": schema_id_of(schema)}
        for schema in metadata["schemas"]
    ]
    _check_versions(metadata)
    check_entries(metadata, "version-log", check_version_log_entry)
    return metadata


def _check_schema(schema: dict[str, Any], where: str) -> int:
    parse_schema(schema, where)
    refuse_null_defaults(schema, where)
    check_spelling(schema, where)
    return schema_id_of(schema)


def _check_versions(metadata: ViewMetadata) -> None:
    schema_ids = {schema["schema-id"] for schema in metadata["schemas"]}

    def check(version: dict[str, Any], where: str) -> int:
        version_id = check_version(version, where)
        if version_id == LAST_ADDED:
            raise BadRequest(f"{where}.version-id: {LAST_ADDED} means the last one added and cannot be the id of one")
        if version["schema-id"] not in schema_ids:
            raise BadRequest(f"{where}.schema-id: there is no schema {version['schema-id']}")
        return version_id

    ids = check_entries(metadata, "versions", check)
    check_unique("versions", ids)
    current_id = read_int(metadata, "current-version-id", "")
    if current_id not in ids:
        raise BadRequest(f"current-version-id: Cannot find current version {current_id} in view versions")
