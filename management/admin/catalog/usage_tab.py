"""The tab with the use of a table: scans and commits of each day, from the metrics reports of engines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.utils.translation import gettext as _

from catalog.models import MetricsDay
from catalog.selectors.tables.usage import list_metrics_days
from icekeeper.kernel.clock import now
from management.admin.charts import Series, draw_trend

DAYS: Final = 30
_MICROSECONDS: Final = 1_000_000


def usage_context(tabular_id: UUID) -> dict[str, Any]:
    """Return the charts and sums of the last 30 days."""
    days = list_metrics_days(tabular_id=tabular_id, days=DAYS)
    if not days:
        return {"days": []}
    by_day = {each.day: each for each in days}
    today = now().date()
    moments = [today - timedelta(days=number) for number in reversed(range(DAYS))]
    times = [datetime.combine(each, time(), UTC) for each in moments]
    scans = [float(by_day[each].scans) if each in by_day else 0.0 for each in moments]
    commits = [float(by_day[each].commits) if each in by_day else 0.0 for each in moments]
    return {
        "days": days,
        "scans_chart": draw_trend(_("Scans per day"), times, [Series(_("Scans"), 1, scans)]),
        "commits_chart": draw_trend(_("Commits per day"), times, [Series(_("Commits"), 1, commits)]),
        **_sums(days),
    }


def _sums(days: Sequence[MetricsDay]) -> dict[str, Any]:
    scans = sum(each.scans for each in days)
    commits = sum(each.commits for each in days)
    files = sum(each.result_data_files for each in days)
    planning = sum(each.planning_us for each in days) / scans / _MICROSECONDS if scans else None
    return {
        "scans": scans,
        "commits": commits,
        "planning_seconds": planning,
        "files_a_scan": files / scans if scans else None,
        "bytes_a_file": sum(each.result_data_bytes for each in days) / files if files else None,
        "deletes_a_file": sum(each.result_delete_files for each in days) / files if files else None,
        "attempts_a_commit": sum(each.attempts for each in days) / commits if commits else None,
    }
