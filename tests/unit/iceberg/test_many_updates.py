"""Requests with thousands of updates, as Java's expiry sends them: time grows with the request, not with its square."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.iceberg.documents import DATA, ID, after, column, partition, schema, set_main, sorting, table

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


@pytest.mark.parametrize("action", ONE_OF_EACH)
def test_four_thousand_updates(action: str) -> None:
    base = table(3, snapshots=MANY + 1)
    updates = [{"action": action, **ONE_OF_EACH[action](number)} for number in range(MANY)]
    started = time.process_time()
    after(base, *updates)
    # processor time: about 0.5 s at worst, a quadratic way takes 10 s and more
    assert time.process_time() - started < 5


def test_expiry_leaves_one() -> None:
    base = table(snapshots=MANY)
    metadata = after(base, *({"action": "remove-snapshots", "snapshot-ids": [n]} for n in range(1, MANY)))
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == [MANY]
    assert metadata["snapshots"] == [base["snapshots"][-1]]


def test_an_append_does_not_copy_what_it_leaves_alone() -> None:
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
