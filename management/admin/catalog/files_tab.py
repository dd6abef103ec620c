"""The tab with the files of a snapshot: their sizes, partitions and delete files, as a worker read them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.iceberg.display.snapshot_graph import read_refs
from catalog.iceberg.display.stored_parts import find_snapshot
from catalog.iceberg.file_totals import (
    DELETION_VECTORS,
    EQUALITY_DELETES,
    MIB,
    POSITION_DELETES,
    SIZE_LIMITS,
    SMALL_SHARE,
    FileSummary,
    PartitionSums,
)
from catalog.iceberg.types import MAIN_BRANCH, TableMetadata
from catalog.models import FileStatistics, Tabular
from catalog.selectors.tables.file_statistics import find_file_task, list_file_statistics
from catalog.services.file_statistics import MANIFESTS, SNAPSHOT, request_file_statistics
from icekeeper.kernel.errors.types import BadRequest, NotFound
from management.admin.catalog.metadata_facts import moment_of
from management.admin.histogram import Group, draw_histogram
from management.templatetags.console import byte_size, grouped
from tasks.models import Task

ROWS_A_PAGE: Final = 50
ORDERS: Final = {"size": gettext_lazy("Data"), "files": gettext_lazy("Files"), "deletes": gettext_lazy("Delete files")}
_COLOUR, _SMALL_COLOUR = 1, 2
_MAX_ID_DIGITS: Final = 20
_NAMES: Final = 3
_DELETE_KINDS: Final = {
    POSITION_DELETES: gettext_lazy("Position deletes"),
    EQUALITY_DELETES: gettext_lazy("Equality deletes"),
    DELETION_VECTORS: gettext_lazy("Deletion vectors"),
}


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """A snapshot that can be chosen: the branch or tag that names it, or the time at which it was read."""

    snapshot_id: int
    label: str


def read_snapshot_id(metadata: TableMetadata, text: str | None) -> int | None:
    """Return the id of the chosen snapshot, of the current one without a choice; None if the table has none.

    Raises `NotFound` for an unknown one.
    """
    if not text:
        current = metadata.get("current-snapshot-id")
        return current if isinstance(current, int) and find_snapshot(metadata, current) is not None else None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS):
        raise NotFound("No such snapshot")
    if find_snapshot(metadata, int(text)) is None:
        raise NotFound("No such snapshot")
    return int(text)


def files_context(metadata: TableMetadata, tabular: Tabular, query: QueryDict) -> dict[str, Any]:
    """Return the statistics of the chosen snapshot, or the state of the task that reads them.

    While the current snapshot is not read, the last one that was read is shown as well. Two statements at most.
    """
    snapshot_id = read_snapshot_id(metadata, query.get("snapshot"))
    if snapshot_id is None:
        return {"has_snapshot": False}
    rows = list_file_statistics(tabular_id=tabular.pk)
    own = next((each for each in rows if each.snapshot_id == snapshot_id), None)
    shown = own or next((each for each in rows if each.document is not None), None)
    return {
        "has_snapshot": True,
        "snapshot_id": snapshot_id,
        "snapshot_at": moment_of((find_snapshot(metadata, snapshot_id) or {}).get("timestamp-ms")),
        "choices": list_choices(metadata, snapshot_id),
        "action": reverse("admin:table-files", args=[tabular.warehouse_id, tabular.uuid]),
        "is_read": own is not None,
        "reading": None if own is not None else _find_reading(tabular, snapshot_id),
        "error": "" if shown is None else shown.error,
        "read": shown,
        **({} if shown is None or shown.document is None else _statistics_context(shown, query)),
    }


def reading_state(metadata: TableMetadata, tabular: Tabular, query: QueryDict) -> dict[str, Any]:
    """Return what the fragment with the state of the task shows; `is_done` once there is nothing to wait for."""
    snapshot_id = read_snapshot_id(metadata, query.get("snapshot"))
    if snapshot_id is None:
        raise NotFound("No such snapshot")
    reading = _find_reading(tabular, snapshot_id)
    return {"snapshot_id": snapshot_id, "reading": reading, "is_done": reading is None or reading["has_failed"]}


def _find_reading(tabular: Tabular, snapshot_id: int) -> dict[str, Any] | None:
    """Return the state of the task of a table; None without one. One statement."""
    task = find_file_task(tabular=tabular)
    if task is None:
        return None
    has_failed = task.status == Task.Status.FAILED
    is_of_another = task.payload.get(SNAPSHOT) != snapshot_id
    if has_failed and is_of_another:
        return None
    return {
        "has_failed": has_failed,
        "is_of_another": is_of_another,
        "is_running": task.status in Task.LEASED,
        "progress": task.progress,
        "manifests": (task.execution_details or {}).get(MANIFESTS),
        "message": task.message,
        "since": task.created_at,
        "next_attempt": task.scheduled_for,
        "url": reverse("admin:task", args=[task.warehouse_id, task.pk]),
    }


def _statistics_context(row: FileStatistics, query: QueryDict) -> dict[str, Any]:
    summary = FileSummary.of(row.document or {})
    order = query.get("order", "size")
    if order not in ORDERS:
        raise NotFound("No such order")
    partitions = _sort(summary.partitions, order)
    return {
        "summary": summary,
        "small_limit": summary.target // SMALL_SHARE,
        "histogram": _draw(summary),
        "tiles": [
            {"label": _("Data files"), "value": summary.all.files, "note": ""},
            {"label": _("Data"), "text": byte_size(summary.all.size), "note": ""},
            {"label": _("Rows"), "value": summary.all.records, "note": _("before deletes")},
            {"label": _("Median file"), "text": byte_size(summary.median), "note": ""},
            {"label": _("Delete files"), "value": summary.all.delete_files, "note": ""},
            {"label": _("Manifests"), "value": summary.manifests, "note": byte_size(summary.manifest_bytes)},
        ],
        "orders": [(slug, label, slug == order) for slug, label in ORDERS.items()],
        "partitions": [(each, *_shares(each, summary)) for each in partitions[:ROWS_A_PAGE]],
        "hidden_partitions": max(0, summary.partition_count - ROWS_A_PAGE),
        "delete_kinds": [(_DELETE_KINDS[kind], sums) for kind, sums in summary.deletes.items() if sums.files],
        "formats": sorted(summary.formats.items(), key=lambda each: -each[1]),
    }


def _sort(partitions: Sequence[PartitionSums], order: str) -> list[PartitionSums]:
    keys = {
        "size": lambda each: -each.sums.size,
        "files": lambda each: -each.sums.files,
        "deletes": lambda each: -each.sums.delete_files,
    }
    return sorted(partitions, key=keys[order])


def _shares(partition: PartitionSums, summary: FileSummary) -> tuple[float, int | None]:
    """Return the share of the partition in all files, and the average size of its files."""
    files = partition.sums.files
    return files / max(summary.all.files, 1), partition.sums.size // files if files else None


def _draw(summary: FileSummary) -> Any:
    small = summary.target // SMALL_SHARE
    ends = (*SIZE_LIMITS, None)
    groups = [
        Group(label, count, _SMALL_COLOUR if end is not None and end <= small else _COLOUR)
        for label, count, end in zip(_labels(), summary.sizes, ends, strict=True)
    ]
    name = _("%(files)s data files by size; the target is %(target)s") % {
        "files": grouped(summary.all.files),
        "target": byte_size(summary.target),
    }
    target = _("target %(size)s") % {"size": byte_size(summary.target)}
    return draw_histogram(name, groups, target_group=_position(summary.target), target_label=target)


def _position(size: int) -> float:
    """Return where a size stands between the groups, in groups from the left."""
    number = bisect_left(SIZE_LIMITS, size)
    if number == len(SIZE_LIMITS):
        return number + 0.5
    low = SIZE_LIMITS[number - 1] if number else 0
    return number + (size - low) / (SIZE_LIMITS[number] - low)


def _labels() -> list[str]:
    sizes = [each // MIB for each in SIZE_LIMITS]
    between = [f"{low}-{high}" for low, high in pairwise(sizes[:-1])]
    return [f"< {sizes[0]} MiB", *between, f"{sizes[-2]} MiB-1 GiB", "≥ 1 GiB"]


def list_choices(metadata: TableMetadata, chosen: int) -> list[SnapshotChoice]:
    """Return the snapshots of branches and tags, `main` first, and the chosen one. Names of one snapshot are joined."""
    names: dict[int, list[str]] = {}
    for name, ref in sorted(read_refs(metadata).items(), key=lambda each: each[0] != MAIN_BRANCH):
        snapshot_id = ref.get("snapshot-id")
        if isinstance(snapshot_id, int):
            names.setdefault(snapshot_id, []).append(name)
    choices = [SnapshotChoice(each, ", ".join(some[:_NAMES])) for each, some in list(names.items())[:ROWS_A_PAGE]]
    if chosen not in {each.snapshot_id for each in choices}:
        choices.insert(0, SnapshotChoice(chosen, _("snapshot %(id)s") % {"id": chosen}))
    return choices


def request_files(request: HttpRequest, *, actor: Any, tabular: Tabular, metadata: TableMetadata) -> HttpResponse:
    """Queue the task that reads the files of the snapshot in the form, and lead back to the tab."""
    text = request.POST.get("snapshot", "")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS):
        raise BadRequest("snapshot: must be the id of a snapshot")
    request_file_statistics(actor=actor, tabular=tabular, metadata=metadata, snapshot_id=int(text))
    return redirect_to_files(tabular, int(text))


def redirect_to_files(tabular: Tabular, snapshot_id: int) -> HttpResponse:
    """Lead to the tab with the files of a snapshot."""
    tab = reverse("admin:table-tab", args=[tabular.warehouse_id, tabular.uuid, "files"])
    return HttpResponseRedirect(f"{tab}?{urlencode({'snapshot': snapshot_id})}")
