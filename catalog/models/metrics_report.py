from __future__ import annotations

from typing import Any

from django.db import models


class MetricsReport(models.Model):
    """What an engine reported of one scan or commit, whole. Kept for days, and for a bounded number a day."""

    class Kind(models.TextChoices):
        SCAN = "scan-report"
        COMMIT = "commit-report"

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_reports", db_index=False
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    snapshot_id = models.BigIntegerField()
    received_at = models.DateTimeField()
    document: models.JSONField[dict[str, Any]] = models.JSONField()

    class Meta:
        indexes = [
            models.Index(fields=["tabular", "id"], name="metrics_report_by_tabular"),
            models.Index(fields=["received_at"], name="metrics_report_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of snapshot {self.snapshot_id}"
