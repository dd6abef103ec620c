"""File statistics of tables, and the tasks that read them, for tables that the caller has loaded."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from catalog.models import FileStatistics, Tabular
from tasks.models import Task


def list_file_statistics(*, tabular_id: UUID) -> Sequence[FileStatistics]:
    """Return the statistics of all snapshots of a table that were read, the last one first: a few. One statement.

    Requires the permission to read the data of the table.
    """
    rows = FileStatistics.objects.using(settings.READ_DATABASE).filter(tabular_id=tabular_id)
    return list(rows.order_by("-read_at"))


def find_file_task(*, tabular: Tabular) -> Task | None:
    """Return the task that reads or shall read the files of a table, or the last one if that has failed.

    One statement, on the primary database, as the task may have been created just now.
    """
    tasks = Task.objects.in_warehouse(tabular.warehouse_id).filter(
        entity_id=tabular.pk, queue=Task.Queue.FILE_STATISTICS.value
    )
    task = tasks.order_by("-created_at", "-pk").first()
    return task if task is not None and (task.finished_at is None or task.status == Task.Status.FAILED) else None
