"""Thousands of updates, versions, representations: time is linear in their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.iceberg.types import ViewMetadata
from catalog.iceberg.validation import read_view_metadata
from tests.unit.iceberg.document_fixtures import ID, column, schema
from tests.unit.iceberg.views.document_fixtures import (
    add_schema,
    add_version,
    after,
    created,
    log_entry,
    set_current,
    set_properties,
    sql,
    version,
    version_ids,
    view,
)
from tests.unit.step_fixtures import count_steps

MANY = 4_000
ONE_OF_EACH: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "add-schema": lambda n: [add_schema(schema(ID, column(2, "c", doc=str(n))))],
    "add-view-version": lambda n: [add_version(version(n + 2))],
    "replace": lambda n: [
        add_schema(schema(ID, column(2, "c", doc=str(n)))),
        add_version(version(n + 2, **{"schema-id": -1})),
        set_current(),
    ],
    "choose": lambda n: [add_version(version(n + 1)), set_current(1 + n // 2)],
    "set-properties": lambda n: [set_properties(**{f"k{n}": "1"})],
    "remove-properties": lambda n: [{"action": "remove-properties", "removals": [f"k{n}"]}],
}


def one_of_each(subject: str, many: int) -> list[dict[str, Any]]:
    return [update for number in range(many) for update in ONE_OF_EACH[subject](number)]


def base_of(many: int) -> ViewMetadata:
    schemas = [schema(ID, column(3, "d", doc=str(n)), **{"schema-id": n}) for n in range(many)]
    return view(many, schemas=schemas, properties={f"k{n}": "" for n in range(many)})


@pytest.mark.parametrize("base", [lambda many: view(), base_of], ids=["small", "full"])
@pytest.mark.parametrize("subject", ONE_OF_EACH)
def test_steps_grow_with_the_request(subject: str, base: Callable[[int], ViewMetadata]) -> None:
    def steps_of(many: int) -> int:
        metadata = base(many)
        return count_steps(lambda: after(metadata, *one_of_each(subject, many)))

    steps_of(1)  # computed once per process
    assert steps_of(200) < 2.4 * steps_of(100)


# a second at most; code that copies a list per update (which takes no steps of the interpreter) takes minutes
@pytest.mark.timeout(60)
@pytest.mark.parametrize("subject", ONE_OF_EACH)
def test_four_thousand_updates(subject: str) -> None:
    base = base_of(MANY)
    assert after(base, *one_of_each(subject, MANY)) != base


@pytest.mark.timeout(60)
def test_ten_thousand_versions() -> None:
    base = read_view_metadata(view(10_000))
    assert version_ids(after(base, set_current(1))) == [1, *range(9_992, 10_001)]
    again = after(base, add_version(version(10_001)), set_current())
    assert version_ids(again) == list(range(9_992, 10_002))
    assert again["version-log"] == [log_entry(number) for number in range(9_992, 10_002)]


@pytest.mark.timeout(60)
def test_ten_thousand_representations() -> None:
    many = [sql("select 1", f"d{number}") for number in range(10_000)]
    base = created(view_version=version(1, *many))
    assert base["versions"][0]["representations"] == many
    metadata = after(base, add_version(version(2, *reversed(many))), set_current())
    assert metadata["current-version-id"] == 2


def test_a_request_can_be_given_up_between_two_updates() -> None:
    asked = 0

    def give_up_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise TimeoutError

    base = view()
    with pytest.raises(TimeoutError):
        after(base, *one_of_each("replace", 5), between_updates=give_up_at_the_third)
    assert base == view()
    assert asked == 3
    asked = 10
    after(base, *one_of_each("set-properties", 7), between_updates=give_up_at_the_third)
    assert asked == 17
