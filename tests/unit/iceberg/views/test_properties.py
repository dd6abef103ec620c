"""Invariants of every view history: rules of the spec, no lost data, readable by pyiceberg."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.view.metadata import ViewMetadata as PyIcebergView

from catalog.iceberg.create import create_view_metadata
from catalog.iceberg.properties import history_size
from catalog.iceberg.schemas import parse_schema
from catalog.iceberg.types import ViewMetadata
from catalog.iceberg.validation import read_view_metadata
from catalog.iceberg.views import VIEW_UPDATES, apply_view_updates, sql_dialects, version_identity
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.damaged_document_fixtures import damaged, nonsense
from tests.unit.iceberg.example_fixtures import examples
from tests.unit.iceberg.strategy_fixtures import START_MS
from tests.unit.iceberg.views import strategy_fixtures as given_a

pytestmark = pytest.mark.timeout(3_600)  # for the long run
bounded = examples(60, long=2_000)


def by_id(metadata: ViewMetadata) -> dict[int, Any]:
    return {version["version-id"]: version for version in metadata["versions"]}


def assert_sound(metadata: ViewMetadata) -> None:
    versions = by_id(metadata)
    assert len(versions) == len(metadata["versions"])
    schema_ids = [schema["schema-id"] for schema in metadata["schemas"]]
    assert len(set(schema_ids)) == len(schema_ids)
    assert {version["schema-id"] for version in versions.values()} <= set(schema_ids)
    assert metadata["current-version-id"] in versions
    logged = [entry["version-id"] for entry in metadata["version-log"]]
    assert logged[-1] == metadata["current-version-id"]
    assert set(logged) <= set(versions)
    assert len({version_identity(version) for version in versions.values()}) == len(versions)
    assert len({parse_schema(schema, "").identity for schema in metadata["schemas"]}) == len(schema_ids)
    assert metadata["format-version"] == 1
    assert all(version["representations"] for version in versions.values())
    assert all(len(sql_dialects(version)) == len(version["representations"]) for version in versions.values())


@bounded
@given(given_a.view_histories())
def test_every_history_keeps_the_rules(history: tuple[ViewMetadata, list[given_a.ViewCommit]]) -> None:
    created, commits = history
    assert_sound(created)
    for commit in commits:
        base, metadata = commit.base, commit.change.metadata
        assert_sound(metadata)
        assert read_view_metadata(metadata) == metadata
        assert metadata["view-uuid"] == created["view-uuid"]
        assert metadata["schemas"][: len(base["schemas"])] == base["schemas"]
        if not commit.change.changed:
            assert metadata is base
            continue
        before, after = by_id(base), by_id(metadata)
        added = after.keys() - before.keys()
        # kept items are unchanged and in their order, and new ones follow with higher ids
        assert [version_id for version_id in before if version_id in after] == list(after)[: len(after) - len(added)]
        assert all(after[version_id] == before[version_id] for version_id in after.keys() & before.keys())
        assert all(version_id > max(before) for version_id in added)
        size = max(history_size(metadata["properties"]), len(added | {metadata["current-version-id"]}))
        assert len(after) <= size
        assert len(after) == size or not before.keys() - after.keys()
        if metadata["current-version-id"] == base["current-version-id"]:
            assert metadata["version-log"] == base["version-log"][-len(metadata["version-log"]) :]
        else:
            current = after[metadata["current-version-id"]]
            since_ms = current["timestamp-ms"] if current["version-id"] in added else commit.now_ms
            assert metadata["version-log"][-1]["timestamp-ms"] == since_ms


@bounded
@given(st.data())
def test_a_commit_never_touches_its_base(data: st.DataObject) -> None:
    base = data.draw(given_a.view_metadata())
    before = copy.deepcopy(base)
    commit = data.draw(given_a.view_commits(base))
    sent = copy.deepcopy(commit.updates)
    again = apply_view_updates(base, commit.updates, now_ms=commit.now_ms)
    assert base == before
    assert commit.updates == sent
    assert again == commit.change


@bounded
@given(st.data())
def test_a_repeated_commit_creates_no_further_version(data: st.DataObject) -> None:
    """The second time it finds what it added the first time."""
    commit = data.draw(given_a.view_commits(data.draw(given_a.view_metadata())))
    additions = [update for update in commit.updates if update["action"] in {"add-schema", "add-view-version"}]
    stays = given_a.during(commit.base, additions)
    assert given_a.during(stays, additions) == stays


@bounded
@given(given_a.view_metadata(), st.integers(0, 2**41))
def test_updates_to_the_current_values_change_nothing(metadata: ViewMetadata, now_ms: int) -> None:
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": metadata["view-uuid"].upper()},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": metadata["location"] + "/"},
        {"action": "set-properties", "updates": metadata["properties"]},
        {"action": "remove-properties", "removals": ["never set"]},
        *({"action": "add-schema", "schema": schema} for schema in metadata["schemas"]),
        *({"action": "add-view-version", "view-version": version} for version in metadata["versions"]),
        {"action": "set-current-view-version", "view-version-id": metadata["current-version-id"]},
    ]
    change = apply_view_updates(metadata, updates, now_ms=now_ms)
    assert not change.changed
    assert change.metadata is metadata


@bounded
@given(st.data())
def test_unknown_fields_survive_wherever_they_stand(data: st.DataObject) -> None:
    metadata = data.draw(given_a.view_metadata())
    marked = with_marks(metadata)
    commit = data.draw(given_a.view_commits(metadata))
    ours = apply_view_updates(read_view_metadata(marked), commit.updates, now_ms=commit.now_ms).metadata
    assert without_marks(ours) == commit.change.metadata
    assert list(ours) == [*commit.change.metadata, "x-mark"]
    known = [*metadata["schemas"], *metadata["versions"]]
    assert all("x-mark" in found for found in [*ours["schemas"], *ours["versions"]] if without_marks(found) in known)


def with_marks(value: Any) -> Any:
    """Return the document with an unknown field in every object but maps of texts."""
    if isinstance(value, list):
        return [with_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    marked = {name: part if name in {"properties", "summary"} else with_marks(part) for name, part in value.items()}
    return {**marked, "x-mark": [None]}


def without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: without_marks(part) for name, part in value.items() if name != "x-mark"}


@bounded
@given(given_a.view_metadata(readers="java and pyiceberg"))
def test_pyiceberg_reads_the_same(metadata: ViewMetadata) -> None:
    view = PyIcebergView.model_validate(copy.deepcopy(metadata))
    assert view.view_uuid == metadata["view-uuid"]
    assert view.current_version_id == metadata["current-version-id"]
    assert view.properties == metadata["properties"]
    assert [
        (version.version_id, version.timestamp_ms, version.schema_id, version.default_catalog,
         list(version.default_namespace), version.summary)
        for version in view.versions
    ] == [
        (version["version-id"], version["timestamp-ms"], version["schema-id"], version.get("default-catalog"),
         version["default-namespace"], version["summary"])
        for version in metadata["versions"]
    ]  # fmt: skip
    assert [
        [(found.root.type, found.root.sql, found.root.dialect) for found in version.representations]
        for version in view.versions
    ] == [
        [(entry["type"], entry["sql"], entry["dialect"]) for entry in version["representations"]]
        for version in metadata["versions"]
    ]
    assert [(entry.version_id, entry.timestamp_ms) for entry in view.version_log] == [
        (entry["version-id"], entry["timestamp-ms"]) for entry in metadata["version-log"]
    ]
    assert [schema.schema_id for schema in view.schemas] == [schema["schema-id"] for schema in metadata["schemas"]]


def in_canonical_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Rewrite the only type that the strategies do not spell as Java does."""
    return dict(json.loads(json.dumps(schema).replace("decimal(38,10)", "decimal(38, 10)")))


@bounded
@given(given_a.view_requests())
def test_create_keeps_the_members_of_the_request(request: dict[str, Any]) -> None:
    sent = copy.deepcopy(request)
    metadata = create_view_metadata(**request)
    assert request == sent
    assert_sound(metadata)
    assert metadata["versions"] == [{**sent["view_version"], "version-id": 1, "schema-id": 0}]
    assert metadata["schemas"] == [{**in_canonical_types(sent["schema"]), "schema-id": 0}]
    assert metadata["version-log"] == [{"timestamp-ms": sent["view_version"]["timestamp-ms"], "version-id": 1}]
    assert metadata["properties"] == sent["properties"]


UPDATE_FIELDS = [
    "uuid", "format-version", "schema", "location", "updates", "removals", "view-version", "view-version-id",
]  # fmt: skip


@bounded
@given(
    given_a.view_metadata(),
    nonsense(VIEW_UPDATES, UPDATE_FIELDS),
)
def test_nonsense_is_refused_and_changes_nothing(base: ViewMetadata, updates: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(base)
    try:
        change = apply_view_updates(base, updates, now_ms=START_MS)
    except BadRequest:
        pass
    else:
        assert_sound(change.metadata)
    assert base == before


@bounded
@given(st.data())
def test_a_damaged_update_is_refused_or_leaves_a_sound_view(data: st.DataObject) -> None:
    base = data.draw(given_a.view_metadata())
    before = copy.deepcopy(base)
    commits = given_a.view_commits(base).filter(lambda commit: commit.updates)
    damage = data.draw(damaged(commits.map(lambda commit: {"updates": commit.updates})))
    try:
        change = apply_view_updates(base, damage[1].get("updates"), now_ms=START_MS)
    except BadRequest as error:
        if not error.message.startswith(("updates", "Cannot replace view due to loss of view dialects")):
            raise
    else:
        assert_sound(change.metadata)
        assert read_view_metadata(change.metadata) == change.metadata
    assert base == before


@bounded
@given(damaged(given_a.view_metadata()))
def test_a_damaged_document_is_refused_or_can_be_worked_with(damage: tuple[str, ViewMetadata]) -> None:
    document = damage[1]
    before = copy.deepcopy(document)
    try:
        metadata = read_view_metadata(document)
    except BadRequest:
        return
    finally:
        assert document == before
    assert read_view_metadata(metadata) == metadata
    updates: list[Any] = [
        {"action": "set-properties", "updates": {"touched": "yes"}},
        {"action": "add-schema", "schema": {"type": "struct", "fields": []}},
    ]
    assert apply_view_updates(metadata, updates, now_ms=START_MS).changed


@pytest.mark.parametrize("document", [None, True, 1, "x", [], [{}], {}, {"format-version": 1}])
def test_documents_that_are_no_metadata_are_rejected(document: Any) -> None:
    with pytest.raises(BadRequest):
        read_view_metadata(document)
