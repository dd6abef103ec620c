"""Identity, version, location, properties, statistics, keys, and the effect of every commit on times and logs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.updates import apply_updates
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import BASE_FILE, NOW, UUID, after, commit, table

LIMIT = "write.metadata.previous-versions-max"


def set_properties(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def test_no_updates_change_nothing() -> None:
    base = table(snapshots=2)
    change = commit(base)
    assert change.metadata is base
    assert not change.changed
    assert change.expired_metadata_files == []


@pytest.mark.parametrize(
    "updates",
    [
        [set_properties(owner="ann")],
        [set_properties(x="1"), {"action": "remove-properties", "removals": ["x"]}],
        [{"action": "set-location", "location": "s3://bucket/t//"}],
        [{"action": "set-location", "location": "s3://o"}, {"action": "set-location", "location": "s3://bucket/t"}],
        [{"action": "assign-uuid", "uuid": UUID.upper()}],
        [{"action": "upgrade-format-version", "format-version": 2}],
        [{"action": "remove-statistics", "snapshot-id": 1}],
    ],
)
def test_no_net_change(updates: list[Any]) -> None:
    assert not commit(table(), *updates).changed


def test_a_uuid_is_given_once() -> None:
    with pytest.raises(BadRequest, match="Cannot reassign uuid"):
        after(table(), {"action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000000"})
    with pytest.raises(BadRequest, match="expected a UUID"):
        after(table(), {"action": "assign-uuid", "uuid": "none"})
    nameless = table(1)
    del nameless["table-uuid"]
    assert after(nameless, {"action": "assign-uuid", "uuid": UUID})["table-uuid"] == UUID
    assert "table-uuid" not in after(nameless, set_properties(a="b"))
    with pytest.raises(BadRequest, match="UUID is required in format v2"):
        after(nameless, {"action": "upgrade-format-version", "format-version": 2})
    upgraded = after(nameless, {"action": "upgrade-format-version", "format-version": 2}, table_uuid=UUID)
    assert upgraded["table-uuid"] == UUID


def test_upgrades() -> None:
    first = table(1)
    second = after(first, {"action": "upgrade-format-version", "format-version": 2})
    assert second["last-sequence-number"] == 0
    assert not {"schema", "partition-spec", "next-row-id"} & second.keys()
    assert second["current-snapshot-id"] == -1
    third = after(first, {"action": "upgrade-format-version", "format-version": 3})
    assert (third["last-sequence-number"], third["next-row-id"], third["current-snapshot-id"]) == (0, 0, None)
    with pytest.raises(BadRequest, match="Cannot downgrade v3 table to v2"):
        after(third, {"action": "upgrade-format-version", "format-version": 2})


@pytest.mark.parametrize("version", [0, 5, 99])
def test_versions_that_are_not_supported(version: int) -> None:
    with pytest.raises(BadRequest, match=rf"Unsupported format version: v{version} \(supported: v1, v2, v3, v4\)"):
        after(table(), {"action": "upgrade-format-version", "format-version": version})


def test_version_1_keeps_the_legacy_fields_in_step() -> None:
    base = table(1)
    wider = {
        **base["schemas"][0],
        "fields": [*base["schemas"][0]["fields"], {"id": 4, "name": "x", "required": False, "type": "int"}],
    }
    metadata = after(
        base,
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 4, "transform": "identity", "name": "x"}]}},
        {"action": "set-default-spec", "spec-id": -1},
    )
    assert metadata["schema"] == metadata["schemas"][1]
    assert metadata["partition-spec"] == metadata["partition-specs"][1]["fields"]


def test_properties() -> None:
    base = table()
    metadata = after(
        base, set_properties(a="1", owner="bob"), {"action": "remove-properties", "removals": ["absent", "owner"]}
    )
    assert metadata["properties"] == {"a": "1"}
    assert base["properties"] == {"owner": "ann"}
    assert after(base, {"action": "set-properties", "updated": {"a": "1"}})["properties"]["a"] == "1"
    assert after(base, {"action": "remove-properties", "removed": ["owner"]})["properties"] == {}


def test_reserved_properties_are_never_stored() -> None:
    change = commit(table(), {"action": "set-properties", "updates": {"format-version": "3", "uuid": "x"}})
    assert not change.changed


@pytest.mark.parametrize("text", ["many", "", "1.5", "9999999999", "٣"])
def test_a_limit_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=f"updates.{LIMIT}: expected an integer"):
        after(table(), {"action": "set-properties", "updates": {LIMIT: text}})


def test_the_metadata_log_has_each_earlier_file() -> None:
    base = table(snapshots=1)
    change = commit(base, set_properties(a="1"), set_properties(a="2"))
    assert change.metadata["metadata-log"] == [{"timestamp-ms": base["last-updated-ms"], "metadata-file": BASE_FILE}]
    assert change.metadata["last-updated-ms"] == NOW + 100_000
    assert base["metadata-log"] == []


@pytest.mark.parametrize(("limit", "kept"), [("2", 2), ("4", 4), ("0", 1), ("-7", 1), ("100", 6), ("junk", 6)])
def test_the_metadata_log_is_cut_by_the_new_properties(limit: str, kept: int) -> None:
    entries = [{"timestamp-ms": NOW, "metadata-file": f"s3://m/{number}"} for number in range(5)]
    junk = {LIMIT: "junk"} if limit == "junk" else {}
    base = table(**{"metadata-log": entries, "properties": junk})
    change = commit(base, {"action": "set-properties", "updates": {"x": "y"} if junk else {LIMIT: limit}})
    log = change.metadata["metadata-log"]
    assert len(log) == kept
    assert log[-1]["metadata-file"] == BASE_FILE
    assert change.expired_metadata_files == entries[: 6 - kept]
    assert base["metadata-log"] == entries


def test_a_commit_without_an_earlier_file_logs_none() -> None:
    change = apply_updates(table(), [set_properties(a="1")], now_ms=NOW, base_metadata_location=None)
    assert change.metadata["metadata-log"] == []


def test_last_updated_never_goes_back() -> None:
    base = table(snapshots=9)
    assert after(base, set_properties(a="1"), now_ms=NOW)["last-updated-ms"] == base["last-updated-ms"]


FILE = {"snapshot-id": 1, "statistics-path": "s3://p", "file-size-in-bytes": 9}
BLOB = {"type": "any-puffin-blob-v9", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"n": "1"}}
STATISTICS = {**FILE, "file-footer-size-in-bytes": 3, "blob-metadata": [BLOB], "x-unknown": 1}


def test_statistics() -> None:
    base = table()
    metadata = after(base, {"action": "set-statistics", "snapshot-id": 5, "statistics": STATISTICS})
    assert metadata["statistics"] == [STATISTICS]
    other = {**STATISTICS, "statistics-path": "s3://q"}
    replaced = after(metadata, {"action": "set-statistics", "statistics": other})
    assert replaced["statistics"] == [other]
    assert after(replaced, {"action": "remove-statistics", "snapshot-id": 1})["statistics"] == []
    assert not commit(metadata, {"action": "set-statistics", "statistics": copy.deepcopy(STATISTICS)}).changed


def test_partition_statistics() -> None:
    metadata = after(table(), {"action": "set-partition-statistics", "partition-statistics": FILE})
    assert metadata["partition-statistics"] == [FILE]
    removal = {"action": "remove-partition-statistics", "snapshot-id": 1}
    assert after(metadata, removal)["partition-statistics"] == []
    assert not commit(table(), removal).changed


def test_encryption_keys() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "YWJj", "properties": {"a": "b"}, "x-unknown": []}
    addition = {"action": "add-encryption-key", "encryption-key": key}
    metadata = after(table(3), addition)
    assert metadata["encryption-keys"] == [key]
    assert not commit(metadata, {**addition, "encryption-key": {**key, "encrypted-key-metadata": "eHg="}}).changed
    assert after(metadata, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"] == []
    assert not commit(metadata, {"action": "remove-encryption-key", "key-id": "z"}).changed
    with pytest.raises(BadRequest, match="not supported until v3"):
        after(table(2), addition)
    with pytest.raises(BadRequest, match="encrypted-key-metadata: expected base64 text"):
        after(table(3), {**addition, "encryption-key": {**key, "encrypted-key-metadata": "@@"}})


def test_unknown_fields_of_the_table_survive_a_commit_in_their_order() -> None:
    base = {"x-first": {"a": [1, {"b": None}]}, **table(), "x-last": True}
    metadata = after(base, set_properties(a="1"))
    assert list(metadata) == list(base)
    assert metadata["x-first"] is base["x-first"]
    assert metadata["x-last"] is True
