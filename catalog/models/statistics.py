"""Figures for the console: metrics reports of engines, their daily sums, and object counts of warehouses."""

from __future__ import annotations

from typing import Any

from django.db import models


class MetricsReport(models.Model):
    """A scan or commit report of an engine, unchanged. Kept for some days, and for a limited number a day."""

    class Kind(models.TextChoices):
        SCAN = "scan-report"
        COMMIT = "commit-report"

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_reports", db_index=False
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    snapshot_id = models.BigIntegerField("snapshot ID")
    received_at = models.DateTimeField()
    document: models.JSONField[dict[str, Any]] = models.JSONField(help_text="The report as it was sent.")

    class Meta:
        verbose_name = "metrics report"
        indexes = [
            models.Index(fields=["tabular", "id"], name="metrics_report_by_tabular"),
            models.Index(fields=["received_at"], name="metrics_report_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of snapshot {self.snapshot_id}"


class MetricsDay(models.Model):
    """Sums of the metrics reports of one table on one UTC day: how it is read and written, and at what cost.

    Fields are the figures of `catalog.iceberg.metrics_reports`. `result_*` is what scans had to read after planning:
    `result_data_bytes / result_data_files` is the average size of the files that queries read, and `result_delete_files
    / result_data_files` the number of delete files that each query applies. A sum stops at 2^62 - 1.
    """

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_days", db_index=False
    )
    day = models.DateField(help_text="UTC.")

    scans = models.BigIntegerField(default=0)
    planning_us = models.BigIntegerField("planning time", default=0, help_text="Microseconds.")
    result_data_files = models.BigIntegerField(default=0)
    result_delete_files = models.BigIntegerField(default=0)
    result_equality_delete_files = models.BigIntegerField(default=0)
    result_position_delete_files = models.BigIntegerField(default=0)
    result_deletion_vectors = models.BigIntegerField(default=0)
    result_data_bytes = models.BigIntegerField(default=0)
    result_delete_bytes = models.BigIntegerField(default=0)
    skipped_data_files = models.BigIntegerField(default=0)
    skipped_delete_files = models.BigIntegerField(default=0)
    total_data_manifests = models.BigIntegerField(default=0)
    scanned_data_manifests = models.BigIntegerField(default=0)
    skipped_data_manifests = models.BigIntegerField(default=0)
    total_delete_manifests = models.BigIntegerField(default=0)
    scanned_delete_manifests = models.BigIntegerField(default=0)
    skipped_delete_manifests = models.BigIntegerField(default=0)

    commits = models.BigIntegerField(default=0)
    commit_us = models.BigIntegerField("commit time", default=0, help_text="Microseconds.")
    attempts = models.BigIntegerField(default=0)
    added_data_files = models.BigIntegerField(default=0)
    removed_data_files = models.BigIntegerField(default=0)
    added_delete_files = models.BigIntegerField(default=0)
    removed_delete_files = models.BigIntegerField(default=0)
    added_records = models.BigIntegerField(default=0)
    removed_records = models.BigIntegerField(default=0)
    added_bytes = models.BigIntegerField(default=0)
    removed_bytes = models.BigIntegerField(default=0)
    manifests_created = models.BigIntegerField(default=0)
    manifests_replaced = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = "daily metrics"
        verbose_name_plural = "daily metrics"
        constraints = [models.UniqueConstraint(fields=["tabular", "day"], name="metrics_day_once_per_tabular")]
        indexes = [models.Index(fields=["day"], name="metrics_day_by_age")]

    def __str__(self) -> str:
        return f"{self.tabular_id} on {self.day}"


class WarehouseStatistic(models.Model):
    """Number of tables and views of a warehouse at the end of an hour in which it changed, or now in the current hour.

    Dropped objects that can be restored are not counted.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.CASCADE, db_index=False, related_name="+")
    hour = models.DateTimeField(help_text="Begin of the hour.")
    tables = models.IntegerField()
    views = models.IntegerField()
    generic_tables = models.IntegerField()
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name = "warehouse statistic"
        constraints = [models.UniqueConstraint(fields=["warehouse", "hour"], name="warehouse_statistic_once_an_hour")]

    def __str__(self) -> str:
        return f"{self.warehouse_id} at {self.hour}"
