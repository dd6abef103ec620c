"""Arbitrary commits of a client are applied, or fail with a 400 that names the member; the base never changes."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.updates import TABLE_UPDATES, apply_updates
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.unit.iceberg.damaged_document_fixtures import locations
from tests.unit.iceberg.document_fixtures import (
    NOW,
    UUID,
    column,
    nested_type,
    partition,
    schema,
    snapshot,
    sorting,
    table,
)

MIDNIGHT = "2020-01-01T00:00:00"
ROWS = {"first-row-id": 2, "added-rows": 1}
FILE = {"snapshot-id": 1, "statistics-path": "s3://p", "file-size-in-bytes": 9}
BLOB = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"n": "1"}}
NESTED = {
    "type": "list", "element-id": 5, "element-required": True,
    "element": {"type": "struct", "fields": [column(6, "x")]},
}  # fmt: skip
MAPPED = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": True, "value": "int"}
LEGAL: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 3},
    {
        "action": "add-schema",
        "schema": schema(
            column(1, "id", "long", required=True, doc="d"),
            column(4, "n", NESTED),
            column(7, "m", MAPPED),
            column(3, "ts", "timestamp", **{"initial-default": MIDNIGHT, "write-default": MIDNIGHT}),
            **{"schema-id": 1, "identifier-field-ids": [1]},
        ),
    },
    {"action": "set-current-schema", "schema-id": 0},
    {"action": "add-spec", "spec": {"spec-id": 1, "fields": [partition(1, "identity", "p", **{"field-id": 1000})]}},
    {"action": "set-default-spec", "spec-id": 0},
    {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [sorting(1)]}},
    {"action": "set-default-sort-order", "sort-order-id": 0},
    {"action": "add-snapshot", "snapshot": snapshot(3, parent=2, **ROWS, **{"key-id": "k"})},
    {
        "action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 1,
        "min-snapshots-to-keep": 1, "max-snapshot-age-ms": 1, "max-ref-age-ms": 1,
    },
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "set-location", "location": "s3://bucket/u"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["owner"]},
    {"action": "set-statistics", "statistics": {**FILE, "file-footer-size-in-bytes": 3, "blob-metadata": [BLOB]}},
    {"action": "remove-statistics", "snapshot-id": 1},
    {"action": "set-partition-statistics", "partition-statistics": FILE},
    {"action": "remove-partition-statistics", "snapshot-id": 1},
    {"action": "remove-partition-specs", "spec-ids": [7]},
    {"action": "remove-schemas", "schema-ids": [7]},
    {
        "action": "add-encryption-key",
        "encryption-key": {
            "key-id": "k", "encrypted-key-metadata": "YWJj", "encrypted-by-id": "m", "properties": {"a": "b"},
        },
    },
    {"action": "remove-encryption-key", "key-id": "k"},
]  # fmt: skip
# fields that may be null or absent somewhere; the required ones of add-schema and others have example tests
OPTIONAL = {
    "doc", "initial-default", "write-default", "schema-id", "spec-id", "order-id", "field-id", "identifier-field-ids",
    "parent-snapshot-id", "key-id", "min-snapshots-to-keep", "max-snapshot-age-ms",
    "max-ref-age-ms", "encrypted-by-id",
}  # fmt: skip
WRONG: list[Any] = [None, True, 1.5, 2**63, -(2**63) - 1, 7, "", "7", [], [None], {}, {"x": None}, [[]], float("inf")]


def apply(base: Any, updates: Any) -> Any:
    return apply_updates(base, updates, now_ms=NOW, base_metadata_location=None)


def error_of(base: Any, updates: Any) -> str | None:
    """Return the text of the 400, None when the updates were applied. Any other exception fails the test."""
    try:
        apply(base, updates)
    except BadRequest as error:
        return error.message
    return None


def test_every_update_is_covered() -> None:
    assert sorted(update["action"] for update in LEGAL) == sorted(TABLE_UPDATES)
    for update in LEGAL:
        apply(table(3, snapshots=2), [update])


@pytest.mark.parametrize("update", LEGAL, ids=lambda update: update["action"])
def test_every_field_refuses_every_wrong_type(update: dict[str, Any]) -> None:
    base = table(3, snapshots=2)
    before = copy.deepcopy(base)
    for location in locations(update):
        for wrong in WRONG:
            sent = copy.deepcopy(update)
            owner: Any = sent
            for key in location[:-1]:
                owner = owner[key]
            old = owner[location[-1]]
            owner[location[-1]] = wrong
            expected_to_pass = (
                type(wrong) is type(old)
                or (wrong is None and location[-1] in OPTIONAL)
                or location[-1] in {"initial-default", "write-default"}
                # a type or a transform is text or an object, and 7 or "7" may be a valid value of its kind
                or (location[-1] in {"type", "element", "key", "value"} and isinstance(wrong, dict | str))
            )
            try:
                message = error_of(base, [sent])
            except CommitFailed:  # the table may have had that schema
                assert (location[-1], wrong) == ("schema-id", 7)
                continue
            assert base == before
            if message is None:
                assert expected_to_pass, (location, wrong)
                continue
            assert message.startswith("updates[0]")
            if type(wrong) is not type(old) and location != ("action",):
                name = next(str(key) for key in reversed(location) if isinstance(key, str))
                assert name in message or "fields" in message, (location, message)


@pytest.mark.parametrize("update", LEGAL, ids=lambda update: update["action"])
def test_every_field_that_may_not_be_missing(update: dict[str, Any]) -> None:
    for location in locations(update):
        if (
            not isinstance(location[-1], str)
            or location[-1] in OPTIONAL
            or location[-2:-1] in {("updates",), ("properties",)}
        ):
            continue
        sent = copy.deepcopy(update)
        owner: Any = sent
        for key in location[:-1]:
            owner = owner[key]
        del owner[location[-1]]
        if location[-1] in {"properties", "added-records"}:
            continue
        with pytest.raises(BadRequest, match=r"updates\[0\]"):
            apply(table(3, snapshots=2), [sent])


@pytest.mark.parametrize("updates", [None, {}, "x", 1, [None], [1], ["add-schema"], [[]], [{}], [{"action": None}]])
def test_updates_that_are_none(updates: Any) -> None:
    for base in (None, table()):
        with pytest.raises(BadRequest, match="updates"):
            apply(base, updates)


def test_an_unknown_action_is_named() -> None:
    with pytest.raises(BadRequest, match=r"updates\[1\]: unknown update action: add-view-version"):
        apply(table(), [LEGAL[0], {"action": "add-view-version"}])
    with pytest.raises(BadRequest, match=r"updates\[0\].action: expected a string, got an array"):
        apply(table(), [{"action": ["add-schema"]}])


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
@pytest.mark.parametrize("depth", [61, 150, 900, 100_000])
def test_deep_types_are_refused(kind: str, depth: int) -> None:
    deep = schema(column(1, "c", nested_type(kind, depth)))
    with pytest.raises(BadRequest, match="levels deep"):
        apply(table(), [{"action": "add-schema", "schema": deep}])
    with pytest.raises(BadRequest, match="levels deep"):
        read_table_metadata({**table(), "schemas": [deep]})
    with pytest.raises(BadRequest, match="levels deep"):
        create_table_metadata(
            schema=deep, partition_spec=None, write_order=None, location="s3://b", properties=None, table_uuid=UUID,
            format_version=2, now_ms=NOW,
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_types_may_be_deep_and_can_still_be_written(kind: str) -> None:
    metadata = apply(
        table(), [{"action": "add-schema", "schema": schema(column(1, "c", nested_type(kind, 60)))}]
    ).metadata
    assert orjson.loads(orjson.dumps({"metadata": read_table_metadata(metadata)}))["metadata"] == metadata


def test_deep_unknown_fields_are_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadRequest, match=r"updates\[0\]: nested more than 200 levels deep"):
        apply(table(), [{**LEGAL[0], "x": deep}])
    with pytest.raises(BadRequest, match="document: nested more than 200 levels deep"):
        read_table_metadata({**table(), "x": deep})
    # hypothesis and pytest would traverse it: take it apart here
    while deep:
        deep = deep.pop()


def test_errors_never_echo_much() -> None:
    for update in (
        {"action": "x" * 10_000},
        {"action": "set-location", "location": "x" * 10_000, "x": 1},
        {"action": "assign-uuid", "uuid": "x" * 10_000},
        {"action": "set-properties", "updates": {"k" * 10_000: 1}},
        {"action": "add-schema", "schema": schema(column(1, "c", "t" * 10_000))},
        {"action": "set-current-schema", "schema-id": 10**10_000},
    ):
        assert len(error_of(table(), [update]) or "") < 500
