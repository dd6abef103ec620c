"""Metrics reports: validation errors and their paths, accepted reports, and the counted figures."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from catalog.iceberg.metrics_reports import FIGURES, MAX_FIGURE, MAX_REPORT_BYTES, read_metrics_report
from icekeeper.kernel.errors.types import BadRequest, BodyTooLarge
from icekeeper.kernel.json.strict import read_json, write_json
from tests.catalog_fixtures import COMMIT_REPORT, SCAN_REPORT

ABSENT = object()


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy in which the field at the dotted path has another value, or is missing."""
    created = deepcopy(document)
    *folders, name = path.split("/")
    owner = created
    for folder in folders:
        owner = owner[folder]
    if value is ABSENT:
        del owner[name]
    else:
        owner[name] = value
    return created


def test_a_scan_counts_for_these_figures() -> None:
    report = read_metrics_report(SCAN_REPORT)
    assert (report.kind, report.snapshot_id) == ("scan-report", 7_123_456_789_012_345_678)
    assert report.figures == {
        "scans": 1,
        "planning_us": 26_442_351,
        "result_data_files": 4,
        "result_delete_files": 1,
        "scanned_data_manifests": 2,
        "skipped_data_manifests": 3,
        "result_data_bytes": 4096,
    }
    assert read_json(report.text) == SCAN_REPORT


def test_a_commit_counts_for_these_figures() -> None:
    report = read_metrics_report(COMMIT_REPORT)
    assert (report.kind, report.snapshot_id) == ("commit-report", 7_123_456_789_012_345_679)
    assert report.figures == {
        "commits": 1,
        "commit_us": 12_000,
        "attempts": 2,
        "added_data_files": 5,
        "added_records": 500,
        "added_bytes": 5000,
    }


@pytest.mark.parametrize(
    ("unit", "microseconds"),
    [
        ("nanoseconds", 7), ("microseconds", 7_999), ("MILLISECONDS", 7_999_000), ("seconds", 7_999_000_000),
        ("minutes", 479_940_000_000), ("hours", 28_796_400_000_000), ("days", 691_113_600_000_000),
    ],
)  # fmt: skip
def test_durations_are_counted_in_microseconds(unit: str, microseconds: int) -> None:
    timer = {"count": 1, "time-unit": unit, "total-duration": 7_999}
    report = read_metrics_report(changed(SCAN_REPORT, "metrics/total-planning-duration", timer))
    assert report.figures["planning_us"] == microseconds


@pytest.mark.parametrize(
    ("metric", "figure", "value", "counted"),
    [
        ("result-data-files", "result_data_files", -1, 0),
        ("result-data-files", "result_data_files", 2**63 - 1, MAX_FIGURE),
        ("total-file-size-bytes", "result_data_bytes", 10, 10),
        ("dvs", "result_deletion_vectors", 3, 3),
    ],
)
def test_figures_stay_in_range_for_any_report(metric: str, figure: str, value: int, counted: int) -> None:
    report = read_metrics_report(
        changed(SCAN_REPORT, "metrics", {metric: {"unit": "count", "value": value}})
    )  # fmt: skip
    assert report.figures == {"scans": 1, figure: counted}


def test_a_duration_beyond_64_bits_is_the_largest() -> None:
    timer = {"count": 1, "time-unit": "days", "total-duration": 2**63 - 1}
    report = read_metrics_report(changed(COMMIT_REPORT, "metrics/total-duration", timer))
    assert report.figures["commit_us"] == MAX_FIGURE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("filter", True),
        ("filter", False),
        ("filter", {"type": "something-of-tomorrow", "parts": [1]}),
        ("metadata", ABSENT),
        ("metadata", None),
        ("metrics", {}),
        ("metrics/attempts", None),
        ("metrics/my-own", {"unit": "furlongs", "value": 1, "more": [{}]}),
        ("metrics/my-own", {"count": 0, "time-unit": "hours", "total-duration": 0}),
        ("snapshot-id", -1),
        ("projected-field-ids", []),
        ("another-field", {"of": ["tomorrow"]}),
    ],
)
def test_an_accepted_report_is_kept_unchanged(path: str, value: Any) -> None:
    document = changed(SCAN_REPORT, path, value)
    assert read_json(read_metrics_report(document).text) == document


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("report-type", ABSENT, "report-type: must be scan-report or commit-report, got null"),
        ("report-type", "gossip", 'report-type: must be scan-report or commit-report, got the string "gossip"'),
        ("report-type", ["scan-report"], "report-type: must be scan-report or commit-report, got an array"),
        ("table-name", ABSENT, "table-name: required field is missing"),
        ("table-name", 7, "table-name: expected a string, got the number 7"),
        ("snapshot-id", None, "snapshot-id: required field is missing"),
        ("snapshot-id", "1", 'snapshot-id: expected a 64-bit integer, got the string "1"'),
        ("snapshot-id", 1.0, "snapshot-id: expected a 64-bit integer, got the number 1.0"),
        ("filter", ABSENT, "filter: required field is missing"),
        ("filter", "true", 'filter: expected an object, got the string "true"'),
        ("filter", {}, "filter.type: required field is missing"),
        ("filter", {"type": 1}, "filter.type: expected a string, got the number 1"),
        ("schema-id", 2**31, "schema-id: expected a 32-bit integer, got the number 2147483648"),
        ("projected-field-ids", ABSENT, "projected-field-ids: required field is missing"),
        ("projected-field-ids", [1, "2"], 'projected-field-ids[1]: expected a 32-bit integer, got the string "2"'),
        ("projected-field-names", [None], "projected-field-names[0]: expected a string, got null"),
        ("metadata", {"a": 1}, "metadata.a: expected a string, got the number 1"),
        ("metadata", [], "metadata: expected an object, got an array"),
        ("metrics", ABSENT, "metrics: required field is missing"),
        ("metrics", [], "metrics: expected an object, got an array"),
        ("metrics/x", 7, "metrics.x: expected an object, got the number 7"),
        ("metrics/x", {}, "metrics.x: expected a counter (unit, value) or a timer (count, time-unit, total-duration)"),
        ("metrics/x", {"value": 1}, "metrics.x.unit: required field is missing"),
        ("metrics/x", {"unit": "count"}, "metrics.x.value: required field is missing"),
        ("metrics/x", {"unit": "count", "value": True}, "metrics.x.value: expected a 64-bit integer, got true"),
        ("metrics/x", {"unit": "count", "value": 1.5}, "metrics.x.value: expected a 64-bit integer"),
        ("metrics/x", {"unit": "count", "value": 2**63}, "metrics.x.value: expected a 64-bit integer"),
        ("metrics/x", {"time-unit": "hours", "total-duration": 1}, "metrics.x.count: required field is missing"),
        ("metrics/x", {"count": 1, "total-duration": 1}, "metrics.x.time-unit: required field is missing"),
        ("metrics/x", {"count": 1, "time-unit": "hours"}, "metrics.x.total-duration: required field is missing"),
        (
            "metrics/x",
            {"count": 1, "time-unit": "parsecs", "total-duration": 1},
            "metrics.x.time-unit: parsecs is no unit of time",
        ),
    ],
)
def test_errors_name_the_path(path: str, value: Any, text: str) -> None:
    with pytest.raises(BadRequest) as error:
        read_metrics_report(changed(SCAN_REPORT, path, value))
    assert error.value.message.startswith(text), error.value.message


@pytest.mark.parametrize("name", ["table-name", "snapshot-id", "sequence-number", "operation", "metrics"])
def test_a_commit_needs_its_fields(name: str) -> None:
    with pytest.raises(BadRequest, match=f"^{name}: required field is missing$"):
        read_metrics_report(changed(COMMIT_REPORT, name, ABSENT))


def test_a_report_is_bounded_in_size_and_depth() -> None:
    project = MAX_REPORT_BYTES - len(write_json(SCAN_REPORT | {"more": ""}))
    read_metrics_report(SCAN_REPORT | {"more": "x" * project})
    with pytest.raises(BodyTooLarge, match="1048576 bytes"):
        read_metrics_report(SCAN_REPORT | {"more": "x" * (project + 1)})
    deep: Any = 1
    for _ in range(199):
        deep = [deep]
    read_metrics_report(SCAN_REPORT | {"more": deep})
    with pytest.raises(BadRequest, match="nested more than 200 levels deep"):
        read_metrics_report(SCAN_REPORT | {"more": [deep]})


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len(set(FIGURES)) == len(FIGURES)
