from __future__ import annotations

from typing import Any

from django.db import models


class Snapshot(models.Model):
    """One snapshot of a table: a projection of its metadata for the console and statistics, written by each commit."""

    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, related_name="snapshots")
    snapshot_id = models.BigIntegerField()
    parent_snapshot_id = models.BigIntegerField(null=True)
    sequence_number = models.BigIntegerField(null=True)
    schema_id = models.BigIntegerField(null=True)
    timestamp_ms = models.BigIntegerField()
    summary: models.JSONField[dict[str, Any]] = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tabular", "snapshot_id"], name="snapshot_once_per_tabular")]

    def __str__(self) -> str:
        return str(self.snapshot_id)
