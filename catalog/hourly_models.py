"""Rows about warehouses that the queue `statistics` records each hour: counts, sizes, largest and slowest tables."""

from __future__ import annotations

from django.db import models


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


class WarehouseSize(models.Model):
    """The data in the live tables of a warehouse at the end of an hour in which it changed, as writers counted it.

    Tables whose writer did not count are left out. Not part of `WarehouseStatistic`, whose hours the API lists.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.CASCADE, db_index=False, related_name="+")
    hour = models.DateTimeField(help_text="Begin of the hour.")
    records = models.BigIntegerField()
    files_size = models.BigIntegerField(help_text="Bytes of data and delete files.")
    data_files = models.BigIntegerField()
    snapshots = models.BigIntegerField(null=True, help_text="Null in hours that an older version recorded.")

    class Meta:
        verbose_name = "warehouse size"
        constraints = [models.UniqueConstraint(fields=["warehouse", "hour"], name="warehouse_size_once_an_hour")]

    def __str__(self) -> str:
        return f"{self.warehouse_id} at {self.hour}"


class LargeTable(models.Model):
    """One of the largest tables of a warehouse when its sizes were last recorded, with its totals at that time."""

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.CASCADE, db_index=False, related_name="+")
    rank = models.SmallIntegerField(help_text="1 is the largest.")
    # No constraint, which would be checked at the commit: tables are deleted at any time, and these rows an hour later.
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, db_constraint=False, related_name="+")
    records = models.BigIntegerField(null=True)
    files_size = models.BigIntegerField(help_text="Bytes of data and delete files.")
    data_files = models.BigIntegerField(null=True)

    class Meta:
        verbose_name = "large table"
        constraints = [models.UniqueConstraint(fields=["warehouse", "rank"], name="large_table_by_rank")]

    def __str__(self) -> str:
        return f"{self.rank} in {self.warehouse_id}"


class SlowTable(models.Model):
    """One of the tables of a warehouse whose scans took longest to plan, by the metrics reports of some days.

    Recorded with the sizes; sums over the scans of these days.
    """

    warehouse = models.ForeignKey("storage.Warehouse", on_delete=models.CASCADE, db_index=False, related_name="+")
    rank = models.SmallIntegerField(help_text="1 is the slowest.")
    # As in `LargeTable`.
    tabular = models.ForeignKey("catalog.Tabular", on_delete=models.CASCADE, db_constraint=False, related_name="+")
    scans = models.BigIntegerField()
    planning_us = models.BigIntegerField("planning time", help_text="Microseconds.")
    result_data_files = models.BigIntegerField()
    result_delete_files = models.BigIntegerField()
    result_data_bytes = models.BigIntegerField()

    class Meta:
        verbose_name = "slow table"
        constraints = [models.UniqueConstraint(fields=["warehouse", "rank"], name="slow_table_by_rank")]

    def __str__(self) -> str:
        return f"{self.rank} in {self.warehouse_id}"
