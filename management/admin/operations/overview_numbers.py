"""Tiles and charts of overviews: recorded numbers over time, calls and commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.selectors.overview import Overview
from catalog.selectors.overview_history import DAY, HistoryPoint
from management.admin.charts import Series, TrendChart, draw_trend, sparkline
from management.admin.operations.statistics import HOURS_A_POINT, PERIODS, calls_chart, sum_hours
from management.call_hours import CallsOfAnHour, RecordedCalls
from management.csv_files import csv_response
from management.templatetags.console import byte_size, duration, short_count

STEPS: Final = {"24h": timedelta(hours=1), "7d": timedelta(hours=6), "30d": DAY}
"""Of the charts of recorded numbers."""

_HOURS_A_DAY: Final = 24
_MIN_POINTS: Final = 2


def tiles_of(overview: Overview, points: Sequence[HistoryPoint], calls: RecordedCalls | None) -> list[dict[str, Any]]:
    """Return the tiles: recorded numbers with their change since the first point, counts, and calls of a day."""
    count = overview.generic_tables
    generic = ngettext("%(count)s generic table", "%(count)s generic tables", count) % {"count": count} if count else ""
    tiles = [
        _recorded(_("Data"), points, "files_size", byte_size),
        _recorded(_("Rows"), points, "records", short_count),
        _recorded(_("Tables"), points, "tables", short_count, current=overview.tables),
        _recorded(_("Views"), points, "views", short_count, current=overview.views),
        _recorded(_("Snapshots"), points, "snapshots", short_count),
    ]
    if generic:
        note = tiles[2]["note"]
        tiles[2]["note"] = f"{note} · {generic}" if note else generic
    return tiles + ([] if calls is None else _tiles_of_calls(calls))


def _recorded(
    label: str,
    points: Sequence[HistoryPoint],
    name: str,
    shown: Callable[[float | None], str],
    *,
    current: int | None = None,
) -> dict[str, Any]:
    known = [(each.at, value) for each in points if (value := getattr(each, name)) is not None]
    values = [value for _at, value in known]
    if current is not None and values:
        values[-1] = current  # the line ends at the number of the tile
    value = current if current is not None else values[-1] if values else None
    note = ""
    if len(values) >= _MIN_POINTS and values[0] != values[-1]:
        days = max(1, round((known[-1][0] - known[0][0]) / DAY))
        sign = "+" if values[-1] > values[0] else ""
        change = f"{sign}{shown(float(values[-1] - values[0]))}"
        note = _("%(change)s in %(days)s d") % {"change": change, "days": days}
    return {
        "label": label,
        "text": shown(value),
        "exact": value,
        "note": note,
        "line": sparkline([float(each) for each in values]),
    }


def _tiles_of_calls(calls: RecordedCalls) -> list[dict[str, Any]]:
    hours = calls.hours
    today, yesterday = hours[-_HOURS_A_DAY:], hours[-2 * _HOURS_A_DAY : -_HOURS_A_DAY]
    commits, before = sum(each.commits for each in today), sum(each.commits for each in yesterday)
    errors = sum(each.server_errors for each in today)
    p95 = calls.load_p95(today[0].hour)
    p95_before = calls.load_p95(yesterday[0].hour, today[0].hour) if yesterday else None
    days = [hours[start : start + _HOURS_A_DAY] for start in range(0, len(hours), _HOURS_A_DAY)]
    return [
        _counted(_("Commits, 24 h"), commits, [sum(each.commits for each in day) for day in days])
        | {"note": _("the day before %(count)s") % {"count": short_count(before)} if commits or before else ""},
        _counted(_("Calls, 24 h"), sum(each.total for each in today), [sum(each.total for each in day) for day in days])
        | {"note": ngettext("%(count)s server error", "%(count)s server errors", errors) % {"count": errors}},
        {
            "label": _("loadTable, 95th percentile"),
            "text": duration(None if p95 is None else p95 / 1000),
            "note": "" if p95_before is None else _("the day before %(time)s") % {"time": duration(p95_before / 1000)},
            "line": sparkline([each for hour in today if (each := _p95_of(calls, hour)) is not None]),
        },
    ]


def _counted(label: str, value: int, by_day: Sequence[int]) -> dict[str, Any]:
    return {
        "label": label,
        "text": short_count(value),
        "exact": value,
        "line": sparkline([float(each) for each in by_day]),
    }


def _p95_of(calls: RecordedCalls, hour: CallsOfAnHour) -> float | None:
    return calls.load_p95(hour.hour, hour.hour + timedelta(hours=1))


def calls_context(calls: RecordedCalls | None, period: str) -> dict[str, Any]:
    """Return the charts of calls and commits in a period, which ends now; without the permission there are none."""
    hours_a_point = HOURS_A_POINT[period]
    shown: dict[str, Any] = {
        "period": period,
        "periods": [(name, f"?period={name}", name == period) for name in PERIODS],
        "hours_a_point": hours_a_point,
        "calls_csv_url": f"?period={period}&format=csv",
        "calls_chart": None,
    }
    if calls is None:
        return shown
    points = sum_hours(hours_of(calls, period), hours_a_point)
    commits = [Series(_("Commits"), 1, [each.commits for each in points])]
    return shown | {
        "calls_chart": calls_chart(points),
        "commits_chart": draw_trend(_("Commits"), [each.hour for each in points], commits),
    }


def hours_of(calls: RecordedCalls, period: str) -> list[CallsOfAnHour]:
    """Return the hours of a period that ends with the last one."""
    return list(calls.hours[-(PERIODS[period] // timedelta(hours=1)) :])


def history_charts(points: Sequence[HistoryPoint]) -> list[tuple[str, TrendChart]]:
    """Return the charts of recorded numbers, each with its title; those with fewer than two points are left out."""
    charts = [
        (_("Data"), _draw(_("Data"), points, [(_("Bytes"), 1, "files_size")], in_bytes=True)),
        (_("Rows"), _draw(_("Rows"), points, [(_("Rows"), 1, "records")])),
        (
            _("Tables and views"),
            _draw(
                _("Tables and views"),
                points,
                [
                    (_("Generic tables"), 4, "generic_tables"),
                    (_("Views"), 2, "views"),
                    (_("Tables"), 1, "tables"),
                ],
            ),
        ),
        (_("Snapshots"), _draw(_("Snapshots"), points, [(_("Snapshots"), 1, "snapshots")])),
    ]
    return [(title, chart) for title, chart in charts if chart is not None]


def _draw(
    name: str, points: Sequence[HistoryPoint], lines: Sequence[tuple[str, int, str]], *, in_bytes: bool = False
) -> TrendChart | None:
    known = [each for each in points if all(getattr(each, field) is not None for _name, _colour, field in lines)]
    if len(known) < _MIN_POINTS:
        return None
    series = [Series(label, colour, [getattr(each, field) for each in known]) for label, colour, field in lines]
    return draw_trend(name, [each.at for each in known], series, in_bytes=in_bytes)


def history_csv(points: Sequence[HistoryPoint]) -> StreamingHttpResponse:
    """Return the recorded numbers as a CSV file; a number is empty where none was recorded."""
    header = ("time", "tables", "views", "generic_tables", "snapshots", "rows", "bytes")
    rows = [
        (
            each.at.isoformat(timespec="seconds"), each.tables, each.views, each.generic_tables, each.snapshots,
            each.records, each.files_size,
        )
        for each in points
    ]  # fmt: skip
    return csv_response("warehouse", header, [rows])
