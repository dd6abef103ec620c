from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.db.models.functions import Now

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id


class TaskQuerySet(models.QuerySet["Task"]):
    def in_warehouse(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id)

    def of_entities(self, queue: Task.Queue, warehouse_id: UUID, entity_ids: Collection[UUID]) -> Self:
        return self.filter(queue=queue, warehouse_id=warehouse_id, entity_id__in=entity_ids)

    def running(self) -> Self:
        """Return the tasks that a worker has leased."""
        return self.filter(status=Task.Status.RUNNING, leased_until__gte=Now())


class Task(models.Model):
    """Work after a commit that survives a crash: the row is inserted in the transaction that requests the work.

    A worker leases it (`tasks.leases`): the task is running until `leased_until`. `attempt` counts the leases, so
    that a worker can detect that its lease has ended. The transaction that finishes the work deletes the row. After a
    failure the task is scheduled again, with `last_error`.
    """

    class Queue(models.TextChoices):
        SOFT_DELETION = "soft_deletion"
        TABULAR_PURGE = "tabular_purge"

    class Status(models.TextChoices):
        SCHEDULED = "scheduled"
        RUNNING = "running"

    id = models.UUIDField(primary_key=True, default=new_id)
    queue = models.CharField(max_length=32, choices=Queue.choices)
    warehouse_id = models.UUIDField("warehouse ID")
    entity_id = models.UUIDField("entity ID", help_text="The table or view that the work is about.")
    payload: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.SCHEDULED)
    scheduled_for = models.DateTimeField(default=now, help_text="The task is executed at this time or later.")
    attempt = models.IntegerField(default=0, help_text="Number of attempts so far.")
    leased_until = models.DateTimeField(null=True, help_text="A worker has the task until then.")
    last_error = models.TextField(default="", help_text="Error of the last attempt that failed.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "warehouse_id", "entity_id"], name="task_once_per_entity"),
            models.CheckConstraint(
                condition=models.Q(status="running") ^ models.Q(leased_until__isnull=True),
                name="task_running_is_leased",
            ),
        ]
        indexes = [models.Index(fields=["scheduled_for", "id"], name="task_by_due_time")]

    def __str__(self) -> str:
        return f"{self.queue} {self.entity_id}"


class PeriodicJob(models.Model):
    """A periodic job of workers (`tasks.runtime`): when it is due, and its last run.

    A worker claims it until `leased_until`; `runs` counts the claims, so that a worker can detect that its claim has
    expired. Times are by the clock of the database.
    """

    name = models.CharField(max_length=64, primary_key=True)
    next_run_at = models.DateTimeField(db_default=Now(), help_text="The job is run at this time or later.")
    leased_until = models.DateTimeField(null=True, help_text="A worker runs the job until then.")
    last_started_at = models.DateTimeField(null=True)
    last_finished_at = models.DateTimeField(null=True)
    last_duration = models.FloatField(null=True, help_text="Of the last run that ended, in seconds.")
    last_error = models.TextField(default="", help_text="Error of the last run; empty if it succeeded.")
    runs = models.BigIntegerField(default=0, help_text="Number of runs that started.")

    def __str__(self) -> str:
        return self.name
