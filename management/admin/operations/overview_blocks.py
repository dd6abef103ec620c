"""Blocks of overviews: what needs attention, rankings of tables, queues and latest changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.selectors.overview import FailedTask, Overview
from catalog.selectors.overview_operations import LatestChange, QueueHealth
from catalog.selectors.overview_rankings import RankedTable
from events.selectors.sinks import SinkState, SinkStatus
from management.admin.access.principals import principal_value
from management.admin.events.sink_texts import sink_url
from management.admin.navigation import Text, object_url
from management.admin.operations.task_texts import QUEUES, task_url_of
from management.templatetags.console import byte_size, duration, relative_time, short_count
from tasks.models import NO_ID
from tenancy.selectors.expiring_grants import MAX_EXPIRING, ExpiringGrants

SLOW_PLANNING: Final = 2.0
"""Seconds on average, from which on the slowest table needs attention if its reports show a reason."""
_SECOND_US: Final = 1_000_000
_SMALL_FILE: Final = 32 * 1024 * 1024
_MANY_FILES: Final = 100
"""Files that a scan reads, from which on their size is a likely reason."""

BLOCKS: Final[dict[str, Text]] = {
    "counts": gettext_lazy("Warehouses"),
    "history": gettext_lazy("Data and rows"),
    "rankings": gettext_lazy("Largest and slowest tables"),
    "tasks": gettext_lazy("Failed tasks"),
    "queues": gettext_lazy("Queues"),
    "changes": gettext_lazy("Latest changes"),
    "grants": gettext_lazy("Grants that expire soon"),
}
"""Titles of the parts of `Overview` that can fail on their own."""


def blocks_context(overview: Overview, sinks: Sequence[SinkState] = ()) -> dict[str, Any]:
    """Return what the templates show of `overview`, besides tiles and charts, and of sinks that need attention."""
    names = {each.warehouse.pk: each.warehouse.name for each in overview.counts}

    def name_of(table: RankedTable) -> str:
        return ".".join((names.get(table.warehouse_id, ""), *table.levels, table.name))

    slowest = [_slow_table(each, name_of(each)) for each in overview.rankings.slowest]
    return {
        "overview": overview,
        "failed_blocks": [title for block, title in BLOCKS.items() if block in overview.failed_blocks],
        "largest": [_large_table(each, name_of(each)) for each in overview.rankings.largest],
        "slowest": slowest,
        "queues": [(each, QUEUES.get(each.queue, each.queue)) for each in overview.queues],
        "changes": [_change(each) for each in overview.changes],
        "names_actors": any(each.actor for each in overview.changes),
        "attention": _attention(overview, slowest, sinks),
        "recorded_at": overview.history.recorded_at,
    }


def _large_table(row: RankedTable, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "url": object_url("table", row.uuid, row.warehouse_id),
        "records": row.records,
        "files_size": row.files_size,
        "data_files": row.data_files,
    }


def _slow_table(row: RankedTable, name: str) -> dict[str, Any]:
    scans = row.scans or 1
    return {
        "name": name,
        "url": reverse("admin:table-tab", args=[row.warehouse_id, row.uuid, "health"]),
        "seconds": (row.planning_us or 0) / scans / _SECOND_US,
        "scans": row.scans,
        "files": (row.result_data_files or 0) / scans,
        "reason": _reason(row),
    }


def _reason(row: RankedTable) -> str:
    """Return the likely reason of slow planning; empty where the reports show none."""
    files, deletes = row.result_data_files or 0, row.result_delete_files or 0
    if not files:
        return ""
    if deletes >= files:
        return _("%(count)s delete files for each data file") % {"count": short_count(deletes / files)}
    size = (row.result_data_bytes or 0) / files
    if files / (row.scans or 1) < _MANY_FILES:
        return ""
    if size < _SMALL_FILE:
        return _("small files, of %(size)s on average") % {"size": byte_size(size)}
    return _("%(count)s files in each scan") % {"count": short_count(files / (row.scans or 1))}


def _attention(
    overview: Overview, slowest: Sequence[dict[str, Any]], sinks: Sequence[SinkState]
) -> list[dict[str, Any]]:
    """Return the sentences of "Needs attention", the worst first."""
    rows = [
        *(_failed_task(each) for each in overview.failed_tasks),
        *map(_troubled_sink, sinks),
        _overdue_tasks([each for each in overview.queues if each.overdue]),
        _retried_tasks(sum(each.retrying for each in overview.queues)),
        _slow_planning([each for each in slowest if each["reason"] and each["seconds"] >= SLOW_PLANNING]),
        None if overview.expiring_grants is None else _expiring_grants(overview.expiring_grants),
        _expiring_objects(overview.expiring_soon),
    ]
    return sorted((each for each in rows if each is not None), key=lambda row: row["tone"] != "bad")


def _failed_task(task: FailedTask) -> dict[str, Any]:
    return {
        "tone": "bad",
        "icon": "cross",
        "subject": _("Task failed: %(queue)s, %(name)s")
        % {"queue": QUEUES.get(task.queue, task.queue), "name": _owner_of(task)},
        "text": ngettext("after %(count)s attempt:", "after %(count)s attempts:", task.attempt)
        % {"count": task.attempt},
        "code": task.message[:200],
        "url": task_url_of(task.project_id, task.warehouse_id, task.id),
        "label": _("Open task"),
    }


def _owner_of(task: FailedTask) -> str:
    """Return the name of the object of a task, or what it belongs to."""
    if task.warehouse_id == NO_ID:
        return _("the project %(name)s") % {"name": task.project_name}
    return ".".join(task.name) or _("a warehouse")


def _troubled_sink(state: SinkState) -> dict[str, Any]:
    shown: dict[str, Any] = {"url": sink_url(state.sink.pk), "label": _("Event sink")}
    match state.status:
        case SinkStatus.FAILING:
            text = _("for %(age)s, the last error is") % {"age": duration(state.lag_seconds)}
            error = {"text": text, "code": state.sink.last_error[:200]}
            subject = _("Events are not delivered to %(name)s")
            shown |= {"tone": "bad", "icon": "cross", **error}
        case SinkStatus.STOPPED:
            subject = _("No worker delivers events to %(name)s")
            shown |= {"tone": "bad", "icon": "cross", "text": _("check that workers run")}
        case _:
            subject = _("Events were rejected by %(name)s")
            count = state.dead_letters
            text = ngettext("%(count)s dead letter", "%(count)s dead letters", count) % {"count": count}
            shown |= {"tone": "warning", "icon": "warning", "text": text}
    return {**shown, "subject": subject % {"name": state.sink.name}}


def _overdue_tasks(queues: Sequence[QueueHealth]) -> dict[str, Any] | None:
    if not queues:
        return None
    count = sum(each.overdue for each in queues)
    text = ngettext(
        "in the queue %(queues)s: check that workers run",
        "in the queues %(queues)s: check that workers run",
        len(queues),
    )
    return {
        "tone": "bad",
        "icon": "clock",
        "subject": ngettext("%(count)s task is overdue", "%(count)s tasks are overdue", count) % {"count": count},
        "text": text % {"queues": ", ".join(each.queue for each in queues)},
        "url": reverse("admin:tasks"),
        "label": _("Tasks"),
    }


def _retried_tasks(count: int) -> dict[str, Any] | None:
    if not count:
        return None
    return {
        "tone": "warning",
        "icon": "refresh",
        "subject": ngettext("%(count)s task failed", "%(count)s tasks failed", count) % {"count": count},
        "text": _("and will be retried"),
        "url": reverse("admin:tasks"),
        "label": _("Tasks"),
    }


def _slow_planning(slowest: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if not slowest:
        return None
    table = slowest[0]
    return {
        "tone": "warning",
        "icon": "clock",
        "subject": _("Planning a scan of %(name)s takes %(seconds)s")
        % {"name": table["name"], "seconds": duration(table["seconds"])},
        "text": table["reason"],
        "url": table["url"],
        "label": _("Health"),
    }


def _expiring_objects(count: int) -> dict[str, Any] | None:
    if not count:
        return None
    return {
        "tone": "warning",
        "icon": "undo",
        "subject": ngettext("%(count)s dropped object", "%(count)s dropped objects", count) % {"count": count},
        "text": _("can be restored for less than 24 hours"),
        "url": reverse("admin:deleted"),
        "label": _("Deleted objects"),
    }


def _expiring_grants(grants: ExpiringGrants) -> dict[str, Any]:
    count = f"{MAX_EXPIRING}+" if grants.count > MAX_EXPIRING else str(grants.count)
    query = {"project": grants.project_id or "", "who": principal_value(grants.grantee)}
    return {
        "tone": "warning",
        "icon": "key",
        "subject": ngettext("%(count)s grant expires", "%(count)s grants expire", grants.count) % {"count": count},
        "text": ngettext("within 7 days: %(time)s", "within 7 days, the first %(time)s", grants.count)
        % {"time": relative_time(grants.expires_at)},
        "url": f"{reverse('admin:access-review')}?{urlencode(query)}",
        "label": _("Access review"),
    }


def _change(change: LatestChange) -> dict[str, Any]:
    url = None if change.uuid is None else object_url(change.kind, change.uuid, change.warehouse_id)
    return {
        "type": change.type,
        "name": ".".join(change.names),
        "at": change.at,
        "actor": change.actor,
        "url": url,
    }
