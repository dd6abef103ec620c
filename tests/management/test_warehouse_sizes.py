"""Totals that commits keep, and the sizes of warehouses that are recorded from them each hour."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from catalog.iceberg.totals import Totals, read_totals
from catalog.models import LargeTable, Snapshot, TableTotals, Tabular, TabularMetadata, WarehouseSize
from catalog.services import missing_totals
from catalog.services.missing_totals import fill_missing_totals
from catalog.services.warehouse_sizes import LARGEST, delete_old_warehouse_sizes, measure_sizes, record_sizes
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tests.catalog_fixtures import finishing_updates, snapshot
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HOUR = datetime(2026, 11, 27, 12, tzinfo=UTC)
MAX_LONG = 2**63 - 1


def append(catalog: ApiClient, name: str, number: int, at: int, **summary: str) -> None:
    """Commit a snapshot to `main` with these members of its summary."""
    added = snapshot(number, at=at) | {"summary": {"operation": "append", **summary}}
    updates = [
        {"action": "add-snapshot", "snapshot": added},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
    ]
    response = catalog.post(f"/namespaces/ns/tables/{name}", {"requirements": [], "updates": updates})
    assert response.status == 200, response.body


def totals(records: object, size: object, files: object) -> dict[str, str]:
    return {"total-records": str(records), "total-files-size": str(size), "total-data-files": str(files)}


def record(project_id: str, hour: datetime) -> None:
    record_sizes(measure_sizes(project_id), hour)


def test_a_commit_keeps_its_totals(catalog: ApiClient, create_table: Callable[..., dict[str, Any]]) -> None:
    at = create_table("t")["metadata"]["last-updated-ms"]
    row = TableTotals.objects.get()
    assert (row.records, row.files_size, row.snapshot_count, row.ref_count, row.target_file_size) == (0, 0, 0, 0, None)
    more = {"engine-name": "spark", "engine-version": "4.1", "manifests-created": "1", "manifests-kept": "2"}
    append(catalog, "t", 1, at, **totals(3, 900, 2), **more)
    row = TableTotals.objects.get()
    assert (row.records, row.files_size, row.data_files) == (3, 900, 2)
    assert (row.delete_files, row.manifests, row.snapshot_count, row.ref_count) == (None, 3, 1, 1)
    table = Tabular.objects.get()
    assert (table.engine, table.committed_by) == ("spark 4.1", "anonymous")
    assert table.committed_at is not None
    assert now() - table.committed_at < timedelta(minutes=5)
    stored = Snapshot.objects.get()
    assert (stored.engine, stored.committed_by) == ("spark 4.1", "anonymous")


def test_the_first_snapshot_of_create_table_as_select_has_its_committer(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]]
) -> None:
    staged = create_table("ctas", **{"stage-create": True})["metadata"]
    updates = [
        *finishing_updates(staged),
        {"action": "add-snapshot", "snapshot": snapshot(1, at=staged["last-updated-ms"])},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    ]
    created = catalog.post(
        "/namespaces/ns/tables/ctas", {"requirements": [{"type": "assert-create"}], "updates": updates}
    )
    assert created.status == 200, created.body
    assert Snapshot.objects.get().committed_by == "anonymous"


def test_totals_are_written_only_when_they_change(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]]
) -> None:
    at = create_table("t")["metadata"]["last-updated-ms"]
    append(catalog, "t", 1, at, **totals(3, 900, 2))

    def commit(**update: object) -> None:
        change = {"requirements": [], "updates": [update]}
        assert catalog.post("/namespaces/ns/tables/t", change, **{"user-agent": "pyiceberg/0.12 x"}).status == 200

    TableTotals.objects.update(records=77)
    commit(action="set-properties", updates={"a": "b"})
    table = Tabular.objects.select_related("totals").get()
    assert (table.totals.records, table.engine) == (77, "pyiceberg/0.12")
    commit(action="set-properties", updates={"write.target-file-size-bytes": "1000"})
    row = TableTotals.objects.get()
    assert (row.records, row.files_size, row.ref_count, row.target_file_size) == (3, 900, 1, 1000)
    commit(**{"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1})
    assert TableTotals.objects.get().ref_count == 2
    commit(action="remove-snapshots", **{"snapshot-ids": [1]})
    row = TableTotals.objects.get()
    assert (row.records, row.snapshot_count, row.ref_count) == (0, 0, 0)
    TableTotals.objects.all().delete()  # as after an upgrade
    commit(action="set-properties", updates={"a": "c"})
    assert not TableTotals.objects.exists()
    append(catalog, "t", 2, at, **totals(2**40, 2**62, 5))
    row = TableTotals.objects.get()
    assert (row.records, row.files_size, row.data_files) == (2**40, 2**62, 5)


def test_missing_totals_are_read_from_stored_metadata(
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after an upgrade from a version without totals, in batches, and no more than a limit at once."""
    for number, name in enumerate("abcd", start=1):
        at = create_table(name)["metadata"]["last-updated-ms"]
        append(catalog, name, number, at, **totals(number, 100 * number, 1))
    kept = list(TableTotals.objects.order_by("pk").values_list())
    TableTotals.objects.exclude(tabular__name="a").delete()
    TableTotals.objects.update(records=77)
    large, broken = Tabular.objects.get(name="c").pk, Tabular.objects.get(name="d").pk
    TabularMetadata.objects.filter(pk=large).update(document=None)
    document = TabularMetadata.objects.get(pk=broken).document
    TabularMetadata.objects.filter(pk=broken).update(document=b"[")
    checks: list[int] = []
    monkeypatch.setattr(missing_totals, "BATCH_TABLES", 1)
    assert fill_missing_totals(warehouse.project_id, lambda: checks.append(1)) == 2
    assert checks == [1, 1]
    assert fill_missing_totals(warehouse.project_id, lambda: None) == 0
    assert TableTotals.objects.get(tabular__name="a").records == 77, "what a commit wrote is kept"
    row = TableTotals.objects.get(pk=broken)
    assert (row.records, row.snapshot_count) == (None, None)
    assert not TableTotals.objects.filter(pk=large).exists()
    TabularMetadata.objects.filter(pk=broken).update(document=document)
    TabularMetadata.objects.filter(pk=large).update(document=b"{}")
    TableTotals.objects.all().delete()
    monkeypatch.setattr(missing_totals, "MAX_BYTES", 1)
    assert fill_missing_totals(warehouse.project_id, lambda: None) == 1
    monkeypatch.undo()
    assert fill_missing_totals(warehouse.project_id, lambda: None) == 3
    assert [each for each in TableTotals.objects.order_by("pk").values_list() if each[0] != large] == [
        each for each in kept if each[0] != large
    ]


def test_a_commit_wins_over_totals_that_were_read_before_it(
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = create_table("t")["metadata"]["last-updated-ms"]
    TableTotals.objects.all().delete()

    def read_late(metadata: dict[str, Any]) -> Totals:
        append(catalog, "t", 1, at, **totals(3, 900, 2))
        return read_totals(metadata)

    monkeypatch.setattr(missing_totals, "read_totals", read_late)
    fill_missing_totals(warehouse.project_id, lambda: None)
    assert TableTotals.objects.get().records == 3


@pytest.mark.parametrize("text", ["", "-1", "1.5", "NaN", "9" * 30, "\u0663", " 1"])
def test_numbers_that_are_none_are_unknown(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]], text: str
) -> None:
    at = create_table("t")["metadata"]["last-updated-ms"]
    append(catalog, "t", 1, at, **totals(text, text, text))
    row = TableTotals.objects.get()
    assert (row.records, row.files_size, row.data_files) == (None, None, None)


def test_sizes_are_recorded_where_they_changed(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]], warehouse: Warehouse
) -> None:
    for number, name in enumerate(("a", "b", "c"), start=1):
        at = create_table(name)["metadata"]["last-updated-ms"]
        append(catalog, name, number, at, **totals(number, 100 * number, 1))
    project = warehouse.project_id
    record(project, HOUR)
    record(project, HOUR + timedelta(hours=1))
    columns = ("hour", "records", "files_size", "data_files", "snapshots")
    assert list(WarehouseSize.objects.values_list(*columns)) == [(HOUR, 6, 600, 3, 3)]
    largest = LargeTable.objects.order_by("rank").values_list("rank", "tabular__name", "files_size", "records")
    assert list(largest) == [(1, "c", 300, 3), (2, "b", 200, 2), (3, "a", 100, 1)]
    unchanged = measure_sizes(project)
    assert (unchanged.sizes, unchanged.largest) == ([], {})
    assert catalog.delete("/namespaces/ns/tables/c").status == 204
    record(project, HOUR + timedelta(hours=2))
    assert WarehouseSize.objects.order_by("hour").last().files_size == 300  # type: ignore[union-attr]
    assert [row.tabular.name for row in LargeTable.objects.order_by("rank")] == ["b", "a"]


def test_claims_of_writers_do_not_break_the_sums(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]], warehouse: Warehouse
) -> None:
    for number, name in enumerate(("a", "b"), start=1):
        at = create_table(name)["metadata"]["last-updated-ms"]
        append(catalog, name, number, at, **totals(MAX_LONG, MAX_LONG, MAX_LONG))
    record(warehouse.project_id, HOUR)
    row = WarehouseSize.objects.get()
    assert (row.records, row.files_size) == (4 * 10**18, 4 * 10**18)


def test_old_sizes_are_deleted(warehouse: Warehouse) -> None:
    """The newest of the old rows stays: it is the size of the hours after it."""
    for days in (500, 450, 400, 0):
        hour = now() - timedelta(days=days)
        WarehouseSize.objects.create(warehouse=warehouse, hour=hour, records=days, files_size=1, data_files=1)
    assert delete_old_warehouse_sizes(actor=INTERNAL, batch=1) == 2
    assert list(WarehouseSize.objects.order_by("hour").values_list("records", flat=True)) == [400, 0]
    assert delete_old_warehouse_sizes(actor=INTERNAL) == 0
    assert LARGEST == 50


def test_the_only_size_of_a_warehouse_is_never_deleted(warehouse: Warehouse) -> None:
    hour = now() - timedelta(days=500)
    WarehouseSize.objects.create(warehouse=warehouse, hour=hour, records=7, files_size=1, data_files=1)
    assert delete_old_warehouse_sizes(actor=INTERNAL) == 0
    record(warehouse.project_id, HOUR)
    assert WarehouseSize.objects.count() == 2


def test_tables_that_are_among_the_largest_can_be_deleted(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]], warehouse: Warehouse
) -> None:
    for number, name in enumerate(("a", "b"), start=1):
        at = create_table(name)["metadata"]["last-updated-ms"]
        append(catalog, name, number, at, **totals(1, 100, 1))
    record(warehouse.project_id, HOUR)
    assert LargeTable.objects.count() == 2
    delete_rows(Tabular, [Tabular.objects.get(name="a").pk])
    connection.check_constraints()
    record(warehouse.project_id, HOUR)
    assert [each.tabular.name for each in LargeTable.objects.all()] == ["b"]
