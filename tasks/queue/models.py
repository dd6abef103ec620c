from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id


class Task(models.Model):
    """Work that must happen after a commit and survives a crash: a row of the transaction that requests it.

    A worker leases it (`tasks.queue.leases`): then it is running, until `leased_until`. `attempt`
    counts the leases, so that a holder can detect that its lease has ended. The transaction that ends the work deletes
    the row. After a failure it is scheduled again, with `last_error`.
    """

    class Queue(models.TextChoices):
        SOFT_DELETION = "soft_deletion"
        TABULAR_PURGE = "tabular_purge"

    class Status(models.TextChoices):
        SCHEDULED = "scheduled"
        RUNNING = "running"

    id = models.UUIDField(primary_key=True, default=new_id)
    queue = models.CharField(max_length=32, choices=Queue.choices)
    warehouse_id = models.UUIDField()
    entity_id = models.UUIDField()
    payload: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.SCHEDULED)
    scheduled_for = models.DateTimeField(default=now)
    attempt = models.IntegerField(default=0)
    leased_until = models.DateTimeField(null=True)
    last_error = models.TextField(default="")
    created_at = models.DateTimeField(auto_now_add=True)

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
