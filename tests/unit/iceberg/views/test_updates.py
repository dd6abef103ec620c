"""Each update of a view: its effect, its errors, and the effect of every commit on versions and log."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.validation import read_view_metadata
from icekeeper.kernel.errors.types import BadRequest, EmptyView, IllegalArgument
from tests.unit.iceberg.document_fixtures import DATA, ID, NOW, UUID, schema
from tests.unit.iceberg.views.document_fixtures import (
    LATER,
    WIDER,
    add_schema,
    add_version,
    after,
    commit,
    created,
    log_entry,
    logged_ids,
    set_current,
    set_properties,
    sql,
    version,
    version_ids,
    view,
)

SAME_SCHEMA = schema(ID, DATA, **{"schema-id": 9})


def error(base: Any, *updates: Any) -> BadRequest:
    """Return the error of these updates, after a check that the base is unchanged."""
    before = copy.deepcopy(base)
    with pytest.raises(BadRequest) as raised:
        after(base, *updates)
    assert base == before
    return raised.value


def replace(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [add_version(document), set_current()]


# --- the whole request -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "assign-uuid", "uuid": UUID.upper()}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "set-location", "location": "s3://bucket/v//"}],
        [set_properties(owner="ann")],
        [set_properties()],
        [set_properties(x="1"), {"action": "remove-properties", "removals": ["x"]}],
        [{"action": "remove-properties", "removals": ["absent"]}],
        [add_schema(SAME_SCHEMA)],
        [add_version(version(7, sql("select 1"), **{"timestamp-ms": 5}))],
        [set_current(2)],
        [set_current(1), set_current(2)],
        # a repeated replace
        [add_schema(SAME_SCHEMA), add_version(version(2, **{"schema-id": -1})), set_current()],
    ],
)
def test_no_net_change(updates: list[Any]) -> None:
    base = view(2)
    change = commit(base, *updates)
    assert not change.changed
    assert change.metadata is base
    assert base == view(2)


def test_nothing_expires_where_nothing_changes() -> None:
    base = view(12)
    assert not commit(base, set_properties(owner="ann")).changed
    assert len(after(base, set_properties(owner="bob"))["versions"]) == 10


def test_unknown_fields_survive_in_their_order() -> None:
    base = {"x-first": {"a": [None]}, **view(**{"x-log": 1}), "x-last": True}
    base["versions"] = [{**version(1), "x-version": [1]}]
    metadata = after(base, *replace(version(2, sql("select 2", **{"x-sql": {}}), **{"x-new": 0})))
    assert list(metadata) == list(base)
    assert metadata["x-first"] is base["x-first"]
    assert metadata["versions"][0] is base["versions"][0]
    assert metadata["versions"][1] == version(2, sql("select 2", **{"x-sql": {}}), **{"x-new": 0})


def test_unchanged_parts_are_shared_with_the_base() -> None:
    base = view(3)
    metadata = after(base, set_properties(a="b"))
    for name in ("schemas", "versions", "version-log"):
        assert metadata[name] is base[name]
    assert base["properties"] == {"owner": "ann"}


def test_unknown_actions_are_named() -> None:
    for action in ("set-current-schema", "set-statistics", "x"):
        refused = error(view(), set_properties(a="b"), {"action": action})
        assert refused.message == f"updates[1]: unknown update action: {action}"


# --- identity, version, location, properties ---------------------------------------------------------------------


def test_a_uuid_is_never_changed() -> None:
    other = "00000000-0000-4000-8000-000000000000"
    refused = error(view(), {"action": "assign-uuid", "uuid": other})
    assert refused.message == f"updates[0] (assign-uuid): uuid: Cannot reassign uuid of a view: {UUID} to {other}"


@pytest.mark.parametrize("number", [0, 2])
def test_the_only_format_version(number: int) -> None:
    refused = error(view(), {"action": "upgrade-format-version", "format-version": number})
    assert refused.message.endswith(f"format-version: Unsupported format version: v{number} (supported: v1)")


def test_location() -> None:
    base = view()
    assert after(base, {"action": "set-location", "location": "s3://other/v/"}) == {**base, "location": "s3://other/v"}
    refused = error(base, {"action": "set-location", "location": ""})
    assert refused.message == "updates[0] (set-location): location: location must not be empty"


def test_properties() -> None:
    base = view()
    metadata = after(
        base, set_properties(a="1", b="2"), {"action": "remove-properties", "removals": ["absent", "owner", "a"]}
    )
    assert metadata == {**base, "properties": {"b": "2"}}
    assert after(base, {"action": "set-properties", "updated": {"a": "1"}})["properties"]["a"] == "1"
    assert after(base, {"action": "remove-properties", "removed": ["owner"]})["properties"] == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("many", "updates.version.history.num-entries: expected an integer, got many"),
        ("", "updates.version.history.num-entries: expected an integer, got "),
        ("2147483648", "updates.version.history.num-entries: expected an integer, got 2147483648"),
        ("0", "updates: version.history.num-entries must be positive but was 0"),
        ("-1", "updates: version.history.num-entries must be positive but was -1"),
    ],
)
def test_a_history_size_that_is_none(text: str, problem: str) -> None:
    refused = error(view(), {"action": "set-properties", "updates": {"version.history.num-entries": text}})
    assert refused.message == f"updates[0] (set-properties): {problem}"


# --- schemas -----------------------------------------------------------------------------------------------------


def test_schemas_are_numbered_on_and_re_used() -> None:
    metadata = after(view(), add_schema({**WIDER, "schema-id": 0}), add_schema(SAME_SCHEMA), add_schema(WIDER))
    assert metadata["schemas"] == [schema(ID, DATA, **{"schema-id": 0}), {**WIDER, "schema-id": 1}]
    again = after(metadata, add_schema(schema(DATA, **{"schema-id": 77})))
    assert [document["schema-id"] for document in again["schemas"]] == [0, 1, 2]


def test_a_schema_of_a_view_may_use_every_type() -> None:
    metadata = after(view(), add_schema(schema({**ID, "type": "timestamp_ns", "initial-default": None})))
    assert metadata["schemas"][1] == schema({**ID, "type": "timestamp_ns"}, **{"schema-id": 1})


def test_minus_one_is_the_schema_that_was_added_last() -> None:
    base = view()
    updates = [add_schema(WIDER), *replace(version(2, **{"schema-id": -1}))]
    assert after(base, *updates)["versions"][1]["schema-id"] == 1
    # an existing schema: another client may have added the same one earlier
    both = after(base, add_schema(WIDER))
    assert after(both, *updates)["versions"][1] == version(2, **{"schema-id": 1})
    assert after(both, add_schema(schema(DATA)), *updates)["versions"][1] == version(2, **{"schema-id": 1})
    refused = error(base, *updates[1:])
    assert refused.message == (
        "updates[0] (add-view-version): view-version.schema-id: Cannot set last added schema: no schema has been added"
    )


def test_a_version_of_an_unknown_schema() -> None:
    refused = error(view(), add_version(version(2, **{"schema-id": 1})), add_schema(WIDER))
    assert refused.message == (
        "updates[0] (add-view-version): view-version.schema-id: Cannot add version with unknown schema: 1"
    )


def test_no_schema_id_is_left() -> None:
    highest = 2**31 - 1
    base = view(schemas=[schema(ID, DATA, **{"schema-id": number}) for number in (0, highest)])
    assert error(base, add_schema(WIDER)).message == f"updates[0] (add-schema): schema: no id is left above {highest}"


# --- versions ----------------------------------------------------------------------------------------------------


def test_a_replace() -> None:
    base = created()
    new = version(2, sql("select 2"), **{"schema-id": -1, "default-catalog": "c"})
    metadata = after(base, set_properties(b="2"), add_schema(WIDER), *replace(new))
    assert metadata == {
        **base,
        "properties": {"owner": "ann", "b": "2"},
        "schemas": [*base["schemas"], {**WIDER, "schema-id": 1}],
        "current-version-id": 2,
        "versions": [version(1), {**new, "schema-id": 1}],
        "version-log": [log_entry(1), log_entry(2)],
    }
    assert read_view_metadata(metadata) == metadata


def test_two_replaces_that_both_ask_for_version_2() -> None:
    first = after(view(), *replace(version(2, sql("a"))))
    second = after(first, *replace(version(2, sql("b"))))
    assert version_ids(second) == logged_ids(second) == [1, 2, 3]
    assert second["versions"][2] == version(2, sql("b"), **{"version-id": 3})
    assert second["current-version-id"] == 3


@pytest.mark.parametrize(("sent", "given"), [(-7, 4), (-1, 4), (0, 4), (3, 4), (4, 4), (5, 5), (2**31 - 1, 2**31 - 1)])
def test_a_version_keeps_its_id_where_it_is_the_highest(sent: int, given: int) -> None:
    metadata = after(view(3), *replace(version(sent, sql("new"), **{"timestamp-ms": NOW + 9_000})))
    assert version_ids(metadata) == [1, 2, 3, given]
    assert metadata["current-version-id"] == given


def test_no_version_id_is_left() -> None:
    full = after(view(), *replace(version(2**31 - 1, **{"timestamp-ms": NOW + 9_000})))
    refused = error(full, *replace(version(2)))
    assert refused.message == "updates[0] (add-view-version): view-version: no id is left above 2147483647"


@pytest.mark.parametrize(
    "other",
    [
        {"summary": {"engine-name": "trino"}},
        {"summary": {}},
        {"representations": [sql("select 2")]},
        {"representations": [sql("select 1", "SPARK")]},
        {"representations": [sql("select 1"), sql("select 1", "trino")]},
        {"default-catalog": "c"},
        {"default-namespace": []},
        {"default-namespace": ["d", "b"]},
        {"schema-id": 1},
    ],
)
def test_changes_that_create_another_version(other: dict[str, Any]) -> None:
    base = after(view(), add_schema(WIDER))
    assert version_ids(after(base, add_version(version(1, **other)))) == [1, 2]


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"version-id": 5, "timestamp-ms": 0},
        {"default-catalog": None},
        {"representations": [sql("select 1", type="SQL")]},
        {"x-unknown": 1},
    ],
)
def test_changes_that_create_no_version(other: dict[str, Any]) -> None:
    base = view(2)
    change = commit(base, add_version(version(1, **other)), set_current())
    assert change.metadata == {
        **base,
        "current-version-id": 1,
        "version-log": [*base["version-log"], log_entry(1, LATER)],
    }


def test_the_order_of_representations_is_kept_and_counts() -> None:
    one, two = sql("a", "spark"), sql("b", "trino")
    base = after(view(), *replace(version(2, one, two)))
    metadata = after(base, *replace(version(3, two, one)))
    assert [document["representations"] for document in metadata["versions"][1:]] == [[one, two], [two, one]]


def test_choosing_a_version() -> None:
    base = view(3)
    metadata = after(base, set_current(1))
    assert metadata == {**base, "current-version-id": 1, "version-log": [*base["version-log"], log_entry(1, LATER)]}
    refused = error(base, set_current(4))
    assert refused.message == (
        "updates[0] (set-current-view-version): view-version-id: Cannot set current version to unknown version: 4"
    )
    assert "Cannot set last added version: no version has been added" in error(base, set_current()).message


def test_a_version_may_be_added_and_not_chosen() -> None:
    metadata = after(view(), add_version(version(2)))
    assert (metadata["current-version-id"], version_ids(metadata), logged_ids(metadata)) == (1, [1, 2], [1])


def test_the_log_has_only_published_versions() -> None:
    metadata = after(view(), *replace(version(2)), *replace(version(3)), set_current(1), *replace(version(4)))
    assert version_ids(metadata) == [1, 2, 3, 4]
    assert metadata["version-log"] == [log_entry(1), log_entry(4)]


def test_the_log_has_the_time_of_a_new_version_and_now_for_an_old_one() -> None:
    base = view()
    added = after(base, *replace(version(2, **{"timestamp-ms": 17})), now_ms=NOW)
    assert added["version-log"] == [log_entry(1), log_entry(2, at_ms=17)]
    assert after(added, set_current(1), now_ms=4)["version-log"][-1] == log_entry(1, at_ms=4)


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        (
            {"representations": []},
            EmptyView,
            "view-version.representations: View must have at least one representation",
        ),
        (
            {"representations": [sql("a", "Spark"), sql("b", "sPark")]},
            IllegalArgument,
            "Invalid view version: Cannot add multiple queries for dialect spark",
        ),
        (
            {"representations": [sql(), {"type": "Plan"}]},
            BadRequest,
            "view-version.representations: Found unsupported view representations: [plan]",
        ),
    ],
)
def test_invalid_versions(more: dict[str, Any], kind: type[BadRequest], message: str) -> None:
    refused = error(view(), add_version(version(2, **more)))
    assert type(refused) is kind
    assert refused.message == f"updates[0] (add-view-version): {message}"


# --- dialects ----------------------------------------------------------------------------------------------------

ALLOWED = set_properties(**{"replace.drop-dialect.allowed": "True"})


def test_a_dialect_is_not_dropped() -> None:
    base = after(view(), *replace(version(2, sql("a", "Spark"), sql("b", "trino"))))
    refused = error(base, *replace(version(3, sql("c", "TRINO"), sql("d", "presto"))))
    assert refused.message == (
        "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
        "Previous dialects: [spark, trino]\nNew dialects: [presto, trino]"
    )
    assert version_ids(after(base, *replace(version(3, sql("c", "TRINO"), sql("d", "SPARK"))))) == [1, 2, 3]
    # the same for a return to an older version
    assert "loss of view dialects" in error(base, set_current(1)).message


def test_a_dialect_is_dropped_where_the_view_says_so() -> None:
    base = after(view(), *replace(version(2, sql("a"), sql("b", "trino"))))
    with_leave = after(base, *replace(version(3, sql("c", "trino"))), ALLOWED)
    assert with_leave["current-version-id"] == 3
    assert after(with_leave, *replace(version(4, sql("d", "presto"))))["current-version-id"] == 4
    withdrawn = {"action": "remove-properties", "removals": ["replace.drop-dialect.allowed"]}
    assert "loss of view dialects" in error(with_leave, withdrawn, *replace(version(4, sql("d", "presto")))).message
    no = set_properties(**{"replace.drop-dialect.allowed": "yes"})
    assert "loss of view dialects" in error(base, no, set_current(1)).message


def test_only_the_first_and_the_last_version_of_a_request_are_compared() -> None:
    metadata = after(view(), *replace(version(2, sql("a", "trino"))), *replace(version(3, sql("b"))))
    assert metadata["current-version-id"] == 3


def test_representations_of_other_writers_have_no_dialect() -> None:
    base = view(versions=[version(1, {"type": "plan", "dialect": 7}, sql())])
    assert version_ids(after(base, *replace(version(2)))) == [1, 2]


# --- history -----------------------------------------------------------------------------------------------------


def sized(number: int) -> dict[str, Any]:
    return set_properties(**{"version.history.num-entries": str(number)})


def test_ten_versions_are_kept() -> None:
    metadata = view(10)
    for number in (11, 12):
        metadata = after(metadata, *replace(version(number)))
    assert version_ids(metadata) == logged_ids(metadata) == list(range(3, 13))


@pytest.mark.parametrize(("number", "kept"), [(1, [5]), (2, [4, 5]), (4, [2, 3, 4, 5]), (5, [1, 2, 3, 4, 5])])
def test_the_new_properties_say_how_many(number: int, kept: list[int]) -> None:
    metadata = after(view(5), sized(number))
    assert version_ids(metadata) == logged_ids(metadata) == kept


def test_the_current_version_stays_however_old() -> None:
    base = after(view(5), set_current(1))
    metadata = after(base, sized(2))
    assert version_ids(metadata) == [1, 5]
    # entries before the last expired one are removed: the log has no gaps
    assert logged_ids(metadata) == [5, 1]
    assert version_ids(after(base, sized(1))) == [1]
    assert logged_ids(after(base, sized(1))) == [1]


def test_versions_added_now_stay() -> None:
    base = after(view(2), sized(1))
    updates = [add_version(version(number)) for number in (3, 4, 5)]
    metadata = after(base, *updates)
    assert version_ids(metadata) == [2, 3, 4, 5]
    assert version_ids(after(base, *updates, set_current())) == [3, 4, 5]
    assert version_ids(after(metadata, set_properties(a="b"))) == [2]


def test_a_cut_log_starts_after_the_last_expired_version() -> None:
    log = [log_entry(number) for number in (1, 4, 2, 4, 3)]
    base = view(4, **{"version-log": log, "current-version-id": 3})
    assert logged_ids(after(base, sized(3))) == [4, 2, 4, 3]
    assert logged_ids(after(base, sized(2))) == [4, 3]
    assert base["version-log"] == log


@pytest.mark.parametrize("nonsense", ["many", "0", "-5", ""])
def test_nonsense_of_other_writers_counts_as_unset(nonsense: str) -> None:
    base = view(11, properties={"version.history.num-entries": nonsense})
    assert len(after(base, set_properties(a="b"))["versions"]) == 10
