from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.db.models.functions import Now

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id

NO_ID = UUID(int=0)
"""Stands for "none" in columns of unique keys, where two nulls would differ."""


class TaskQuerySet(models.QuerySet["Task"]):
    def live(self) -> Self:
        """Return the tasks that have not ended."""
        return self.filter(finished_at=None)

    def in_warehouse(self, warehouse_id: UUID) -> Self:
        return self.filter(warehouse_id=warehouse_id)

    def of_entities(self, queue: str, warehouse_id: UUID, entity_ids: Collection[UUID]) -> Self:
        """Return the tasks of these entities that have not ended."""
        return self.live().filter(queue=queue, warehouse_id=warehouse_id, entity_id__in=entity_ids)

    def running(self) -> Self:
        """Return the tasks that a worker has leased."""
        return self.filter(status__in=Task.LEASED, leased_until__gte=Now())


class Task(models.Model):
    """Work after a commit that survives a crash: the row is inserted in the transaction that requests the work.

    A worker leases it (`tasks.queue.leases`): the task is running until `leased_until`. `attempt` counts the leases, so
    that a worker can detect that its lease has ended. The transaction that completes the work ends the task, too. After
    a failure the task is scheduled again; after too many it has failed, and an operator can retry it. Each attempt that
    ended is a `TaskAttempt`. Ended tasks remain until `task_log_cleanup` deletes them.
    """

    class Queue(models.TextChoices):
        SOFT_DELETION = "soft_deletion"
        TABULAR_PURGE = "tabular_purge"
        TASK_LOG_CLEANUP = "task_log_cleanup"
        STATISTICS = "statistics"
        FILE_STATISTICS = "file_statistics"
        EXPIRE_SNAPSHOTS = "expire_snapshots"
        REMOVE_ORPHAN_FILES = "remove_orphan_files"

    class Status(models.TextChoices):
        SCHEDULED = "scheduled"
        RUNNING = "running"
        STOPPING = "stopping"
        SUCCESS = "success"
        FAILED = "failed"
        CANCELLED = "cancelled"

    LEASED = (Status.RUNNING, Status.STOPPING)

    id = models.UUIDField(primary_key=True, default=new_id)
    queue = models.CharField(max_length=64)
    project_id = models.CharField(max_length=128, blank=True, default="")
    warehouse_id = models.UUIDField("warehouse ID", default=NO_ID, help_text="Zero for tasks of a project.")
    entity_type = models.CharField(max_length=32, default="table", help_text="project, warehouse, table, view, ...")
    entity_id = models.UUIDField("entity ID", default=NO_ID, help_text="The object that the work is about.")
    entity_uuid = models.UUIDField("entity UUID", null=True, help_text="The id of the object that clients see.")
    entity_name: models.JSONField[list[str]] = models.JSONField(
        default=list, help_text="Levels of the namespace, then the name, when the task was created."
    )
    payload: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    payload_version = models.SmallIntegerField(default=1, help_text="Workers leave tasks of later versions alone.")
    priority = models.SmallIntegerField(default=0, help_text="Tasks with lower numbers are executed first.")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.SCHEDULED)
    scheduled_for = models.DateTimeField(default=now, help_text="The task is executed at this time or later.")
    attempt = models.IntegerField(default=0, help_text="Number of attempts so far.")
    forgiven_failures = models.IntegerField(default=0, help_text="Failed attempts before an operator retried it.")
    picked_up_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    leased_until = models.DateTimeField(null=True, help_text="A worker has the task until then.")
    progress = models.FloatField(default=0.0, help_text="From 0 to 1.")
    execution_details: models.JSONField[dict[str, Any] | None] = models.JSONField(
        null=True, help_text="What the work has done so far, such as the number of deleted files."
    )
    message = models.TextField(default="", help_text="Error of the last attempt that failed.")
    parent_id = models.UUIDField("parent ID", null=True, help_text="The task that created this one.")
    created_by = models.CharField(max_length=255, blank=True, default="", help_text="User whose request created it.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "project_id", "warehouse_id", "entity_type", "entity_id"],
                condition=models.Q(finished_at=None),
                name="task_once_per_entity",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=("running", "stopping")) ^ models.Q(leased_until__isnull=True),
                name="task_running_is_leased",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=("scheduled", "running", "stopping"))
                ^ models.Q(finished_at__isnull=False),
                name="task_ended_is_finished",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "priority", "warehouse_id", "scheduled_for", "id"],
                condition=models.Q(status="scheduled"),
                name="task_to_claim",
            ),
            models.Index(
                fields=["queue", "scheduled_for"], condition=models.Q(status="scheduled"), name="task_by_due_time"
            ),
            models.Index(
                fields=["leased_until"], condition=models.Q(status__in=("running", "stopping")), name="task_by_lease"
            ),
            models.Index(fields=["warehouse_id", "entity_id"], name="task_of_entity"),
            models.Index(fields=["warehouse_id", "entity_uuid"], name="task_of_uuid"),
            models.Index(fields=["warehouse_id", "-created_at", "-id"], name="task_in_warehouse"),
            models.Index(fields=["warehouse_id", "status", "-created_at", "-id"], name="task_by_status"),
            models.Index(fields=["project_id", "-created_at", "-id"], name="task_in_project"),
            models.Index(
                fields=["project_id", "finished_at"],
                condition=models.Q(finished_at__isnull=False),
                name="task_by_end",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.entity_id}"


class TaskAttempt(models.Model):
    """An attempt at a task that has ended. A successful one is the last."""

    id = models.UUIDField(primary_key=True, default=new_id)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="attempts")
    attempt = models.IntegerField()
    status = models.CharField(max_length=16, choices=Task.Status.choices)
    started_at = models.DateTimeField(null=True, help_text="Empty if it was cancelled before it started.")
    scheduled_for = models.DateTimeField()
    progress = models.FloatField(default=0.0)
    execution_details: models.JSONField[dict[str, Any] | None] = models.JSONField(null=True)
    message = models.TextField(default="")
    created_at = models.DateTimeField(help_text="When the attempt ended.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "attempt"], name="task_attempt_once")]

    def __str__(self) -> str:
        return f"{self.task_id} {self.attempt} {self.status}"


class TaskQueueConfig(models.Model):
    """The configuration of a queue in a warehouse, or in a project."""

    id = models.UUIDField(primary_key=True, default=new_id)
    queue = models.CharField(max_length=64)
    project_id = models.CharField(max_length=128)
    warehouse_id = models.UUIDField("warehouse ID", default=NO_ID, help_text="Zero for queues of a project.")
    config: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    max_seconds_since_last_heartbeat = models.IntegerField(null=True, help_text="Empty: that of the queue.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "project_id", "warehouse_id"], name="task_queue_config_once")
        ]

    def __str__(self) -> str:
        return f"{self.queue} {self.project_id} {self.warehouse_id}"


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
