from __future__ import annotations

from django.db import models


class MetricsDay(models.Model):
    """What the metrics reports of one table on one UTC day add up to: how it is read and written, and at what cost.

    Fields are the figures of `catalog.iceberg.metrics_reports`. `result_*` is what scans had to read after planning,
    so `result_data_bytes / result_data_files` is the size of the files that queries meet, and `result_delete_files`
    against `result_data_files` says how many deletes are applied over and over. A sum stops at 2^62 - 1.
    """

    tabular = models.ForeignKey(
        "catalog.Tabular", on_delete=models.CASCADE, related_name="metrics_days", db_index=False
    )
    day = models.DateField()

    scans = models.BigIntegerField(default=0)
    planning_us = models.BigIntegerField(default=0)
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
    commit_us = models.BigIntegerField(default=0)
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
        constraints = [models.UniqueConstraint(fields=["tabular", "day"], name="metrics_day_once_per_tabular")]
        indexes = [models.Index(fields=["day"], name="metrics_day_by_age")]

    def __str__(self) -> str:
        return f"{self.tabular_id} on {self.day}"
