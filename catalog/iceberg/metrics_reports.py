"""What engines report of their scans and commits: checked field by field, and the figures of it that add up.

Java: `ScanReportParser`, `CommitReportParser`; the names of metrics are those of `ScanMetricsResult` and
`CommitMetricsResult`. A report may hold more fields and more metrics than are known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired, TypedDict

from catalog.iceberg import shapes
from catalog.iceberg.json_fields import (
    as_object,
    as_string_map,
    check_depth,
    clip,
    describe,
    field_path,
    read_int,
    read_int_list,
    read_long,
    read_object,
    read_string,
    read_string_list,
    required,
    wrong_type,
)
from icekeeper.kernel.errors.types import BadRequest, BodyTooLarge
from icekeeper.kernel.json.shapes import Keywords, Long
from icekeeper.kernel.json.strict import write_json

SCAN, COMMIT = "scan-report", "commit-report"

_EXPRESSION: Final = {
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type"],
    "additionalProperties": True,
}


class CounterResult(TypedDict):
    unit: str
    value: Long


TimerResult = TypedDict("TimerResult", {"count": Long, "time-unit": str, "total-duration": Long})

_ABOUT: Final[dict[str, Any]] = {
    "table-name": str,
    "snapshot-id": Long,
    "metrics": dict[str, CounterResult | TimerResult | None],
    "metadata": NotRequired[shapes.Strings | None],
}
REPORTS: Final[dict[str, dict[str, Any]]] = {
    SCAN: {
        **_ABOUT,
        "filter": Annotated[Any, Keywords(oneOf=[{"type": "boolean"}, _EXPRESSION])],
        "schema-id": int,
        "projected-field-ids": list[int],
        "projected-field-names": list[str],
    },
    COMMIT: {**_ABOUT, "sequence-number": Long, "operation": str},
}
"""The types of the members besides `report-type`, by its value. Other members and metrics are kept."""

MAX_REPORT_BYTES: Final = 1_048_576
"""Bytes. A scan of 10,000 columns with long names has half as many; engines leave the literals of filters out."""

MAX_FIGURE: Final = 2**62 - 1
"""Two of these can still be added in 64 bits, so a sum stops here instead of overflowing."""

_MICROSECONDS: Final = {
    "nanoseconds": 0.001,
    "microseconds": 1,
    "milliseconds": 1_000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
    "days": 86_400_000_000,
}

SCAN_FIGURES: Final = {
    "total-planning-duration": "planning_us",
    "result-data-files": "result_data_files",
    "result-delete-files": "result_delete_files",
    "equality-delete-files": "result_equality_delete_files",
    "positional-delete-files": "result_position_delete_files",
    "dvs": "result_deletion_vectors",
    "total-file-size-in-bytes": "result_data_bytes",
    "total-file-size-bytes": "result_data_bytes",
    "total-delete-file-size-in-bytes": "result_delete_bytes",
    "total-delete-file-size-bytes": "result_delete_bytes",
    "skipped-data-files": "skipped_data_files",
    "skipped-delete-files": "skipped_delete_files",
    "total-data-manifests": "total_data_manifests",
    "scanned-data-manifests": "scanned_data_manifests",
    "skipped-data-manifests": "skipped_data_manifests",
    "total-delete-manifests": "total_delete_manifests",
    "scanned-delete-manifests": "scanned_delete_manifests",
    "skipped-delete-manifests": "skipped_delete_manifests",
}
"""Figure by metric; the specification's example and Java spell the sizes differently."""

COMMIT_FIGURES: Final = {
    "total-duration": "commit_us",
    "attempts": "attempts",
    "added-data-files": "added_data_files",
    "removed-data-files": "removed_data_files",
    "added-delete-files": "added_delete_files",
    "removed-delete-files": "removed_delete_files",
    "added-records": "added_records",
    "removed-records": "removed_records",
    "added-files-size-bytes": "added_bytes",
    "removed-files-size-bytes": "removed_bytes",
    "manifests-created": "manifests_created",
    "manifests-replaced": "manifests_replaced",
}

FIGURES: Final = ("scans", "commits", *dict.fromkeys([*SCAN_FIGURES.values(), *COMMIT_FIGURES.values()]))
"""Every figure: counts of reports, sums of counters, and durations (`_us`) in microseconds."""


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """A good report. `figures` has those of `FIGURES` that it counts for, `text` is the whole as JSON."""

    kind: str
    snapshot_id: int
    figures: dict[str, int]
    text: bytes


def read_metrics_report(document: dict[str, Any]) -> ParsedReport:
    """Read a metrics report.

    Implausible numbers (negative, or larger than any table) are accepted and clamped to the possible range. Raises
    `BadRequest` naming the invalid field, `BodyTooLarge` for a report of more than `MAX_REPORT_BYTES`.
    """
    kind = document.get("report-type")
    if kind not in (SCAN, COMMIT):
        raise BadRequest(f"report-type: must be {SCAN} or {COMMIT}, got {describe(kind)}")
    check_depth(document, "")
    read_string(document, "table-name", "")
    snapshot_id = read_long(document, "snapshot-id", "")
    if kind == SCAN:
        _check_filter(required(document, "filter", ""))
        read_int(document, "schema-id", "")
        read_int_list(document, "projected-field-ids", "")
        read_string_list(document, "projected-field-names", "")
    else:
        read_long(document, "sequence-number", "")
        read_string(document, "operation", "")
    if document.get("metadata") is not None:
        as_string_map(document["metadata"], "metadata")
    names = SCAN_FIGURES if kind == SCAN else COMMIT_FIGURES
    figures = {"scans" if kind == SCAN else "commits": 1}
    for name, metric in read_object(document, "metrics", "").items():
        value = _metric(metric, field_path("metrics", name))
        if name in names and value is not None:
            figures[names[name]] = max(0, min(value, MAX_FIGURE))
    text = write_json(document)
    if len(text) > MAX_REPORT_BYTES:
        raise BodyTooLarge(f"A metrics report may have {MAX_REPORT_BYTES} bytes")
    return ParsedReport(kind, snapshot_id, figures, text)


def _check_filter(value: Any) -> None:
    """`true`, `false` or an expression. What an expression may be grows with the specification: its type is enough."""
    if not isinstance(value, bool):
        read_string(as_object(value, "filter"), "type", "filter")


def _metric(value: Any, path: str) -> int | None:
    """The value of a counter, or the microseconds of a timer; None where an engine sent null."""
    if value is None:
        return None
    metric = as_object(value, path)
    if "value" in metric or "unit" in metric:
        read_string(metric, "unit", path)
        return read_long(metric, "value", path)
    if "total-duration" not in metric and "time-unit" not in metric:
        raise wrong_type(path, "a counter (unit, value) or a timer (count, time-unit, total-duration)", value)
    read_long(metric, "count", path)
    unit = read_string(metric, "time-unit", path)
    duration = read_long(metric, "total-duration", path)
    microseconds = _MICROSECONDS.get(unit.lower())
    if microseconds is None:
        raise BadRequest(f"{field_path(path, 'time-unit')}: {clip(unit)} is no unit of time")
    return duration // 1000 if microseconds < 1 else duration * int(microseconds)
