"""The updates of a table's columns, partitioning and order: add one, choose one, remove some.

All three kinds follow one rule of Java's `TableMetadata.Builder`: adding what exists re-uses its id, anything else gets
the highest id plus one whatever id the client sent, and -1 chooses the one that this request added last.
"""

from __future__ import annotations

from typing import Any

from catalog.iceberg import partition_specs, sort_orders
from catalog.iceberg.draft import Additions, Draft
from catalog.iceberg.json_fields import INT_RANGE, read_int_list, read_object
from catalog.iceberg.schemas import canonical_schema, check_version, parse_new_schema
from catalog.iceberg.types import UNSORTED_ORDER_ID
from icekeeper.kernel.errors.types import BadRequest


def add_schema(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-schema. The `last-column-id` of the client is ignored: it may be lower than the table's."""
    schema = parse_new_schema(document, where)
    check_version(schema, draft.format_version)
    document = canonical_schema(document)
    same_id = draft.schemas.find(document, schema.identity)
    if same_id is not None:
        draft.schemas.reuse(same_id)
        return
    schema_id = checked_id(draft.schemas.next_id, where)
    draft.metadata["last-column-id"] = max(draft.metadata["last-column-id"], schema.highest_field_id)
    draft.schemas.add(schema_id, {**document, "schema-id": schema_id}, schema.identity)


def add_spec(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-spec. `spec-id` and `field-id` are optional; given field ids are kept."""
    fields = partition_specs.parse_partition_spec(document, where)
    identity = tuple(field.identity for field in fields)
    same_id = draft.specs.find(document, identity)
    partition_specs.check_new(fields, draft.current_schema(), known=draft.partition_field_ids)
    if same_id is not None:
        draft.specs.reuse(same_id)
        return
    spec_id = checked_id(draft.specs.next_id, where)
    is_v1 = draft.format_version == 1
    last_partition_id = draft.metadata["last-partition-id"]
    written = partition_specs.with_field_ids(
        fields,
        document["fields"],
        assigned=draft.partition_field_ids,
        last_partition_id=last_partition_id,
        is_sequential=is_v1,
    )
    if is_v1 and not partition_specs.has_sequential_ids(written):
        raise BadRequest(f"{where}.fields: Spec does not use sequential IDs that are required in v1")
    field_ids = [checked_id(field["field-id"], f"{where}.fields") for field in written]
    draft.metadata["last-partition-id"] = max([last_partition_id, *field_ids])
    draft.partition_field_ids.update(zip(identity, field_ids, strict=True))
    draft.specs.add(spec_id, {**document, "spec-id": spec_id, "fields": written}, identity)


def add_sort_order(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-sort-order. The unsorted order is always order 0, others count from 1."""
    fields = sort_orders.parse_sort_order(document, where)
    identity = tuple(field.identity for field in fields)
    same_id = draft.orders.find(document, identity)
    sort_orders.check_new(fields, draft.current_schema(), known=draft.sort_fields)
    if same_id is not None:
        draft.orders.reuse(same_id)
        return
    order_id = checked_id(draft.orders.next_id, where) if fields else UNSORTED_ORDER_ID
    written = [field.written(source) for field, source in zip(fields, document["fields"], strict=True)]
    draft.orders.add(order_id, {**document, "order-id": order_id, "fields": written}, identity)


def on_add_schema(draft: Draft, update: dict[str, Any]) -> None:
    add_schema(draft, read_object(update, "schema", ""), "schema")


def on_add_spec(draft: Draft, update: dict[str, Any]) -> None:
    add_spec(draft, read_object(update, "spec", ""), "spec")


def on_add_sort_order(draft: Draft, update: dict[str, Any]) -> None:
    add_sort_order(draft, read_object(update, "sort-order", ""), "sort-order")


def on_set_current_schema(draft: Draft, update: dict[str, Any]) -> None:
    schema_id = draft.schemas.resolve(update, "schema-id")
    if schema_id not in draft.schemas.documents:
        raise BadRequest(f"schema-id: Cannot set current schema to unknown schema: {schema_id}")
    draft.metadata["current-schema-id"] = schema_id


def on_set_default_spec(draft: Draft, update: dict[str, Any]) -> None:
    spec_id = draft.specs.resolve(update, "spec-id")
    _check_known(draft.specs, spec_id, "spec-id")
    draft.metadata["default-spec-id"] = spec_id


def on_set_default_sort_order(draft: Draft, update: dict[str, Any]) -> None:
    order_id = draft.orders.resolve(update, "sort-order-id")
    _check_known(draft.orders, order_id, "sort-order-id")
    draft.metadata["default-sort-order-id"] = order_id


def on_remove_schemas(draft: Draft, update: dict[str, Any]) -> None:
    """Unknown ids are ignored, the current one is refused; whether a snapshot uses it is the client's requirement."""
    removed = set(read_int_list(update, "schema-ids", ""))
    if draft.metadata["current-schema-id"] in removed:
        raise BadRequest("schema-ids: Cannot remove the current schema")
    draft.schemas.remove(removed)


def on_remove_partition_specs(draft: Draft, update: dict[str, Any]) -> None:
    removed = set(read_int_list(update, "spec-ids", ""))
    if draft.metadata["default-spec-id"] in removed:
        raise BadRequest("spec-ids: Cannot remove the default partition spec")
    draft.specs.remove(removed)


def check_bindings(draft: Draft) -> None:
    """Check that specs and orders still match the current schema, as Java does when it binds them again: the default
    ones completely, older specs only in what readers need (no new column has the name of an old partition field)."""
    schema = draft.current_schema()
    metadata = draft.metadata
    spec_id, order_id = metadata["default-spec-id"], metadata["default-sort-order-id"]
    spec = next((known for known in metadata["partition-specs"] if known["spec-id"] == spec_id), None)
    order = next((known for known in metadata["sort-orders"] if known["order-id"] == order_id), None)
    if spec is None:
        raise BadRequest(f"Cannot set default partition spec to unknown spec: {spec_id}")
    if order is None:
        raise BadRequest(f"Cannot set default sort order to unknown sort order: {order_id}")
    for document in metadata["partition-specs"]:
        fields = partition_specs.parse_partition_spec(document, f"spec {document['spec-id']}")
        partition_specs.check_readable(fields, schema)
        if document is spec:
            partition_specs.check_default(fields, schema)
    sort_orders.check_default(sort_orders.parse_sort_order(order, f"sort order {order_id}"), schema)


def checked_id(assigned_id: int, where: str) -> int:
    """Ids are 32-bit: a table that came with the highest one cannot get another."""
    if assigned_id > INT_RANGE[1]:
        raise BadRequest(f"{where}: no id is left above {INT_RANGE[1]}")
    return assigned_id


def _check_known(known: Additions, chosen_id: int, field: str) -> None:
    if chosen_id not in known.documents:
        raise BadRequest(f"{field}: Cannot set default {known.kind} to unknown {known.kind}: {chosen_id}")
