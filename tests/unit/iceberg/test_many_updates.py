"""Requests with thousands of updates, as Java's expiry sends them: time is linear in the size of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.iceberg.types import TableMetadata
from tests.unit.iceberg.document_fixtures import DATA, ID, after, column, partition, schema, set_main, sorting, table
from tests.unit.step_fixtures import count_steps

MANY = 4_000
ONE_OF_EACH: dict[str, Any] = {
    "remove-snapshots": lambda n: {"snapshot-ids": [n + 1]},
    "set-snapshot-ref": lambda n: {"ref-name": f"t{n}", "type": "tag", "snapshot-id": n + 1},
    "add-schema": lambda n: {"schema": schema(ID, column(2, "c", doc=str(n)))},
    "add-spec": lambda n: {"spec": {"fields": [partition(1, f"bucket[{n + 1}]", f"b{n}")]}},
    "add-sort-order": lambda n: {"sort-order": {"fields": [sorting(1, f"bucket[{n + 1}]")]}},
    "set-properties": lambda n: {"updates": {f"k{n}": ""}},
    "add-encryption-key": lambda n: {"encryption-key": {"key-id": f"k{n}", "encrypted-key-metadata": "YWJj"}},
    "set-partition-statistics": lambda n: {
        "partition-statistics": {"snapshot-id": n, "statistics-path": "s3://p", "file-size-in-bytes": 1}
    },
}


def one_of_each(action: str, many: int) -> list[dict[str, Any]]:
    return [{"action": action, **ONE_OF_EACH[action](number)} for number in range(many)]


def base_of(many: int) -> TableMetadata:
    """A table with this number of snapshots (plus one), tags on each, schemas, specs, properties, keys and
    statistics.
    """
    return after(table(3, snapshots=many + 1), *(update for name in FILLING for update in one_of_each(name, many)))


FILLING = [name for name in ONE_OF_EACH if name != "remove-snapshots"]
ON_WHAT_IS_THERE: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "specs": lambda n: [
        {"action": "remove-partition-specs", "spec-ids": [n + 1]},
        {"action": "add-spec", "spec": {"fields": [partition(1, f"truncate[{n + 1}]", f"t{n}")]}},
        {"action": "set-default-spec", "spec-id": -1},
    ],
    "schemas": lambda n: [
        {"action": "remove-schemas", "schema-ids": [n + 1]},
        {"action": "add-schema", "schema": schema(ID, column(3, "d", doc=str(n)))},
        {"action": "set-current-schema", "schema-id": -1},
    ],
    "orders": lambda n: [
        {"action": "add-sort-order", "sort-order": {"fields": [sorting(1, f"truncate[{n + 1}]")]}},
        {"action": "set-default-sort-order", "sort-order-id": n + 1},
    ],
    "snapshots": lambda n: [{"action": "remove-snapshots", "snapshot-ids": [n + 1]}],
    "tags": lambda n: [{"action": "remove-snapshot-ref", "ref-name": f"t{n}"}],
    "properties": lambda n: [{"action": "remove-properties", "removals": [f"k{n}"]}],
    "keys": lambda n: [
        {"action": "remove-encryption-key", "key-id": f"k{n}"},
        {"action": "add-encryption-key", "encryption-key": {"key-id": f"x{n}", "encrypted-key-metadata": "YWJj"}},
    ],
    "statistics": lambda n: [
        {"action": "remove-partition-statistics", "snapshot-id": n},
        {"action": "remove-statistics", "snapshot-id": n},
    ],
}


def assert_linear(steps_of: Callable[[int], int]) -> None:
    """Check that twice the updates on a table of twice the size take twice the steps; quadratic code takes four times
    as many.
    """
    steps_of(1)  # computed once per process
    assert steps_of(200) < 2.4 * steps_of(100)


@pytest.mark.parametrize("action", ONE_OF_EACH)
def test_steps_grow_with_the_request(action: str) -> None:
    def steps_of(many: int) -> int:
        base = table(3, snapshots=many + 1)
        return count_steps(lambda: after(base, *one_of_each(action, many)))

    assert_linear(steps_of)


@pytest.mark.parametrize("subject", ON_WHAT_IS_THERE)
def test_steps_grow_with_the_request_on_a_full_table(subject: str) -> None:
    def steps_of(many: int) -> int:
        base = base_of(many)
        updates = [update for number in range(many) for update in ON_WHAT_IS_THERE[subject](number)]
        return count_steps(lambda: after(base, *updates))

    assert_linear(steps_of)


# half a second; code that copies a list per update (which takes no steps of the interpreter) takes minutes
@pytest.mark.timeout(60)
@pytest.mark.parametrize("action", ONE_OF_EACH)
def test_four_thousand_updates(action: str) -> None:
    base = table(3, snapshots=MANY + 1)
    assert after(base, *one_of_each(action, MANY)) != base


@pytest.mark.timeout(60)
def test_adding_and_removing_specs_is_linear() -> None:
    """This once was quadratic: 14 seconds."""
    base = after(table(), *one_of_each("add-spec", 1_500))
    updates = [update for number in range(1_500) for update in ON_WHAT_IS_THERE["specs"](number)]
    specs = after(base, *updates)["partition-specs"]
    assert [spec["spec-id"] for spec in specs] == [0, *range(1_501, 3_001)]
    assert specs[1]["fields"][0]["transform"] == "truncate[1]"


def test_a_removed_item_is_added_again_under_the_highest_id_plus_one() -> None:
    spec = {"fields": [partition(1, "bucket[8]", "b")]}
    base = after(table(), {"action": "add-spec", "spec": spec}, *one_of_each("add-schema", 2))
    again = after(
        base,
        {"action": "add-spec", "spec": spec},
        {"action": "remove-partition-specs", "spec-ids": [1]},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "remove-schemas", "schema-ids": [1, 2]},
        {"action": "add-schema", "schema": schema(ID, column(2, "c", doc="1"))},
    )
    assert again["partition-specs"] == base["partition-specs"]
    assert again["default-spec-id"] == 1
    assert again["schemas"] == [base["schemas"][0], {**base["schemas"][2], "schema-id": 1}]


def test_an_id_that_is_assigned_again_means_the_new_schema() -> None:
    base = after(table(), {"action": "add-schema", "schema": schema(ID, column(4, "old", "string"))})
    metadata = after(
        base,
        {"action": "set-current-schema", "schema-id": 1},
        {"action": "add-spec", "spec": {"fields": [partition(4, "identity", "old")]}},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "remove-schemas", "schema-ids": [1]},
        {"action": "add-schema", "schema": schema(ID, column(5, "new", "string"))},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [partition(5, "identity", "new")]}},
    )
    assert metadata["current-schema-id"] == 1
    assert [spec["fields"][0]["source-id"] for spec in metadata["partition-specs"][1:]] == [4, 5]


def test_a_moved_tag_stays_when_its_old_snapshot_goes() -> None:
    base = after(table(snapshots=3), *one_of_each("set-snapshot-ref", 3))
    metadata = after(
        base,
        {"action": "remove-snapshots", "snapshot-ids": [2]},
        {"action": "set-snapshot-ref", "ref-name": "t0", "type": "tag", "snapshot-id": 3},
        {"action": "remove-snapshots", "snapshot-ids": [1]},
    )
    assert {name: ref["snapshot-id"] for name, ref in metadata["refs"].items()} == {"main": 3, "t0": 3, "t2": 3}


def test_a_request_can_be_given_up_between_two_updates() -> None:
    asked = 0

    def give_up_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise TimeoutError

    base = table()
    untouched = table()
    with pytest.raises(TimeoutError):
        after(base, *one_of_each("set-properties", MANY), between_updates=give_up_at_the_third)
    assert base == untouched
    assert asked == 3
    asked = 10
    after(base, *one_of_each("set-properties", 7), between_updates=give_up_at_the_third)
    assert asked == 17


def test_expiry_leaves_one() -> None:
    base = table(snapshots=MANY)
    metadata = after(base, *({"action": "remove-snapshots", "snapshot-ids": [n]} for n in range(1, MANY)))
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == [MANY]
    assert metadata["snapshots"] == [base["snapshots"][-1]]


def test_an_append_does_not_copy_unchanged_parts() -> None:
    base = table(3, snapshots=MANY)
    metadata = after(base, set_main(1), {"action": "set-properties", "updates": {"a": "b"}})
    for name in ("schemas", "partition-specs", "sort-orders", "snapshots", "statistics"):
        assert metadata.get(name) is base.get(name)
    assert metadata["snapshot-log"][0] is base["snapshot-log"][0]


def test_a_reused_schema_is_found_among_many() -> None:
    base = after(
        table(), *({"action": "add-schema", "schema": schema(ID, column(2, "c", doc=str(n)))} for n in range(99))
    )
    again = after(
        base,
        {"action": "add-schema", "schema": schema(ID, column(2, "c", doc="41"))},
        {"action": "remove-schemas", "schema-ids": [99]},
        {"action": "add-schema", "schema": schema(ID, DATA)},
        {"action": "set-current-schema", "schema-id": -1},
    )
    assert [document["schema-id"] for document in again["schemas"]] == list(range(100))
    assert again["current-schema-id"] == 99
