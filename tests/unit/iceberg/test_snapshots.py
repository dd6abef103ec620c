"""Snapshots, references and the snapshot log."""

from __future__ import annotations

from typing import Any

import pytest

from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.unit.iceberg.document_fixtures import NOW, add, after, column, commit, schema, set_main, snapshot, table

REMOVE_MAIN = {"action": "remove-snapshot-ref", "ref-name": "main"}


def remove(*snapshot_ids: int) -> dict[str, Any]:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def log_of(metadata: dict[str, Any]) -> list[int]:
    return [entry["snapshot-id"] for entry in metadata["snapshot-log"]]


def test_an_append() -> None:
    base = table(snapshots=1)
    change = commit(base, add(snapshot(2, parent=1, **{"x-engine": {"v": [1]}})), set_main(2), now_ms=NOW + 5_000)
    metadata = change.metadata
    assert metadata["current-snapshot-id"] == 2
    assert metadata["refs"] == {"main": {"type": "branch", "snapshot-id": 2}}
    assert metadata["last-sequence-number"] == 2
    assert metadata["snapshots"][1]["x-engine"] == {"v": [1]}
    assert metadata["snapshot-log"][1:] == [{"timestamp-ms": NOW + 2_000, "snapshot-id": 2}]
    assert metadata["last-updated-ms"] == NOW + 5_000
    assert change.added_snapshots == [metadata["snapshots"][1]]
    assert change.removed_snapshot_ids == []
    assert metadata["snapshots"][0] is base["snapshots"][0]
    assert metadata["schemas"] is base["schemas"]


def test_an_id_is_given_once() -> None:
    with pytest.raises(BadRequest, match="Snapshot already exists for id: 1"):
        after(table(snapshots=1), add(snapshot(1, number=9)))


@pytest.mark.parametrize("number", [1, 2])
def test_a_stale_sequence_number_is_a_conflict(number: int) -> None:
    with pytest.raises(CommitFailed) as error:
        after(table(snapshots=2), add(snapshot(7, parent=1, number=number)))
    text = f"Cannot add snapshot with sequence number {number} older than last sequence number 2"
    assert error.value.message == text


def test_without_a_parent_a_stale_number_passes_but_the_last_one_stays() -> None:
    metadata = after(table(snapshots=3), add(snapshot(7, number=2)), set_main(7))
    assert metadata["last-sequence-number"] == 3
    assert metadata["current-snapshot-id"] == 7


def test_version_1_has_no_sequence_numbers() -> None:
    assert "sequence-number" not in after(table(1), add({**snapshot(1), "sequence-number": 0}))["snapshots"][0]
    with pytest.raises(BadRequest, match="Sequence number must be 0 in v1: 1"):
        after(table(1), add(snapshot(1)))


def test_row_ids_of_version_3() -> None:
    base = table(3, snapshots=2)
    rows = {"first-row-id": 2, "added-rows": 10}
    assert after(base, add(snapshot(3, parent=2, **rows)))["next-row-id"] == 12
    assert after(base, add(snapshot(3, parent=2, **{**rows, "first-row-id": 5})))["next-row-id"] == 15
    with pytest.raises(BadRequest, match="first-row-id is null"):
        after(base, add(snapshot(3, parent=2)))
    with pytest.raises(CommitFailed, match="first-row-id is behind table next-row-id: 1 < 2"):
        after(base, add(snapshot(3, parent=2, **{**rows, "first-row-id": 1})))
    with pytest.raises(BadRequest, match="required when first-row-id is set"):
        after(base, add(snapshot(3, parent=2, **{"first-row-id": 2})))
    with pytest.raises(BadRequest, match="cannot be negative"):
        after(base, add(snapshot(3, parent=2, **{**rows, "added-rows": -1})))
    with pytest.raises(BadRequest, match="row ids are exhausted"):
        after(base, add(snapshot(3, parent=2, **{**rows, "added-rows": 2**63 - 1})))


def test_null_fields_of_a_snapshot_are_left_out() -> None:
    stored = after(table(), add(snapshot(1, **{"parent-snapshot-id": None, "key-id": None, "schema-id": None})))
    assert not {"parent-snapshot-id", "key-id", "schema-id"} & stored["snapshots"][0].keys()


@pytest.mark.parametrize("schema_id", [1, 2**31 - 1])
def test_a_snapshot_of_an_unknown_schema_is_rejected(schema_id: int) -> None:
    with pytest.raises(CommitFailed, match=f"snapshot.schema-id: the table has no schema {schema_id}"):
        after(table(), add(snapshot(1, **{"schema-id": schema_id})))


def test_a_snapshot_of_a_schema_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"snapshot\.schema-id: cannot be negative: -1"):
        after(table(), add(snapshot(1, **{"schema-id": -1})))


def test_a_snapshot_of_a_removed_schema_is_a_conflict() -> None:
    """The writer has an older version of the table; with the newest one the same append succeeds."""
    replaced = [
        {"action": "add-schema", "schema": schema(column(1, "id", "long", required=True))},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "remove-schemas", "schema-ids": [0]},
    ]
    base = after(table(), *replaced)
    with pytest.raises(CommitFailed, match=r"snapshot\.schema-id: the table has no schema 0"):
        after(base, add(snapshot(1, **{"schema-id": 0})))
    assert after(base, add(snapshot(1, **{"schema-id": 1})))["snapshots"]


def test_a_snapshot_of_the_newest_schema_after_its_removal_is_a_conflict() -> None:
    """The newest schema leaves no trace: the next schema gets its id."""
    removed = [
        {"action": "add-schema", "schema": schema(column(1, "id", "long", required=True))},
        {"action": "remove-schemas", "schema-ids": [1]},
    ]
    base = after(table(), *removed)
    with pytest.raises(CommitFailed, match=r"snapshot\.schema-id: the table has no schema 1"):
        after(base, add(snapshot(1, **{"schema-id": 1})))


def test_a_snapshot_may_be_of_a_schema_that_the_same_request_adds() -> None:
    new_schema = {"action": "add-schema", "schema": schema(column(1, "id", "long", required=True))}
    metadata = after(table(), new_schema, add(snapshot(1, **{"schema-id": 1})))
    assert metadata["snapshots"][0]["schema-id"] == 1


def test_a_snapshot_is_not_its_own_parent() -> None:
    with pytest.raises(BadRequest, match="a snapshot cannot be its own parent: 1"):
        after(table(), add(snapshot(1, parent=1)))


@pytest.mark.parametrize("missing", ["summary", "manifest-list", "timestamp-ms", "snapshot-id"])
def test_required_members_of_a_snapshot(missing: str) -> None:
    document = snapshot(1)
    del document[missing]
    with pytest.raises(
        BadRequest, match=rf"updates\[0\] \(add-snapshot\): snapshot.{missing}: required field is missing"
    ):
        after(table(), add(document))


def test_only_the_final_current_snapshot_enters_the_log() -> None:
    metadata = after(
        table(snapshots=1), add(snapshot(2, parent=1)), set_main(2), add(snapshot(3, parent=2)), set_main(3)
    )
    assert log_of(metadata) == [1, 3]


def test_a_rollback_enters_the_log_at_the_present_time() -> None:
    metadata = after(table(snapshots=2), set_main(1), now_ms=NOW + 9_000)
    assert metadata["snapshot-log"][-1] == {"timestamp-ms": NOW + 9_000, "snapshot-id": 1}
    assert metadata["current-snapshot-id"] == 1


def test_create_or_replace_keeps_the_old_history() -> None:
    metadata = after(table(snapshots=1), REMOVE_MAIN, add(snapshot(2)), set_main(2))
    assert log_of(metadata) == [1, 2]
    assert len(metadata["snapshots"]) == 2


def test_taking_main_away_and_back_is_no_change() -> None:
    base = table(snapshots=2)
    assert not commit(base, REMOVE_MAIN, set_main(2)).changed


@pytest.mark.parametrize(("version", "written"), [(1, -1), (2, -1), (3, None)])
def test_a_table_without_main_has_no_current_snapshot(version: int, written: int | None) -> None:
    metadata = after(table(version, snapshots=2), REMOVE_MAIN)
    assert metadata["current-snapshot-id"] == written
    assert metadata["refs"] == {}
    assert log_of(metadata) == [1, 2]
    assert len(metadata["snapshots"]) == 2


def test_a_snapshot_far_before_the_log_is_refused() -> None:
    base = table(snapshots=200)
    late = snapshot(201, parent=200)
    assert after(base, add({**late, "timestamp-ms": NOW + 140_000}), set_main(201))["current-snapshot-id"] == 201
    with pytest.raises(BadRequest, match="more than a minute before the last snapshot log entry"):
        after(base, add({**late, "timestamp-ms": NOW + 139_999}), set_main(201))


def test_a_clock_that_went_back_does_not_disorder_the_logs() -> None:
    metadata = after(table(snapshots=3), set_main(1), now_ms=5)
    assert metadata["snapshot-log"][-1]["timestamp-ms"] == NOW + 3_000
    assert metadata["last-updated-ms"] == NOW + 3_000


def test_a_client_ahead_of_time_carries_the_table_along() -> None:
    ahead = snapshot(1, **{"timestamp-ms": NOW + 900_000})
    assert after(table(), add(ahead), set_main(1), now_ms=NOW)["last-updated-ms"] == NOW + 900_000


def test_removing_snapshots_cuts_the_log_before_them() -> None:
    base = table(snapshots=5)
    change = commit(base, remove(2, 77), remove(1))
    assert [entry["snapshot-id"] for entry in change.metadata["snapshots"]] == [3, 4, 5]
    assert change.metadata["snapshots"][0]["parent-snapshot-id"] == 2
    assert log_of(change.metadata) == [3, 4, 5]
    assert change.removed_snapshot_ids == [2, 1]
    assert log_of(after(base, remove(4))) == [5]
    assert not commit(base, remove(77)).changed


def test_removing_snapshots_removes_their_dependents() -> None:
    file = {"statistics-path": "s3://f", "file-size-in-bytes": 1}
    base = table(
        snapshots=3,
        refs={
            "main": {"snapshot-id": 3, "type": "branch"},
            "old": {"snapshot-id": 1, "type": "tag"},
            "new": {"snapshot-id": 2, "type": "branch"},
        },
        statistics=[{"snapshot-id": 1, **file, "file-footer-size-in-bytes": 1, "blob-metadata": []}],
        **{"partition-statistics": [{"snapshot-id": 1, **file}, {"snapshot-id": 3, **file}]},
    )
    metadata = after(base, remove(1))
    assert sorted(metadata["refs"]) == ["main", "new"]
    assert metadata["statistics"] == []
    assert metadata["partition-statistics"] == [{"snapshot-id": 3, **file}]
    removed = after(base, remove(1, 2, 3))
    assert (removed["refs"], removed["current-snapshot-id"], removed["snapshot-log"], removed["snapshots"]) == (
        {},
        -1,
        [],
        [],
    )
    assert removed["last-sequence-number"] == 3


def test_a_snapshot_may_be_added_and_removed_in_one_request() -> None:
    base = table(snapshots=1)
    change = commit(base, add(snapshot(2, parent=1)), remove(2))
    assert change.changed
    assert change.metadata["last-sequence-number"] == 2
    assert (change.added_snapshots, change.removed_snapshot_ids) == ([], [])
    replaced = commit(base, remove(1), add(snapshot(1, number=2)), set_main(1))
    assert ([entry["snapshot-id"] for entry in replaced.added_snapshots], replaced.removed_snapshot_ids) == ([1], [1])


def test_references() -> None:
    base = table(snapshots=2)
    tag = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1}
    metadata = after(base, {**tag, "max-ref-age-ms": 5, "min-snapshots-to-keep": None, "x-who": "ann"})
    assert metadata["refs"]["v1"] == {"type": "tag", "snapshot-id": 1, "max-ref-age-ms": 5, "x-who": "ann"}
    assert log_of(metadata) == [1, 2]
    assert not commit(metadata, {**tag, "max-ref-age-ms": 5, "x-who": "ann"}).changed
    assert after(metadata, {**tag, "type": "BRANCH"})["refs"]["v1"] == {"type": "branch", "snapshot-id": 1}
    removed = after(metadata, {"action": "remove-snapshot-ref", "ref-name": "v1"})
    assert removed["refs"] == base["refs"]
    assert not commit(base, {"action": "remove-snapshot-ref", "ref-name": "v1"}).changed


def test_other_limits_of_main_are_no_new_history() -> None:
    metadata = after(table(snapshots=2), {**set_main(2), "min-snapshots-to-keep": 3})
    assert metadata["refs"]["main"]["min-snapshots-to-keep"] == 3
    assert log_of(metadata) == [1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"snapshot-id": 9}, "Cannot set b to unknown snapshot: 9"),
        ({"type": "twig"}, "Invalid snapshot ref type: twig"),
        ({"ref-name": "main", "type": "tag"}, "main must be a branch"),
        ({"min-snapshots-to-keep": 0}, "min-snapshots-to-keep: must be greater than 0"),
        ({"max-snapshot-age-ms": -1}, "max-snapshot-age-ms: must be greater than 0"),
        ({"max-ref-age-ms": 0}, "max-ref-age-ms: must be greater than 0"),
        ({"type": "tag", "min-snapshots-to-keep": 1}, "Tags do not support setting min-snapshots-to-keep"),
        ({"type": "tag", "max-snapshot-age-ms": 1}, "Tags do not support setting max-snapshot-age-ms"),
    ],
)
def test_invalid_references(changed: dict[str, Any], message: str) -> None:
    ref = {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 1}
    with pytest.raises(BadRequest, match=message):
        after(table(snapshots=1), ref | changed)
