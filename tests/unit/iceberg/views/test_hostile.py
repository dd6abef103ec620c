"""Arbitrary commits of a client are applied, or fail with a 400 that names the member; the base never changes."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from catalog.iceberg.validation import read_view_metadata
from catalog.iceberg.views import VIEW_UPDATES, apply_view_updates
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.damaged_document_fixtures import locations
from tests.unit.iceberg.document_fixtures import NOW, UUID, column, nested_type, one_long_name, schema
from tests.unit.iceberg.views.document_fixtures import add_schema, add_version, after, created, sql, version, view

LEGAL: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 1},
    {
        "action": "add-schema",
        "schema": schema(
            column(1, "id", "long", required=True, doc="d"), **{"schema-id": 1, "identifier-field-ids": [1]}
        ),
    },
    {"action": "set-location", "location": "s3://bucket/u"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["owner"]},
    add_version(version(3, sql(), sql("b", "trino"), **{"default-catalog": "c", "default-namespace": ["a", "b"]})),
    {"action": "set-current-view-version", "view-version-id": 1},
]
OPTIONAL = {"doc", "schema-id", "identifier-field-ids", "default-catalog"}
WRONG: list[Any] = [None, True, 1.5, 2**63, -(2**63) - 1, 7, "", "7", [], [None], {}, {"x": None}, [[]], float("inf")]


def error_of(base: Any, updates: Any) -> str | None:
    """Return the text of the 400, None when the updates were applied. Any other exception fails the test."""
    try:
        apply_view_updates(base, updates, now_ms=NOW)
    except BadRequest as error:
        return error.message
    return None


def owner_of(document: Any, location: tuple[str | int, ...]) -> Any:
    for key in location[:-1]:
        document = document[key]
    return document


def test_every_update_is_covered() -> None:
    assert sorted(update["action"] for update in LEGAL) == sorted(VIEW_UPDATES)
    for update in LEGAL:
        assert error_of(view(2), [update]) is None


@pytest.mark.parametrize("update", LEGAL, ids=lambda update: update["action"])
def test_every_field_refuses_every_wrong_type(update: dict[str, Any]) -> None:
    base = view(2)
    for location in locations(update):
        for wrong in WRONG:
            sent = copy.deepcopy(update)
            owner = owner_of(sent, location)
            old = owner[location[-1]]
            owner[location[-1]] = wrong
            message = error_of(base, [sent])
            assert base == view(2)
            if message is None:
                is_legal_null = wrong is None and location[-1] in OPTIONAL and location[-2:-1] != ("view-version",)
                is_legal_null = is_legal_null or (wrong is None and location[-1] == "default-catalog")
                assert is_legal_null or type(wrong) is type(old), (location, wrong)
                continue
            assert message.startswith("updates[0]")
            if type(wrong) is not type(old) and location != ("action",):
                name = next(str(key) for key in reversed(location) if isinstance(key, str))
                assert name in message, (location, message)


@pytest.mark.parametrize("update", LEGAL, ids=lambda update: update["action"])
def test_every_field_that_may_not_be_missing(update: dict[str, Any]) -> None:
    for location in locations(update):
        is_optional = location[-1] in OPTIONAL and location[-2:] != ("view-version", "schema-id")
        if not isinstance(location[-1], str) or is_optional or location[-2:-1] in {("updates",), ("summary",)}:
            continue
        sent = copy.deepcopy(update)
        del owner_of(sent, location)[location[-1]]
        message = error_of(view(2), [sent])
        assert message is not None, location
        assert f"{location[-1]}: required field is missing" in message, location


@pytest.mark.parametrize("updates", [None, {}, "x", 1, [None], [1], ["add-schema"], [[]], [{}], [{"action": None}]])
def test_updates_that_are_none(updates: Any) -> None:
    message = error_of(view(), updates)
    assert message is not None
    assert message.startswith("updates")


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
@pytest.mark.parametrize("depth", [61, 900, 100_000])
def test_deep_types_are_refused(kind: str, depth: int) -> None:
    deep = schema(column(1, "c", nested_type(kind, depth)))
    with pytest.raises(BadRequest, match="levels deep"):
        after(view(), add_schema(deep))
    with pytest.raises(BadRequest, match="levels deep"):
        read_view_metadata({**view(), "schemas": [deep]})
    with pytest.raises(BadRequest, match="levels deep"):
        created(schema=deep)


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_types_may_be_deep_and_can_still_be_written(kind: str) -> None:
    metadata = created(schema=schema(column(1, "c", nested_type(kind, 60))))
    assert orjson.loads(orjson.dumps({"metadata": read_view_metadata(metadata)}))["metadata"] == metadata


def test_deep_unknown_fields_are_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadRequest, match=r"updates\[0\]: nested more than 200 levels deep"):
        after(view(), add_version(version(2, x=deep)))
    with pytest.raises(BadRequest, match="document: nested more than 200 levels deep"):
        read_view_metadata({**view(), "x": deep})
    with pytest.raises(BadRequest, match="view-version: nested more than 200 levels deep"):
        created(view_version=version(1, sql(x=deep)))
    # hypothesis and pytest would traverse it: take it apart here
    while deep:
        deep = deep.pop()


def test_names_that_repeat_a_long_one_are_refused() -> None:
    long = one_long_name(100_000, 2_000)
    error = "full names of all fields are longer than 8000000 characters together"
    with pytest.raises(BadRequest, match=rf"updates\[0\] \(add-schema\): schema: {error}"):
        after(view(), add_schema(long))
    with pytest.raises(BadRequest, match=rf"schemas\[0\]: {error}"):
        read_view_metadata({**view(), "schemas": [long]})
    with pytest.raises(BadRequest, match=f"schema: {error}"):
        created(schema=long)


def test_errors_never_echo_much() -> None:
    long = "x" * 10_000
    many = [sql("select 1", f"{long}{number}") for number in range(100)]
    for updates in (
        [{"action": long}],
        [{"action": "assign-uuid", "uuid": long}],
        [{"action": "set-properties", "updates": {long: 1}}],
        [{"action": "set-properties", "updates": {"version.history.num-entries": long}}],
        [{"action": "set-current-view-version", "view-version-id": 10**10_000}],
        [add_version(version(2, sql("a", long), sql("b", long)))],
        [add_version(version(2, {"type": long}))],
        [add_version(version(2, *many)), {"action": "set-current-view-version", "view-version-id": -1}],
    ):
        message = error_of(view(), updates)
        assert message is not None
        assert len(message) < 500
