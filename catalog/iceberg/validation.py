"""Validation of metadata files from other writers.

Follows Java's `TableMetadataParser.fromJson` and `ViewMetadataParser.fromJson`, and the checks of `TableMetadata` and
`ViewMetadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from catalog.iceberg import partition_specs, sort_orders
from catalog.iceberg.draft import current_snapshot_id, schema_id_of
from catalog.iceberg.json_fields import (
    as_list,
    as_object,
    as_string_map,
    check_depth,
    clip,
    field_path,
    missing,
    optional_long,
    read_int,
    read_list,
    read_long,
    read_string,
    require_not_ahead,
    required,
    wrong_type,
)
from catalog.iceberg.legacy import modernized
from catalog.iceberg.partition_specs import PartitionField
from catalog.iceberg.schemas import Schema, check_spelling, check_version, parse_schema
from catalog.iceberg.snapshots import (
    check_log_entry,
    check_metadata_log_entry,
    check_snapshot,
    read_reference,
    sequence_number,
)
from catalog.iceberg.sort_orders import SortField
from catalog.iceberg.table_changes import (
    check_encryption_key,
    check_format_version,
    check_partition_statistics_file,
    check_statistics_file,
    check_uuid,
    clean_location,
)
from catalog.iceberg.types import (
    LAST_ADDED,
    LOG_CLOCK_SKEW_MS,
    MAIN_BRANCH,
    ROW_LINEAGE_VERSION,
    UNSORTED_ORDER_ID,
    TableMetadata,
    ViewMetadata,
)
from catalog.iceberg.views import check_version_log_entry, check_view_format_version, check_view_version
from icekeeper.kernel.errors.types import BadRequest


def read_table_metadata(document: Any) -> TableMetadata:
    """Check a whole metadata document and give it in the modern form; the argument is left as it was.

    Accepts nothing that Java's reader refuses, and further asks that every id named is there (default spec and order),
    that `last-column-id` and `last-partition-id` cover the ids in use, and that types suit the format version: a table
    without that would break at a later commit. Types, transforms and sort fields must have their canonical spelling,
    and snapshots from version 2 on a `manifest-list`: clients other than Java's open no other table.

    Old files of version 1, with only `schema` and `partition-spec`, get `schemas`, `partition-specs`, `sort-orders` and
    so on, and keep their own members. `main` is added to `refs` if only `current-snapshot-id` is set. Commits are
    applied to this result, not to the document.

    Raises `BadRequest` naming the field.
    """
    document = as_object(document, "")
    check_depth(document, "")
    version = check_format_version(read_int(document, "format-version", ""), "format-version")
    _check_scalars(document, version)
    metadata = modernized(document, version)
    schema = _check_schemas(metadata, version)
    _check_specs(metadata, schema)
    _check_orders(metadata, schema)
    _check_snapshots(metadata, version)
    _check_refs(metadata)
    check_entries(metadata, "statistics", check_statistics_file)
    check_entries(metadata, "partition-statistics", check_partition_statistics_file)
    check_unique("encryption-keys", check_entries(metadata, "encryption-keys", check_encryption_key))
    _check_log(metadata, "snapshot-log", check_log_entry)
    _check_log(metadata, "metadata-log", check_metadata_log_entry)
    return metadata


def _check_scalars(document: dict[str, Any], version: int) -> None:
    clean_location(read_string(document, "location", ""), "location")
    read_int(document, "last-column-id", "")
    read_long(document, "last-updated-ms", "")
    optional_long(document, "current-snapshot-id", "")
    if "properties" in document:
        as_string_map(document["properties"], "properties")
    if document.get("table-uuid") is not None:
        check_uuid(read_string(document, "table-uuid", ""), "table-uuid")
    elif version > 1:
        raise missing("table-uuid")
    if version > 1 and read_long(document, "last-sequence-number", "") < 0:
        raise BadRequest("last-sequence-number: must not be negative")
    if version >= ROW_LINEAGE_VERSION and read_long(document, "next-row-id", "") < 0:
        raise BadRequest("next-row-id: must not be negative")


def check_times(metadata: dict[str, Any], now_ms: int) -> None:
    """Refuse checked metadata of a table or view with a time that is more than a day ahead of `now_ms`."""
    if "last-updated-ms" in metadata:
        require_not_ahead(metadata["last-updated-ms"], now_ms, "last-updated-ms")
    for name in ("snapshots", "snapshot-log", "metadata-log", "versions", "version-log"):
        for index, entry in enumerate(metadata.get(name) or []):
            require_not_ahead(entry["timestamp-ms"], now_ms, f"{name}[{index}].timestamp-ms")


def check_entries(
    metadata: TableMetadata, name: str, check: Callable[[dict[str, Any], str], Hashable]
) -> list[Hashable]:
    """Check every object of a list; an absent list is empty, null is none."""
    if name not in metadata:
        return []
    entries = as_list(metadata[name], name)
    return [check(as_object(entry, f"{name}[{i}]"), f"{name}[{i}]") for i, entry in enumerate(entries)]


def check_unique(name: str, ids: list[Hashable]) -> None:
    seen: set[Hashable] = set()
    for entry_id in ids:
        if entry_id in seen:
            raise BadRequest(f"{name}: id {clip(str(entry_id))} is used twice")
        seen.add(entry_id)


def _check_schemas(metadata: TableMetadata, version: int) -> Schema:
    # of parsed schemas only the current one is kept: a file may have hundreds of wide ones
    current_id = read_int(metadata, "current-schema-id", "")
    current: Schema | None = None
    highest = 0

    def check(entry: dict[str, Any], where: str) -> int:
        nonlocal current, highest
        parsed = parse_schema(entry, where)
        refuse_null_defaults(entry, where)
        check_spelling(entry, where)
        try:
            check_version(parsed, version)
        except BadRequest as error:
            raise BadRequest(f"{where}: {error.message}") from error
        schema_id = read_int(entry, "schema-id", where)
        highest = max(highest, parsed.highest_field_id)
        if schema_id == current_id:
            current = parsed
        return schema_id

    check_unique("schemas", check_entries(metadata, "schemas", check))
    if current is None:
        raise BadRequest(f"current-schema-id: Cannot find schema with current-schema-id={current_id} from schemas")
    if metadata["last-column-id"] < highest:
        raise BadRequest(f"last-column-id: {metadata['last-column-id']} is lower than the field id {highest} in use")
    return current


def refuse_null_defaults(value: Any, where: str) -> None:
    """Java's reader fails on `"initial-default": null`. Depth is bounded: the schema has been parsed."""
    match value:
        case dict():
            for name, part in value.items():
                if part is None and name in {"initial-default", "write-default"}:
                    raise wrong_type(field_path(where, name), "a default value or no such field", None)
                if name in {"fields", "type", "element", "key", "value"}:
                    refuse_null_defaults(part, field_path(where, name))
        case list():
            for index, part in enumerate(value):
                refuse_null_defaults(part, f"{where}[{index}]")


def _check_specs(metadata: TableMetadata, schema: Schema) -> None:
    default_id = read_int(metadata, "default-spec-id", "")
    last_partition_id = read_int(metadata, "last-partition-id", "")

    def check(entry: dict[str, Any], where: str) -> int:
        fields = partition_specs.parse_partition_spec(entry, where)
        for field in fields:
            if field.field_id is None:
                raise missing(f"{field.where}.field-id")
            if field.field_id > last_partition_id:
                raise BadRequest(
                    f"last-partition-id: {last_partition_id} is lower than the partition field id "
                    f"{field.field_id} in use"
                )
        _check_form(fields, entry)
        partition_specs.check_readable(fields, schema)
        spec_id = read_int(entry, "spec-id", where)
        if spec_id == default_id:
            partition_specs.check_default(fields, schema)
        return spec_id

    ids = check_entries(metadata, "partition-specs", check)
    check_unique("partition-specs", ids)
    if default_id not in ids:
        raise BadRequest(f"default-spec-id: there is no partition spec {default_id}")


def _check_form(fields: Sequence[PartitionField | SortField], entry: dict[str, Any]) -> None:
    """Refuse spellings that only Java reads: PyIceberg opens no file with `ASC` and does not know `BUCKET[16]`.

    The text of an unknown transform is its canonical form.
    """
    for field, document in zip(fields, entry["fields"], strict=True):
        for name, canonical in field.written(document).items():
            if document[name] != canonical:
                raise BadRequest(f"{field.where}.{name}: must be written in its canonical form: {clip(canonical)}")


def _check_orders(metadata: TableMetadata, schema: Schema) -> None:
    default_id = read_int(metadata, "default-sort-order-id", "")

    def check(entry: dict[str, Any], where: str) -> int:
        fields = sort_orders.parse_sort_order(entry, where)
        _check_form(fields, entry)
        order_id = read_int(entry, "order-id", where)
        if not fields and order_id != UNSORTED_ORDER_ID:
            raise BadRequest(f"{where}.order-id: Unsorted order ID must be {UNSORTED_ORDER_ID}")
        if fields and order_id == UNSORTED_ORDER_ID:
            raise BadRequest(f"{where}.order-id: Sort order ID {UNSORTED_ORDER_ID} is reserved for unsorted order")
        if order_id == default_id:
            sort_orders.check_default(fields, schema)
        return order_id

    ids = check_entries(metadata, "sort-orders", check)
    check_unique("sort-orders", ids)
    if default_id not in ids:
        raise BadRequest(f"default-sort-order-id: there is no sort order {default_id}")


def _check_snapshots(metadata: TableMetadata, version: int) -> None:
    ids = check_entries(metadata, "snapshots", lambda snapshot, where: check_snapshot(snapshot, where, version))
    check_unique("snapshots", ids)
    last_number = metadata["last-sequence-number"] if version > 1 else 0
    for index, snapshot in enumerate(metadata["snapshots"]):
        if sequence_number(snapshot) > last_number:
            raise BadRequest(
                f"snapshots[{index}]: Invalid snapshot with sequence number {sequence_number(snapshot)} "
                f"greater than last sequence number {last_number}"
            )
    _check_order(metadata["snapshots"])
    current_id = current_snapshot_id(metadata)
    if current_id is not None and current_id not in ids:
        raise BadRequest(f"current-snapshot-id: there is no snapshot {current_id}")


def _check_order(snapshots: list[dict[str, Any]]) -> None:
    """A snapshot has a higher sequence number than its parent; those of version 1 have none."""
    numbers = {snapshot["snapshot-id"]: sequence_number(snapshot) for snapshot in snapshots}
    for index, snapshot in enumerate(snapshots):
        number, above = sequence_number(snapshot), numbers.get(snapshot.get("parent-snapshot-id"), 0)
        if number <= above and above > 0:
            raise BadRequest(
                f"snapshots[{index}].sequence-number: {number} is out of order, as that of the parent is {above}"
            )


def _check_refs(metadata: TableMetadata) -> None:
    snapshot_ids = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    refs = as_object(required(metadata, "refs", ""), "refs")
    for name, document in refs.items():
        where = field_path("refs", name)
        reference = read_reference(name, as_object(document, where), where)
        if reference["type"] != document["type"]:
            raise wrong_type(field_path(where, "type"), '"branch" or "tag"', document["type"])
        if reference["snapshot-id"] not in snapshot_ids:
            raise BadRequest(f"{where}: Snapshot for reference does not exist: {reference['snapshot-id']}")
    main = refs.get(MAIN_BRANCH)
    current_id = current_snapshot_id(metadata)
    if current_id is None and main is not None:
        raise BadRequest("refs.main: Current snapshot is not set, but main branch exists")
    if main is not None and main["snapshot-id"] != current_id:
        raise BadRequest(
            f"refs.main: Current snapshot ID does not match main branch ({current_id} != {main['snapshot-id']})"
        )


def _check_log(metadata: TableMetadata, name: str, check: Callable[[dict[str, Any], str], Hashable]) -> None:
    """The entries of a log stand in order of time, and none after the last update, with a minute's tolerance."""
    check_entries(metadata, name, check)
    times = [entry["timestamp-ms"] for entry in metadata.get(name) or []]
    following = [*times, metadata["last-updated-ms"]][1:]
    for index, (earlier, later) in enumerate(zip(times, following, strict=True)):
        if later - earlier < -LOG_CLOCK_SKEW_MS:
            is_last = index == len(times) - 1
            problem = "lies after last-updated-ms" if is_last else "lies after the next entry"
            raise BadRequest(f"{name}[{index}].timestamp-ms: {earlier} {problem} {later}")


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
    check_unique("schemas", check_entries(metadata, "schemas", _check_view_schema))
    metadata["schemas"] = [
        schema if schema.get("schema-id") is not None else {**schema, "schema-id": schema_id_of(schema)}
        for schema in metadata["schemas"]
    ]
    _check_versions(metadata)
    check_entries(metadata, "version-log", check_version_log_entry)
    return metadata


def _check_view_schema(schema: dict[str, Any], where: str) -> int:
    parse_schema(schema, where)
    refuse_null_defaults(schema, where)
    check_spelling(schema, where)
    return schema_id_of(schema)


def _check_versions(metadata: ViewMetadata) -> None:
    schema_ids = {schema["schema-id"] for schema in metadata["schemas"]}

    def check(version: dict[str, Any], where: str) -> int:
        version_id = check_view_version(version, where)
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
