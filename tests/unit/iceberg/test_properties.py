"""Invariants of every table history: rules of the spec, no lost data, readable by pyiceberg."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.draft import current_snapshot_id
from catalog.iceberg.schemas import parse_schema
from catalog.iceberg.types import LOG_CLOCK_SKEW_MS, TableMetadata
from catalog.iceberg.updates import TABLE_UPDATES, apply_updates
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.unit.iceberg import strategy_fixtures as given_a
from tests.unit.iceberg.damaged_document_fixtures import damaged, nonsense
from tests.unit.iceberg.example_fixtures import examples

pytestmark = pytest.mark.timeout(3_600)  # for the long run
bounded = examples(60, long=2_000)


def assert_sound(metadata: TableMetadata) -> None:
    for name, member in (
        ("schemas", "schema-id"), ("partition-specs", "spec-id"), ("sort-orders", "order-id"),
        ("snapshots", "snapshot-id"),
    ):  # fmt: skip
        ids = [entry[member] for entry in metadata[name]]
        assert len(set(ids)) == len(ids)
    assert metadata["current-schema-id"] in {schema["schema-id"] for schema in metadata["schemas"]}
    assert metadata["default-spec-id"] in {spec["spec-id"] for spec in metadata["partition-specs"]}
    assert metadata["default-sort-order-id"] in {order["order-id"] for order in metadata["sort-orders"]}
    snapshot_ids = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    assert {ref["snapshot-id"] for ref in metadata["refs"].values()} <= snapshot_ids
    current = current_snapshot_id(metadata)
    assert metadata["refs"].get("main", {}).get("snapshot-id") == current
    assert metadata["last-column-id"] >= max(
        parse_schema(schema, "schema").highest_field_id for schema in metadata["schemas"]
    )
    fields = [field for spec in metadata["partition-specs"] for field in spec["fields"]]
    assert metadata["last-partition-id"] >= max([999, *(field["field-id"] for field in fields)])
    assert_logs_sound(metadata)
    version = metadata["format-version"]
    assert ("last-sequence-number" in metadata) == (version > 1)
    assert ("next-row-id" in metadata) == (version > 2)
    assert ("schema" in metadata) == ("partition-spec" in metadata) == (version == 1)
    if version == 1:
        assert metadata["schema"] == given_a.schema_by_id(metadata, metadata["current-schema-id"])
        assert all("sequence-number" not in snapshot for snapshot in metadata["snapshots"])
    else:
        numbers = [snapshot.get("sequence-number", 0) for snapshot in metadata["snapshots"]]
        assert metadata["last-sequence-number"] >= max([0, *numbers])
    if current is None:
        assert metadata["current-snapshot-id"] == (None if version > 2 else -1)
    assert all(metadata[name] is not None for name in metadata if name != "current-snapshot-id")


def assert_logs_sound(metadata: TableMetadata) -> None:
    log = metadata["snapshot-log"]
    current = current_snapshot_id(metadata)
    if current is not None:
        assert log[-1]["snapshot-id"] == current
    for entries in (log, metadata["metadata-log"]):
        times = [*(entry["timestamp-ms"] for entry in entries), metadata["last-updated-ms"]]
        assert all(later - earlier >= -LOG_CLOCK_SKEW_MS for earlier, later in itertools.pairwise(times))


@bounded
@given(given_a.histories())
def test_every_history_keeps_the_rules(history: tuple[TableMetadata, list[given_a.Commit]]) -> None:
    created, commits = history
    assert_sound(created)
    assert created["metadata-log"] == []
    for commit in commits:
        metadata = commit.change.metadata
        assert_sound(metadata)
        assert metadata["last-updated-ms"] >= commit.base["last-updated-ms"]
        assert metadata["last-column-id"] >= commit.base["last-column-id"]
        assert metadata["table-uuid"] == created["table-uuid"]
        if commit.change.changed:
            assert metadata["metadata-log"][-1]["timestamp-ms"] == commit.base["last-updated-ms"]
            assert (
                len(metadata["metadata-log"]) + len(commit.change.expired_metadata_files)
                == len(commit.base["metadata-log"]) + 1
            )
        else:
            assert metadata is commit.base
        before = {snapshot["snapshot-id"] for snapshot in commit.base["snapshots"]}
        after = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
        added = {snapshot["snapshot-id"] for snapshot in commit.change.added_snapshots}
        assert (before - set(commit.change.removed_snapshot_ids)) | added == after
        assert read_table_metadata(metadata) == metadata


@bounded
@given(st.data())
def test_a_commit_never_touches_its_base(data: st.DataObject) -> None:
    base = data.draw(given_a.table_metadata())
    before = copy.deepcopy(base)
    commit = data.draw(given_a.commits(base))
    sent = copy.deepcopy(commit.updates)
    again = apply_updates(base, commit.updates, now_ms=commit.now_ms, base_metadata_location="x")
    assert base == before
    assert commit.updates == sent
    assert again.changed == commit.change.changed


@bounded
@given(given_a.table_metadata(), st.integers(0, 2**41))
def test_updates_to_the_current_values_change_nothing(metadata: TableMetadata, now_ms: int) -> None:
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"].upper()},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
        {"action": "set-location", "location": metadata["location"] + "/"},
        {"action": "set-properties", "updates": metadata["properties"]},
        {"action": "remove-properties", "removals": ["never set"]},
        {"action": "set-current-schema", "schema-id": metadata["current-schema-id"]},
        {"action": "set-default-spec", "spec-id": metadata["default-spec-id"]},
        {"action": "set-default-sort-order", "sort-order-id": metadata["default-sort-order-id"]},
        {"action": "remove-snapshots", "snapshot-ids": [987654321]},
        {"action": "remove-snapshot-ref", "ref-name": "never set"},
        {"action": "remove-schemas", "schema-ids": [987654321]},
        {"action": "remove-partition-specs", "spec-ids": [987654321]},
        {"action": "remove-statistics", "snapshot-id": 987654321},
        {"action": "remove-partition-statistics", "snapshot-id": 987654321},
        {"action": "remove-encryption-key", "key-id": "never set"},
        *({"action": "add-schema", "schema": schema} for schema in metadata["schemas"]),
        *(
            {"action": "add-sort-order", "sort-order": order}
            for order in metadata["sort-orders"]
            if not order["fields"]
        ),
        *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in metadata["refs"].items()),
        *({"action": "set-statistics", "statistics": file} for file in metadata["statistics"]),
    ]
    change = apply_updates(metadata, updates, now_ms=now_ms, base_metadata_location="x")
    assert not change.changed
    assert change.metadata is metadata


@bounded
@given(given_a.histories(readers="java and pyiceberg"))
def test_pyiceberg_reads_the_same(history: tuple[TableMetadata, list[given_a.Commit]]) -> None:
    created, commits = history
    metadata = commits[-1].change.metadata if commits else created
    table = TableMetadataUtil.parse_obj(copy.deepcopy(metadata))
    assert table.format_version == metadata["format-version"]
    assert table.last_column_id == metadata["last-column-id"]
    assert table.current_snapshot_id == current_snapshot_id(metadata)
    assert table.current_schema_id == metadata["current-schema-id"]
    assert {schema.schema_id: schema.identifier_field_ids for schema in table.schemas} == {
        schema["schema-id"]: schema.get("identifier-field-ids", []) for schema in metadata["schemas"]
    }
    for theirs, ours in zip(table.schemas, metadata["schemas"], strict=True):
        columns = parse_schema(ours, "schema").columns
        assert {field_id: theirs.find_column_name(field_id) for field_id in columns} == {
            field_id: column.name for field_id, column in columns.items()
        }
    assert [
        (spec.spec_id, [(f.source_id, f.field_id, str(f.transform), f.name) for f in spec.fields])
        for spec in table.partition_specs
    ] == [
        (spec["spec-id"], [(f["source-id"], f["field-id"], f["transform"], f["name"]) for f in spec["fields"]])
        for spec in metadata["partition-specs"]
    ]
    assert table.default_spec_id == metadata["default-spec-id"]
    assert [(order.order_id, len(order.fields)) for order in table.sort_orders] == [
        (order["order-id"], len(order["fields"])) for order in metadata["sort-orders"]
    ]
    assert table.default_sort_order_id == metadata["default-sort-order-id"]
    assert {name: (ref.snapshot_id, str(ref.snapshot_ref_type)) for name, ref in table.refs.items()} == {
        name: (ref["snapshot-id"], ref["type"]) for name, ref in metadata["refs"].items()
    }
    assert [snapshot.snapshot_id for snapshot in table.snapshots] == [s["snapshot-id"] for s in metadata["snapshots"]]


@bounded
@given(given_a.create_requests())
def test_create_keeps_shape_and_counts_ids_from_one(request: dict[str, Any]) -> None:
    sent = copy.deepcopy(request)
    metadata = create_table_metadata(**request)
    assert request == sent
    assert_sound(metadata)
    before, after = parse_schema(request["schema"], ""), parse_schema(metadata["schemas"][0], "")
    assert list(after.ids_by_name) == list(before.ids_by_name)
    assert sorted(after.columns) == list(range(1, len(before.columns) + 1))
    top_level = [field["id"] for field in metadata["schemas"][0]["fields"]]
    assert top_level == list(range(1, len(top_level) + 1))
    for name, key, arg in (
        ("partition-specs", "spec-id", "partition_spec"),
        ("sort-orders", "order-id", "write_order"),
    ):
        sources = [before.columns[field["source-id"]].name for field in (request[arg] or {"fields": []})["fields"]]
        assert [after.columns[field["source-id"]].name for field in metadata[name][0]["fields"]] == sources
        assert metadata[name][0][key] == (1 if sources and key == "order-id" else 0)


UPDATE_FIELDS = [
    "uuid", "format-version", "schema", "schema-id", "spec", "spec-id", "sort-order", "sort-order-id", "snapshot",
    "ref-name", "type", "snapshot-id", "min-snapshots-to-keep", "snapshot-ids", "location", "updates", "removals",
    "statistics", "partition-statistics", "spec-ids", "schema-ids", "encryption-key", "key-id",
]  # fmt: skip


@bounded
@given(
    given_a.table_metadata(),
    nonsense(TABLE_UPDATES, UPDATE_FIELDS),
)
def test_nonsense_is_refused_and_changes_nothing(base: TableMetadata, updates: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(base)
    try:
        change = apply_updates(base, updates, now_ms=given_a.START_MS, base_metadata_location=None)
    except (BadRequest, CommitFailed):
        pass
    else:
        assert_sound(change.metadata)
    assert base == before


@bounded
@given(damaged(given_a.table_metadata()))
def test_a_damaged_document_is_refused_or_sound(damage: tuple[str, TableMetadata]) -> None:
    document = damage[1]
    before = copy.deepcopy(document)
    try:
        metadata = read_table_metadata(document)
    except BadRequest:
        return
    finally:
        assert document == before
    assert read_table_metadata(metadata) == metadata
    change = apply_updates(
        metadata,
        [{"action": "set-properties", "updates": {"touched": "yes"}}],
        now_ms=given_a.START_MS,
        base_metadata_location="x",
    )
    assert change.changed


@pytest.mark.parametrize("document", [None, True, 1, "x", [], [{}], {}, {"format-version": 2}])
def test_documents_that_are_no_metadata_are_rejected(document: Any) -> None:
    with pytest.raises(BadRequest):
        read_table_metadata(document)
