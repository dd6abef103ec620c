from __future__ import annotations

from typing import Any

from django.db import models

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id


class Task(models.Model):
    """Work that must happen after a commit and survives a crash: a row of the transaction that asks for it."""

    class Queue(models.TextChoices):
        TABULAR_PURGE = "tabular_purge"

    id = models.UUIDField(primary_key=True, default=new_id)
    queue = models.CharField(max_length=32, choices=Queue.choices)
    warehouse_id = models.UUIDField()
    entity_id = models.UUIDField()
    payload: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)
    scheduled_for = models.DateTimeField(default=now)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "warehouse_id", "entity_id"], name="task_once_per_entity")
        ]
        indexes = [models.Index(fields=["queue", "scheduled_for"], name="task_by_due_time")]

    def __str__(self) -> str:
        return f"{self.queue} {self.entity_id}"
