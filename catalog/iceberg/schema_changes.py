"""The updates of a table's columns, partitioning and order: add one, choose one, remove some.

All three kinds follow one rule of Java's `TableMetadata.Builder`: adding what exists re-uses its id, anything else gets
the highest id plus one whatever id the client sent, and -1 chooses the one that this request added last.
"""

from __future__ import annotations

from typing import Any

from catalog.iceberg import partition_specs, sort_orders
from catalog.iceberg.draft import Additions, Draft
from catalog.iceberg.json_fields import INT_RANGE, as_object, read_int_list, read_object
from catalog.iceberg.schemas import check_version, parse_schema, without_null_defaults
from catalog.iceberg.types import INITIAL_SCHEMA_ID, INITIAL_SORT_ORDER_ID, INITIAL_SPEC_ID, UNSORTED_ORDER_ID
from icekeeper.kernel.errors import BadRequest


def add_schema(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-schema. The `last-column-id` of the client is ignored: it may be lower than the table's."""
    schema = parse_schema(document, where)
    check_version(schema, draft.format_version)
    column_ids = [field.field_id for field in schema.struct.fields]
    next_id = INITIAL_SCHEMA_ID
    for existing in draft.metadata["schemas"]:
        existing_id = existing.get("schema-id") or INITIAL_SCHEMA_ID
        has_same_columns = [field.get("id") for field in existing["fields"]] == column_ids
        if has_same_columns and parse_schema(existing, f"schema {existing_id}").is_same(schema):
            draft.schemas.reuse(existing_id)
            return
        next_id = max(next_id, existing_id + 1)
    _check_id(next_id, where)
    draft.own("schemas").append({**without_null_defaults(document), "schema-id": next_id})
    draft.metadata["last-column-id"] = max(draft.metadata["last-column-id"], schema.highest_field_id)
    draft.schemas.record(next_id)


def add_spec(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-spec. `spec-id` and `field-id` are optional; given field ids are kept."""
    fields = partition_specs.parse_partition_spec(document, where)
    assigned: dict[tuple[int, str, str], int] = {}
    next_id, same_id = INITIAL_SPEC_ID, None
    for existing in draft.metadata["partition-specs"]:
        known = partition_specs.parse_partition_spec(existing, f"spec {existing['spec-id']}")
        assigned.update((field.identity, field.field_id) for field in known if field.field_id is not None)
        if same_id is None and [field.identity for field in known] == [field.identity for field in fields]:
            same_id = existing["spec-id"]
        next_id = max(next_id, existing["spec-id"] + 1)
    partition_specs.check_new(fields, draft.current_schema(), known=frozenset(assigned))
    if same_id is not None:
        draft.specs.reuse(same_id)
        return
    _check_id(next_id, where)
    is_v1 = draft.format_version == 1
    last_partition_id = draft.metadata["last-partition-id"]
    written = partition_specs.with_field_ids(
        fields, document["fields"], assigned=assigned, last_partition_id=last_partition_id, is_sequential=is_v1
    )
    if is_v1 and not partition_specs.has_sequential_ids(written):
        raise BadRequest(f"{where}.fields: Spec does not use sequential IDs that are required in v1")
    for field in written:
        _check_id(field["field-id"], f"{where}.fields")
    draft.own("partition-specs").append({**document, "spec-id": next_id, "fields": written})
    draft.metadata["last-partition-id"] = max([last_partition_id, *(field["field-id"] for field in written)])
    draft.specs.record(next_id)


def add_sort_order(draft: Draft, document: dict[str, Any], where: str) -> None:
    """add-sort-order. The unsorted order is always order 0, others count from 1."""
    fields = sort_orders.parse_sort_order(document, where)
    identities = [field.identity for field in fields]
    known: set[tuple[int, str, str, str]] = set()
    next_id, same_id = INITIAL_SORT_ORDER_ID, None
    for existing in draft.metadata["sort-orders"]:
        existing_id = existing["order-id"]
        existing_fields = [
            field.identity for field in sort_orders.parse_sort_order(existing, f"sort order {existing_id}")
        ]
        known.update(existing_fields)
        if same_id is None and existing_fields == identities:
            same_id = existing_id
        next_id = max(next_id, existing_id + 1)
    sort_orders.check_new(fields, draft.current_schema(), known=frozenset(known))
    if same_id is not None:
        draft.orders.reuse(same_id)
        return
    order_id = next_id if fields else UNSORTED_ORDER_ID
    _check_id(order_id, where)
    written = [field.written(source) for field, source in zip(fields, document["fields"], strict=True)]
    draft.own("sort-orders").append({**document, "order-id": order_id, "fields": written})
    draft.orders.record(order_id)


def on_add_schema(draft: Draft, update: dict[str, Any]) -> None:
    add_schema(draft, read_object(update, "schema", ""), "schema")


def on_add_spec(draft: Draft, update: dict[str, Any]) -> None:
    add_spec(draft, read_object(update, "spec", ""), "spec")


def on_add_sort_order(draft: Draft, update: dict[str, Any]) -> None:
    add_sort_order(draft, read_object(update, "sort-order", ""), "sort-order")


def on_set_current_schema(draft: Draft, update: dict[str, Any]) -> None:
    schema_id = draft.schemas.resolve(update, "schema-id")
    if all((schema.get("schema-id") or 0) != schema_id for schema in draft.metadata["schemas"]):
        raise BadRequest(f"schema-id: Cannot set current schema to unknown schema: {schema_id}")
    draft.metadata["current-schema-id"] = schema_id


def on_set_default_spec(draft: Draft, update: dict[str, Any]) -> None:
    _choose(draft, draft.specs, update, member="spec-id", owner="partition-specs", chosen="default-spec-id")


def on_set_default_sort_order(draft: Draft, update: dict[str, Any]) -> None:
    order_id = draft.orders.resolve(update, "sort-order-id")
    _check_known(draft, "sort order", order_id, member="order-id", owner="sort-orders", field="sort-order-id")
    draft.metadata["default-sort-order-id"] = order_id


def on_remove_schemas(draft: Draft, update: dict[str, Any]) -> None:
    """Unknown ids are ignored, the current one is refused; whether a snapshot uses it is the client's requirement."""
    removed = set(read_int_list(update, "schema-ids", ""))
    if draft.metadata["current-schema-id"] in removed:
        raise BadRequest("schema-ids: Cannot remove the current schema")
    _remove(draft, "schemas", "schema-id", removed)


def on_remove_partition_specs(draft: Draft, update: dict[str, Any]) -> None:
    removed = set(read_int_list(update, "spec-ids", ""))
    if draft.metadata["default-spec-id"] in removed:
        raise BadRequest("spec-ids: Cannot remove the default partition spec")
    _remove(draft, "partition-specs", "spec-id", removed)


def check_bindings(draft: Draft) -> None:
    """Whether specs and orders still fit the current schema: the default ones wholly, older specs as far as a reader
    asks (a new column must not take the name of an old partition field), as Java does when it binds them anew."""
    schema = draft.current_schema()
    metadata = draft.metadata
    spec_id, order_id = metadata["default-spec-id"], metadata["default-sort-order-id"]
    spec = _find(metadata["partition-specs"], "spec-id", spec_id)
    order = _find(metadata["sort-orders"], "order-id", order_id)
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


def _check_id(assigned_id: int, where: str) -> None:
    """Ids are 32-bit: a table that came with the highest one cannot get another."""
    if assigned_id > INT_RANGE[1]:
        raise BadRequest(f"{where}: no id is left above {INT_RANGE[1]}")


def _choose(draft: Draft, added: Additions, update: dict[str, Any], *, member: str, owner: str, chosen: str) -> None:
    chosen_id = added.resolve(update, member)
    _check_known(draft, added.kind, chosen_id, member=member, owner=owner, field=member)
    draft.metadata[chosen] = chosen_id


def _check_known(draft: Draft, kind: str, chosen_id: int, *, member: str, owner: str, field: str) -> None:
    if _find(draft.metadata[owner], member, chosen_id) is None:
        raise BadRequest(f"{field}: Cannot set default {kind} to unknown {kind}: {chosen_id}")


def _find(documents: list[dict[str, Any]], member: str, wanted: int) -> dict[str, Any] | None:
    return next((as_object(document, member) for document in documents if document[member] == wanted), None)


def _remove(draft: Draft, owner: str, member: str, removed: set[int]) -> None:
    kept = [document for document in draft.metadata[owner] if (document.get(member) or 0) not in removed]
    if len(kept) != len(draft.metadata[owner]):
        owned = draft.own(owner)
        owned[:] = kept
