"""Metrics reports over HTTP: stored, summed up per table and day, rejected without a change, deleted with the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db.models import F

from catalog.iceberg.metrics_reports import FIGURES, MAX_FIGURE
from catalog.models import MetricsDay, MetricsReport, Tabular
from catalog.services import metrics_reports
from catalog.services.metrics_reports import delete_old_reports
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tests.catalog_fixtures import COMMIT_REPORT, SCAN_REPORT
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import refuse, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
TARGET = "/namespaces/ns/tables/t/metrics"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Set the clock of the reports, which starts at noon of 1 March 2026."""

    def stand(at: datetime) -> None:
        monkeypatch.setattr(metrics_reports, "now", lambda: at)

    stand(NOON)
    return stand


def own(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changes))


def with_value(metric: str, value: int) -> dict[str, Any]:
    created = deepcopy(SCAN_REPORT)
    created["metrics"][metric]["value"] = value
    return created


def figures(day: MetricsDay) -> dict[str, int]:
    return {name: getattr(day, name) for name in FIGURES if getattr(day, name)}


def nothing_is_stored() -> bool:
    return not MetricsReport.objects.exists() and not MetricsDay.objects.exists()


def test_the_figures_of_the_engine_are_the_columns_of_the_day() -> None:
    columns = {field.name for field in MetricsDay._meta.get_fields()}
    assert columns == {"id", "tabular", "day", *FIGURES}


def test_reports_are_kept_and_added_up_by_utc_day(
    catalog: ApiClient, create_table: CreateTable, clock: Callable[[datetime], None]
) -> None:
    create_table()
    for report in (SCAN_REPORT, COMMIT_REPORT, SCAN_REPORT):
        response = catalog.post(TARGET, report)
        assert (response.status, response.body) == (204, b"")
    clock(datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC))
    assert catalog.post(TARGET, with_value("result-data-files", 9)).status == 204

    table = Tabular.objects.get()
    kept = list(MetricsReport.objects.order_by("id").values_list("tabular", "kind", "snapshot_id", "document"))
    scan, commit = (table.pk, "scan-report", SCAN_REPORT["snapshot-id"], SCAN_REPORT), (
        table.pk, "commit-report", COMMIT_REPORT["snapshot-id"], COMMIT_REPORT,
    )  # fmt: skip
    assert kept == [scan, commit, scan, (*scan[:3], with_value("result-data-files", 9))]

    first, second = MetricsDay.objects.filter(tabular=table).order_by("day")
    assert (first.day, second.day) == (date(2026, 3, 1), date(2026, 3, 2))
    assert figures(first) == {
        "scans": 2, "planning_us": 2 * 26_442_351, "result_data_files": 8, "result_delete_files": 2,
        "scanned_data_manifests": 4, "skipped_data_manifests": 6, "result_data_bytes": 8192,
        "commits": 1, "commit_us": 12_000, "attempts": 2, "added_data_files": 5, "added_records": 500,
        "added_bytes": 5000,
    }  # fmt: skip
    assert (second.scans, second.commits, second.result_data_files) == (1, 0, 9)


def test_tables_do_not_share_a_day(catalog: ApiClient, create_table: CreateTable) -> None:
    for name in ("t", "u"):
        create_table(name)
        assert catalog.post(f"/namespaces/ns/tables/{name}/metrics", SCAN_REPORT).status == 204
    assert sorted(MetricsDay.objects.values_list("tabular__name", "scans")) == [("t", 1), ("u", 1)]


def test_a_wrong_report_leaves_nothing(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    without_metrics = {name: value for name, value in SCAN_REPORT.items() if name != "metrics"}
    assert catalog.post(TARGET, without_metrics).refused(400, "BadRequestException", "metrics: required field")
    assert catalog.post(TARGET, SCAN_REPORT | {"report-type": "gossip"}).refused(400, "BadRequestException")
    raw = json.dumps(SCAN_REPORT)
    for text in ("NaN", "1e999", "-Infinity", "18446744073709551616", '"\\ud800"'):
        wrong = raw.replace(str(SCAN_REPORT["snapshot-id"]), text)
        assert catalog.post(TARGET, raw=wrong.encode()).refused(400, "BadRequestException")
    too_large = SCAN_REPORT | {"more": "x" * 1_100_000}
    assert catalog.post(TARGET, too_large).refused(413, "PayloadTooLargeException", "1048576")
    assert nothing_is_stored()


@pytest.mark.parametrize("target", ["/namespaces/ns/tables/no/metrics", "/namespaces/no/tables/t/metrics"])
def test_an_unknown_table_is_a_404(catalog: ApiClient, create_table: CreateTable, target: str) -> None:
    """On CREATE TABLE AS SELECT engines report before the table is created."""
    create_table()
    assert catalog.post(target, COMMIT_REPORT).refused(404, "NoSuchTableException")
    assert nothing_is_stored()


def test_an_inactive_or_unknown_warehouse_accepts_no_report(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    create_table()
    assert catalog.get("/namespaces/ns/tables/t").status == 200  # so that the process has its id in the cache
    other = ApiClient("/catalog/v1/0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44")
    assert other.post(TARGET, SCAN_REPORT).refused(404, "NoSuchWarehouseException")
    Warehouse.objects.update(status=Warehouse.Status.INACTIVE)
    assert catalog.post(TARGET, SCAN_REPORT).refused(404, "NoSuchWarehouseException")
    assert nothing_is_stored()


def test_a_report_is_stored_for_the_current_table_of_the_name(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    source, destination = {"namespace": ["ns"], "name": "t"}, {"namespace": ["ns"], "name": "old"}
    assert catalog.post("/tables/rename", {"source": source, "destination": destination}).status == 204
    assert catalog.post(TARGET, SCAN_REPORT).refused(404, "NoSuchTableException")
    assert nothing_is_stored()
    create_table()
    assert catalog.post(TARGET, SCAN_REPORT).status == 204
    assert list(MetricsReport.objects.values_list("tabular__name", flat=True)) == ["t"]


def test_a_view_accepts_no_report(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    Tabular.objects.update(kind=Tabular.Kind.VIEW)
    assert catalog.post(TARGET, SCAN_REPORT).refused(404, "NoSuchTableException")
    assert nothing_is_stored()


@pytest.mark.parametrize("seen_before", [False, True])
def test_reports_need_permission_to_read_the_table(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch, seen_before: bool
) -> None:
    create_table()
    if seen_before:
        assert catalog.get("/namespaces/ns/tables/t").status == 200

    refuse(monkeypatch, *set(Can) - {Can.GET_METADATA})
    hidden, missing = (catalog.post(f"/namespaces/ns/tables/{name}/metrics", SCAN_REPORT) for name in ("t", "none"))
    assert hidden.refused(404, "NoSuchTableException")
    assert reported(hidden, "ns.t") == reported(missing, "ns.none")
    assert nothing_is_stored()


def test_nul_in_a_report_is_replaced(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    sent = SCAN_REPORT | {"table-name": "a\0b", "projected-field-names": ["\0", "\\u0000"], "x\0y": {"\0": ["\0"]}}
    assert catalog.post(TARGET, sent).status == 204
    document = MetricsReport.objects.get().document
    assert document["table-name"] == "a\ufffdb"
    assert document["projected-field-names"] == ["\ufffd", "\\u0000"]
    assert document["x\ufffdy"] == {"\ufffd": ["\ufffd"]}
    assert catalog.post("/namespaces/ns/tables/a%00b/metrics", SCAN_REPORT).refused(400, "BadRequestException")


def test_a_sum_stops_before_it_overflows(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    for _ in range(3):
        assert catalog.post(TARGET, with_value("result-data-files", 2**63 - 1)).status == 204
    day = MetricsDay.objects.get()
    assert (day.scans, day.result_data_files, day.result_delete_files) == (3, MAX_FIGURE, 3)


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (1, 1), (2, 2), (5, 3)])
def test_the_number_of_complete_reports_per_day_is_limited(
    catalog: ApiClient,
    create_table: CreateTable,
    clock: Callable[[datetime], None],
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    kept: int,
) -> None:
    own(monkeypatch, metrics_reports_per_day=limit)
    create_table()
    for report in (SCAN_REPORT, COMMIT_REPORT, SCAN_REPORT):
        assert catalog.post(TARGET, report).status == 204
    assert MetricsReport.objects.count() == kept
    assert MetricsDay.objects.values_list("scans", "commits").get() == (2, 1)


def test_reports_are_deleted_with_their_table(catalog: ApiClient, create_table: CreateTable) -> None:
    for name in ("t", "u"):
        create_table(name)
        assert catalog.post(f"/namespaces/ns/tables/{name}/metrics", SCAN_REPORT).status == 204
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert list(MetricsReport.objects.values_list("tabular__name", flat=True)) == ["u"]
    assert list(MetricsDay.objects.values_list("tabular__name", flat=True)) == ["u"]


def test_old_reports_and_days_are_deleted_in_batches(
    catalog: ApiClient,
    create_table: CreateTable,
    clock: Callable[[datetime], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own(monkeypatch, metrics_report_retention=86400.0, metrics_day_retention=3 * 86400.0)
    create_table()
    for days_ago in (5, 4, 3, 2, 1, 0):
        clock(NOON - timedelta(days=days_ago))
        assert catalog.post(TARGET, SCAN_REPORT).status == 204
    clock(NOON)
    assert delete_old_reports(actor=INTERNAL, batch=2) == (4, 2)
    assert list(MetricsReport.objects.order_by("received_at").values_list("received_at", flat=True)) == [
        NOON - timedelta(days=1), NOON,
    ]  # fmt: skip
    assert list(MetricsDay.objects.order_by("day").values_list("day", flat=True)) == [
        date(2026, 2, 26), date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1),
    ]  # fmt: skip
    assert delete_old_reports(actor=INTERNAL, batch=2) == (0, 0)


def test_the_command_reports_deleted_rows(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert catalog.post(TARGET, SCAN_REPORT).status == 204
    out = StringIO()
    call_command("prune_metrics", stdout=out)
    MetricsReport.objects.update(received_at=F("received_at") - timedelta(days=8))
    MetricsDay.objects.update(day=date(2020, 1, 1))
    call_command("prune_metrics", stdout=out)
    line = "Deleted {0} metrics reports and {0} daily sums, and 0 endpoint statistics.\n"
    assert out.getvalue() == line.format(0) + line.format(1)
    assert nothing_is_stored()
