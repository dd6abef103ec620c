"""The first metadata of a new table or view.

Follows Java's `TableMetadata.newTableMetadata` and `TypeUtil.assignFreshIds`, for views `ViewMetadata.Builder` and the
`createView` of its server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from catalog.iceberg.draft import Draft
from catalog.iceberg.json_fields import as_int, as_object, as_string, as_string_map, check_depth, clip
from catalog.iceberg.partition_specs import PartitionField, parse_partition_spec
from catalog.iceberg.properties import read_table_properties, read_view_properties
from catalog.iceberg.schema_changes import add_schema, add_sort_order, add_spec
from catalog.iceberg.schemas import Schema, parse_new_schema
from catalog.iceberg.sort_orders import SortField, parse_sort_order
from catalog.iceberg.table_changes import check_format_version, check_uuid, clean_location
from catalog.iceberg.types import (
    INITIAL_SCHEMA_ID,
    INITIAL_SPEC_ID,
    INITIAL_VERSION_ID,
    LAST_ADDED,
    UNSORTED_ORDER_ID,
    TableMetadata,
    ViewMetadata,
)
from catalog.iceberg.updates import finish
from catalog.iceberg.views import ViewDraft, add_version, add_view_schema, read_new_version
from icekeeper.kernel.errors.types import BadRequest

_VERSION: Final = re.compile(r"[vV]?([0-9]{1,3})")

FreshIds = dict[int, int]


def requested_format_version(properties: Any) -> int | None:
    """The version that the property `format-version` asks for ("2" or "v2"), None when it does not.

    Raises `BadRequest` when the text is no version or one that is not supported.
    """
    text = None if properties is None else as_string_map(properties, "properties").get("format-version")
    if text is None:
        return None
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"properties.format-version: not a format version: {clip(text)}")
    return check_format_version(int(found[1]), "properties.format-version")


def create_table_metadata(
    *,
    schema: Any,
    partition_spec: Any,
    write_order: Any,
    location: Any,
    properties: Any,
    table_uuid: str,
    format_version: int,
    now_ms: int,
) -> TableMetadata:
    """Build the metadata of a new table from the fields of a create request.

    New field ids are assigned from 1, a level's fields first and then what is nested in them, in order; the sources
    of spec and order and the identifier fields follow. The schema becomes 0, the spec 0 with fields from 1000, the
    order 1, or 0 when unsorted. `partition_spec`, `write_order` and `properties` may be None; reserved properties are
    dropped (see `requested_format_version` for the one that matters). Unknown fields inside schema, spec and order
    are kept.

    Raises `BadRequest` naming the field.
    """
    check_format_version(format_version, "format-version")
    check_uuid(table_uuid, "table-uuid")
    schema = as_object(schema, "schema")
    partition_spec = {"fields": []} if partition_spec is None else as_object(partition_spec, "partition-spec")
    write_order = {"fields": []} if write_order is None else as_object(write_order, "write-order")
    for name, document in (("schema", schema), ("partition-spec", partition_spec), ("write-order", write_order)):
        check_depth(document, name)

    parsed = parse_new_schema(schema, "schema")
    fresh_ids: FreshIds = {}
    fresh_schema = _with_fresh_ids(schema, parsed, fresh_ids)
    partition_fields = parse_partition_spec(partition_spec, "partition-spec")
    sort_fields = parse_sort_order(write_order, "write-order")

    draft = Draft(None, format_version=format_version, now_ms=now_ms)
    draft.metadata["table-uuid"] = table_uuid
    draft.metadata["location"] = clean_location(as_string(location, "location"), "location")
    draft.metadata["properties"] = dict(read_table_properties(properties, "properties"))
    add_schema(draft, fresh_schema, "schema")
    draft.metadata["current-schema-id"] = INITIAL_SCHEMA_ID
    spec_fields = _rebound_fields(partition_spec, partition_fields, fresh_ids)
    add_spec(draft, {**partition_spec, "spec-id": INITIAL_SPEC_ID, "fields": spec_fields}, "partition-spec")
    order_fields = _rebound_fields(write_order, sort_fields, fresh_ids)
    add_sort_order(draft, {**write_order, "order-id": UNSORTED_ORDER_ID, "fields": order_fields}, "write-order")
    draft.metadata["default-sort-order-id"] = draft.orders.last
    return finish(draft, base_metadata_location=None, table_uuid=table_uuid).metadata


def _rebound_fields(
    document: dict[str, Any], fields: Sequence[PartitionField | SortField], fresh_ids: FreshIds
) -> list[dict[str, Any]]:
    """Return the fields of a spec or order with the fresh ids of their sources; their own ids are assigned later."""
    rebound_fields = []
    for field, original in zip(fields, document["fields"], strict=True):
        if field.source_id not in fresh_ids:
            raise BadRequest(f"{field.where}.source-id: Cannot find source column: {field.source_id}")
        rebound = {name: value for name, value in original.items() if name != "field-id"}
        rebound_fields.append(rebound | {"source-id": fresh_ids[field.source_id]})
    return rebound_fields


def equivalent_request(name: str, metadata: TableMetadata) -> dict[str, Any]:
    """Return the body of a request that creates the table `name` as in `metadata`, but for its snapshots."""
    return {
        "name": name,
        "location": metadata["location"],
        "schema": _by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"]),
        "partition-spec": _by_id(metadata["partition-specs"], "spec-id", metadata["default-spec-id"]),
        "write-order": _by_id(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"]),
        "stage-create": True,
        "properties": metadata["properties"],
    }


def _by_id(documents: Sequence[dict[str, Any]], member: str, wanted: int) -> dict[str, Any] | None:
    return next((document for document in documents if document[member] == wanted), None)


def _with_fresh_ids(document: dict[str, Any], schema: Schema, fresh_ids: FreshIds) -> dict[str, Any]:
    """The schema document with new ids; enters old id -> new id into `fresh_ids`."""
    fresh = _fresh_struct(document, count(1), fresh_ids)
    if schema.identifier_field_ids:
        fresh["identifier-field-ids"] = [
            fresh_ids[as_int(field_id, "schema.identifier-field-ids")] for field_id in document["identifier-field-ids"]
        ]
    return fresh


def _fresh_struct(document: dict[str, Any], ids: count[int], fresh_ids: FreshIds) -> dict[str, Any]:
    fields = []
    for field in document["fields"]:
        fresh_ids[field["id"]] = next(ids)
        fields.append({**field, "id": fresh_ids[field["id"]]})
    for field in fields:
        field["type"] = _fresh_type(field["type"], ids, fresh_ids)
    return {**document, "fields": fields}


def _fresh_type(document: Any, ids: count[int], fresh_ids: FreshIds) -> Any:
    """Recursion is bounded, as `parse_schema` has bounded the depth of the type."""
    if not isinstance(document, dict):
        return document
    if document["type"] == "struct":
        return _fresh_struct(document, ids, fresh_ids)
    inner = ("element",) if document["type"] == "list" else ("key", "value")
    fresh = dict(document)
    for name in inner:
        fresh_ids[document[f"{name}-id"]] = next(ids)
        fresh[f"{name}-id"] = fresh_ids[document[f"{name}-id"]]
    for name in inner:
        fresh[name] = _fresh_type(document[name], ids, fresh_ids)
    return fresh


def create_view_metadata(
    *, schema: Any, view_version: Any, location: Any, properties: Any, view_uuid: str
) -> ViewMetadata:
    """Build the metadata of a new view from the fields of a create request.

    The schema becomes 0 and keeps its field ids; the version becomes 1, of that schema, whatever ids the client sent,
    and keeps the rest: its time, its summary, the order of its representations, a default namespace that need not
    exist. `properties` may be None. Unknown fields inside schema and version are kept.

    Raises `BadRequest` naming the field, `EmptyView` for a version without a representation, `IllegalArgument` for two
    of one dialect.
    """
    check_uuid(view_uuid, "view-uuid")
    schema, view_version = as_object(schema, "schema"), as_object(view_version, "view-version")
    for name, document in (("schema", schema), ("view-version", view_version)):
        check_depth(document, name)
    version = read_new_version(view_version, "view-version")

    draft = ViewDraft(None)
    draft.metadata["view-uuid"] = view_uuid
    draft.metadata["location"] = clean_location(as_string(location, "location"), "location")
    draft.metadata["properties"] = dict(read_view_properties(properties, "properties"))
    add_view_schema(draft, schema, "schema")
    add_version(draft, {**version, "version-id": INITIAL_VERSION_ID, "schema-id": LAST_ADDED}, "view-version")
    draft.metadata["current-version-id"] = INITIAL_VERSION_ID
    draft.log_current_version(since_ms=version["timestamp-ms"])
    draft.settle()
    return draft.metadata
